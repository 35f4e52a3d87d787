"""The columns of a source, from DDL or a file; and Avro's schema with a marker in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql.types import StructType

_ENDINGS = (".ddl", ".json", ".avsc", ".txt")

#: A field that every Avro record gets when it is read; it is null when reading failed.
AVRO_MARKER = "__read"


def schema_file(text: str, folder: Path) -> Path | None:
    """Give the file that a `schema` names, None for DDL."""
    return folder / text if text.strip().endswith(_ENDINGS) and "\n" not in text else None


def schema_text(text: str, folder: Path) -> str:
    """Read the schema from its file, or give the text itself.

    Raises
    ------
    ValueError
        When the file cannot be read.
    """
    path = schema_file(text, folder)
    if path is None:
        return text
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not text in UTF-8"
        raise ValueError(f"the schema file {str(path)!r} cannot be read: {why}") from None


def check_schema_text(format_name: str, text: str) -> None:
    """Check what can be checked without Spark: JSON is JSON, Avro's is a record.

    Raises
    ------
    ValueError
        When it is not.
    """
    if format_name == "avro":
        marked_avro(text)
    elif text.lstrip().startswith("{"):
        _json(text)
    elif not text.strip():
        raise ValueError("the schema is empty: DDL such as 'id BIGINT, name STRING' is expected")


def marked_avro(text: str) -> str:
    """Add the marker to an Avro schema: as a reader's field with a default, it costs no byte."""
    schema = _json(text)
    if not isinstance(schema, dict) or schema.get("type") != "record" or "fields" not in schema:
        raise ValueError("the Avro schema is not a record with fields")
    marker = {"name": AVRO_MARKER, "type": "boolean", "default": True}
    return json.dumps({**schema, "fields": [*schema["fields"], marker]})


def columns(text: str) -> StructType:
    """Read DDL, or Spark's JSON, with the running Spark.

    Raises
    ------
    ValueError
        With Spark's own words when it cannot be read.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        if text.lstrip().startswith("{"):
            return StructType.fromJson(_json(text))
        found = StructType.fromDDL(" ".join(text.split()))
    except (PySparkException, KeyError, TypeError, AttributeError) as error:
        from streaming.pipeline.failures import first_line

        said = first_line(error)
        raise ValueError(f"the schema cannot be read: {said}") from None
    if not isinstance(found, StructType):
        raise ValueError(  # noqa: TRY004  (the text is wrong, not its type)
            "the schema names a type, but no columns: 'id BIGINT' is expected"
        )
    return found


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"the schema is not JSON: {error}") from None

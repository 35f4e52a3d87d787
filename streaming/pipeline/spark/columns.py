"""Columns: read from DDL, and their names compared as the running Spark compares them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from streaming.pipeline.config.files import schema_json
from streaming.pipeline.errors import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession

_CASE_SENSITIVE = "spark.sql.caseSensitive"


def columns(text: str) -> StructType:
    """Read DDL, or Spark's JSON, with the running Spark; a ValueError says what is wrong."""
    try:
        if text.lstrip().startswith("{"):
            return StructType.fromJson(schema_json(text))
        kind = StructType.fromDDL(" ".join(text.split()))
    except (PySparkException, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the schema cannot be read: {first_line(error)}") from None
    if not isinstance(kind, StructType):
        raise ValueError(  # noqa: TRY004  (the text is wrong, not its type)
            "the schema names a type, but no columns: 'id BIGINT' is expected"
        )
    return kind


def folding(spark: SparkSession) -> Callable[[str], str]:
    """Return the function that makes names equal which Spark takes for one."""
    sensitive = str(spark.conf.get(_CASE_SENSITIVE, "false")).lower() == "true"
    return str if sensitive else str.lower


def quoted(name: str) -> str:
    """Quote a name for SQL; a dot in it is then no step into a struct.

    >>> quoted("a.b`c")
    '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


def check_free(names: Iterable[str], ours: Iterable[str], fold: Callable[[str], str]) -> None:
    """Raise ValueError when Spark takes one of the names for one of ours.

    >>> check_free(["id", "_Kafka"], ["_kafka"], str.lower)
    Traceback (most recent call last):
    ValueError: the column '_Kafka' has a reserved name: use another
    """
    for name in names:
        if fold(name) in map(fold, ours):
            raise ValueError(f"the column {name!r} has a reserved name: use another")

"""Spark's functions that read a record's value, and whether one has read all of it.

Spark's JSON reader stops after the first object and its CSV reader closes an open quote at the end:
what it has left out then is not told. Here a record that was not read whole is a bad one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from streaming.pipeline.schemas import AVRO_MARKER, columns, marked_avro
from streaming.pipeline.session import avro_coordinate

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

    from streaming.pipeline.sources_config import Records

_CORRUPT = "__corrupt"
_RECORD = "__record"
_CONFLUENT_BYTES = 5
_QUOTE = '"'


class Reader(NamedTuple):
    """How a value becomes columns."""

    #: The columns.
    kind: StructType
    #: What Spark's function gives of a record; to be selected before the next two are used.
    read: Column
    #: The field of `read` that holds the columns; None when `read` is it.
    within: str | None
    #: The field of `read` that is not null for a record that failed; None for Avro.
    corrupt: str | None
    #: Whether the value was not read whole, of columns of Kafka's only.
    partly: Column


def reader(records: Records, schema: str) -> Reader:
    """Give the reader of a format.

    Raises
    ------
    ValueError
        When the schema cannot be read, or has a column of a name that is needed here.
    """
    if records.format == "avro":
        return _avro(records, schema)
    kind = columns(schema)
    if _CORRUPT in (name.lower() for name in kind.fieldNames()):
        raise ValueError(f"the column {_CORRUPT!r} has a name that is needed here: use another")
    return _json(records, kind) if records.format == "json" else _csv(records, kind)


def _json(records: Records, kind: StructType) -> Reader:
    """Read the value as a field of an object: what stands behind it then breaks that object.

    Only what closes that object, or goes on with a next field, does not; as the element of a list
    both do. The list is only read when a brace before the end says that it can be so.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructType

    options = {**records.options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    outer = StructType().add(_RECORD, kind).add(_CORRUPT, StringType())
    text = _text()
    read = f.from_json(f.concat(f.lit(f'{{"{_RECORD}":'), text, f.lit("}")), outer, options)
    lenient = {**records.options, "mode": "PERMISSIVE"}
    in_list = f.concat(f.lit("["), text, f.lit("]"))
    alone = f.size(f.from_json(in_list, "ARRAY<STRUCT<__none: BOOLEAN>>", lenient)) == 1
    more = (f.locate("}", text) < f.length(f.rtrim(text))) & ~f.coalesce(alone, f.lit(False))
    return Reader(kind, read, _RECORD, _CORRUPT, ~f.is_valid_utf8(text) | more)


def _csv(records: Records, kind: StructType) -> Reader:
    """Read by RFC 4180: a quote in a quoted field is doubled."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructType

    given = {name.lower(): value for name, value in records.options.items()}
    quote = given.get("quote", _QUOTE)
    escape = given.get("escape", quote)
    options = {**records.options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    if "escape" not in given and quote:
        options["escape"] = escape
    extended = StructType([*kind.fields]).add(_CORRUPT, StringType())
    text = _text()
    partly = ~f.is_valid_utf8(text)
    if quote and quote == escape:
        count = f.length(text) - f.length(f.replace(text, f.lit(quote), f.lit("")))
        # A quote within a field, as in `19" rack`, is text: only a field's first sign opens one.
        sep = given.get("sep", given.get("delimiter", ","))
        opens = text.rlike(rf"(?:^|{re.escape(sep)})\s*{re.escape(quote)}")
        partly = partly | (opens & (count % 2 == 1))
    if len(kind.fields) > 1:
        partly = partly | (text == "")  # Spark reads it as nulls, though fields are missing
    return Reader(kind, f.from_csv(text, extended.toDDL(), options), None, _CORRUPT, partly)


def _avro(records: Records, schema: str) -> Reader:
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro
    from pyspark.sql.types import StructType

    options = {**records.options, "mode": "PERMISSIVE", "avroSchema": marked_avro(schema)}
    body = f.col("value")
    if records.confluent:
        head = f.lit(b"\0") if records.schema_id is None else _confluent_head(records.schema_id)
        length = 1 if records.schema_id is None else _CONFLUENT_BYTES
        begins = (f.substring("value", 1, length) == head) & (f.length("value") >= _CONFLUENT_BYTES)
        body = f.when(begins, f.expr(f"substring(value, {_CONFLUENT_BYTES + 1})"))
    try:
        parsed = from_avro(body, schema, options)
    except TypeError:  # the class is not there
        raise ValueError(
            f"Avro is not in this session: add {avro_coordinate()} to spark.jars.packages"
        ) from None
    # What the reader gives is only known to Spark: look at the type of an empty frame.
    session = _session()
    empty = session.createDataFrame([], "value BINARY").select(parsed.alias("p"))
    kind = empty.schema["p"].dataType
    assert isinstance(kind, StructType)  # noqa: S101  (the schema is a record)
    kept = StructType([field for field in kind.fields if field.name != AVRO_MARKER])
    return Reader(kept, parsed, None, None, f.lit(False))


def _confluent_head(schema_id: int) -> Column:
    from pyspark.sql import functions as f

    return f.lit(b"\0" + schema_id.to_bytes(4, "big"))


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.active()


def _text() -> Column:
    from pyspark.sql import functions as f

    return f.col("value").cast("string")

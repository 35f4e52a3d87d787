"""Spark's functions that read a record's value, and whether one has read all of it.

Spark's JSON reader stops after the first object and its CSV reader closes an open quote at the end:
what it leaves out then is not told. Here a record that was not read whole is a bad one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from streaming.pipeline.config.files import AVRO_MARKER, marked_avro
from streaming.pipeline.spark.columns import columns, quoted
from streaming.pipeline.spark.session import avro_coordinate

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from streaming.pipeline.config.sources import Records

#: The column that `Reader.read` becomes, for `fields` and `failed` to look at.
PARSED = "__parsed"
_CORRUPT = "__corrupt"
_RECORD = "__record"
_CONFLUENT_BYTES = 5


class Reader(NamedTuple):
    """How a value becomes columns."""

    #: The columns.
    kind: StructType
    #: What Spark's function makes of a record; to be selected as `PARSED`.
    read: Column
    #: The struct in `PARSED` that has the columns.
    fields: str
    #: Whether reading failed, or left something out.
    failed: Column


def reader(records: Records, schema: str) -> Reader:
    """Return the reader of a format.

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

    lenient = {**records.reader_options, "mode": "PERMISSIVE"}
    options = {**lenient, "columnNameOfCorruptRecord": _CORRUPT}
    outer = StructType().add(_RECORD, kind).add(_CORRUPT, StringType())
    text = f.col("value").cast("string")
    read = f.from_json(f.concat(f.lit(f'{{"{_RECORD}":'), text, f.lit("}")), outer, options)
    in_list = f.concat(f.lit("["), text, f.lit("]"))
    alone = f.size(f.from_json(in_list, "ARRAY<STRUCT<__none: BOOLEAN>>", lenient)) == 1
    more = (f.locate("}", text) < f.length(f.rtrim(text))) & ~f.coalesce(alone, f.lit(False))
    fields = f"{PARSED}.{_RECORD}"
    return Reader(kind, read, fields, _is_corrupt(kind, fields) | ~f.is_valid_utf8(text) | more)


def _csv(records: Records, kind: StructType) -> Reader:
    """Read by RFC 4180: a quote in a quoted field is doubled."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructType

    given = {name.lower(): value for name, value in records.reader_options.items()}
    quote = given.get("quote", '"')
    escape = given.get("escape", quote)
    options = {
        **records.reader_options,
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": _CORRUPT,
    }
    if "escape" not in given and quote:
        options["escape"] = escape
    extended = StructType([*kind.fields]).add(_CORRUPT, StringType())
    text = f.col("value").cast("string")
    failed = _is_corrupt(kind, PARSED) | ~f.is_valid_utf8(text)
    if quote and quote == escape:
        count = f.length(text) - f.length(f.replace(text, f.lit(quote), f.lit("")))
        # A quote within a field, as in `19" rack`, is text: only a field's first sign opens one.
        sep = given.get("sep", given.get("delimiter", ","))
        opens = text.rlike(rf"(?:^|{re.escape(sep)})\s*{re.escape(quote)}")
        failed = failed | (opens & (count % 2 == 1))
    if len(kind.fields) > 1:
        failed = failed | (text == "")  # Spark reads it as nulls, though fields are missing
    return Reader(kind, f.from_csv(text, extended.toDDL(), options), PARSED, failed)


def _is_corrupt(kind: StructType, fields: str) -> Column:
    """Whether Spark could not read the record, or a column declared NOT NULL is missing."""
    from pyspark.sql import functions as f

    failed = f.col(fields).isNull() | f.col(f"{PARSED}.{_CORRUPT}").isNotNull()
    for field in kind.fields:
        if not field.nullable:
            failed = failed | f.col(f"{fields}.{quoted(field.name)}").isNull()
    return failed


def _avro(records: Records, schema: str) -> Reader:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro
    from pyspark.sql.types import StructType

    options = {**records.reader_options, "mode": "PERMISSIVE", "avroSchema": marked_avro(schema)}
    body = f.col("value")
    if records.confluent:
        number = records.schema_id
        head = b"\0" + (number.to_bytes(4, "big") if number is not None else b"")
        has_head = f.substring("value", 1, len(head)) == f.lit(head)
        begins = has_head & (f.length("value") >= _CONFLUENT_BYTES)
        body = f.when(begins, f.expr(f"substring(value, {_CONFLUENT_BYTES + 1})"))
    try:
        parsed = from_avro(body, schema, options)
    except TypeError:  # the class is not there
        raise ValueError(
            f"Avro is not in this session: add {avro_coordinate()} to spark.jars.packages"
        ) from None
    # What the reader gives is only known to Spark: look at the type of an empty frame.
    empty = SparkSession.active().createDataFrame([], "value BINARY").select(parsed.alias("p"))
    kind = empty.schema["p"].dataType
    assert isinstance(kind, StructType)  # noqa: S101  (the schema is a record)
    kept = StructType([field for field in kind.fields if field.name != AVRO_MARKER])
    failed = f.col(PARSED).isNull() | f.col(f"{PARSED}.{AVRO_MARKER}").isNull()
    return Reader(kept, parsed, PARSED, failed)

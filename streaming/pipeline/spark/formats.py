"""The formats of records: how Spark's functions make columns of a value, and when it is bad.

Spark's functions report only part of what they cannot read, and do not survive every input, so the
jar checks records first: JSON (`JsonRecords.java`), Avro (`AvroRecords.java`), and decimals in text
(`ExactDecimals.java`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark import SparkContext
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DecimalType, StringType, StructField, StructType

from streaming.pipeline.config.files import AVRO_MARKER, marked_avro
from streaming.pipeline.spark.columns import columns, quote_name
from streaming.pipeline.spark.session import avro_coordinate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import DataType

    from streaming.pipeline.config.sources import Records

#: The column that `Reader.read` becomes, for `values` and `failed` to look at.
PARSED = "__parsed"
_CORRUPT = "__corrupt"
_CONFLUENT_BYTES = 5
#: How an option of Spark's CSV reader writes signs that YAML and shells make hard to write.
_ESCAPED, _SIGNS = re.compile(r"\\(.)"), {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f"}
#: The line end that closes a record of CSV.
_LINE_END = r"(?:\r\n|\n|\r)\z"


class Reader(NamedTuple):
    """How a value becomes columns."""

    #: The columns.
    kind: StructType
    #: What Spark's function makes of a record; to be selected as `PARSED`.
    read: Column
    #: The value of each column, made of `PARSED`.
    values: list[Column]
    #: Whether reading failed, or left something out.
    failed: Column


def reader_of(records: Records, schema: str) -> Reader:
    """Return the reader of a format; a ValueError says what is wrong with the schema."""
    if records.format == "avro":
        return _avro(records, schema)
    kind = columns(schema)
    if _CORRUPT in (name.lower() for name in kind.fieldNames()):
        raise ValueError(f"the column {_CORRUPT!r} has a reserved name: use another")
    return _json(records, kind) if records.format == "json" else _csv(records, kind)


def read_text(text: Column, kind: DataType) -> Column:
    """Read text as a type; null if it cannot be read, or not without losing a digit."""
    if isinstance(kind, DecimalType):
        return _call_jar("ExactDecimals", "read", text, kind.precision, kind.scale)
    return text.try_cast(kind)


def read_json(
    value: Column, kind: StructType, options: Mapping[str, str], read_as: StructType | None = None
) -> Column:
    """Read an object; null if it is none, is not alone, or has a number that would be changed."""
    checked = _call_jar("JsonRecords", "check", value, kind.json(), dict(options))
    return f.from_json(checked.cast("string"), read_as or kind, {**options})


def _call_jar(name: str, method: str, column: Column, *arguments: object) -> Column:
    """Call a static method of the jar that makes a column of a column."""
    jvm: Any = SparkContext.getOrCreate()._jvm
    of_jar = getattr(jvm.io.assignorbridge.records, name)
    try:
        return Column(getattr(of_jar, method)(column._jc, *arguments))
    except TypeError:  # a package is no class: it is not there
        raise ValueError(
            "the jar of assignor-bridge is not in this session, or is of an older version: "
            "start it with configure_spark"
        ) from None


def _json(records: Records, kind: StructType) -> Reader:
    read_as, options = _noting_failure(records, kind)
    read = read_json(f.col("value"), kind, options, read_as)
    values = [f.col(f"{PARSED}.{quote_name(name)}") for name in kind.fieldNames()]
    return Reader(kind, read, values, _is_corrupt(kind, values))


def _csv(records: Records, kind: StructType) -> Reader:
    """Read by RFC 4180: a quote in a quote_name field is doubled, a line end closes the record."""
    given = {name.lower(): value for name, value in records.reader_options.items()}
    quote = given.get("quote", '"')
    escape = given.get("escape", quote)
    # Other locales write numbers with other signs, which Spark's own reader knows.
    exact = [isinstance(x.dataType, DecimalType) and "locale" not in given for x in kind.fields]
    cells = StructType([
        StructField(x.name, StringType()) if as_text else x
        for x, as_text in zip(kind.fields, exact, strict=True)
    ])  # fmt: skip
    read_as, options = _noting_failure(records, cells)
    if "escape" not in given and quote:
        options["escape"] = escape
    whole = f.col("value").cast("string")
    text = f.regexp_replace(whole, _LINE_END, "")
    values, failed = [], ~f.is_valid_utf8(whole)  # Java's patterns replace what is not UTF-8
    for field, as_text in zip(kind.fields, exact, strict=True):
        cell = f.col(f"{PARSED}.{quote_name(field.name)}")
        value = read_text(cell, field.dataType) if as_text else cell
        failed = (failed | (cell.isNotNull() & value.isNull())) if as_text else failed
        values.append(value)
    if quote and quote == escape:
        count = f.length(text) - f.length(f.replace(text, f.lit(quote), f.lit("")))
        # A quote within a field, as in `19" rack`, is text: only a field's first sign opens one.
        sep = _ESCAPED.sub(
            lambda sign: _SIGNS.get(sign[1], sign[1]), given.get("sep", given.get("delimiter", ","))
        )
        opens = text.rlike(rf"(?:^|{re.escape(sep)})\s*{re.escape(quote)}")
        failed = failed | (opens & (count % 2 == 1))
    if len(kind.fields) > 1:
        failed = failed | (text == "")  # Spark reads it as nulls, though fields are missing
    read = f.from_csv(text, read_as.toDDL(), options)
    return Reader(kind, read, values, _is_corrupt(kind, values) | failed)


def _noting_failure(records: Records, kind: StructType) -> tuple[StructType, dict[str, str]]:
    """Return the schema and the options by which Spark notes that it could not read a record."""
    extended = StructType([*kind.fields]).add(_CORRUPT, StringType())
    own = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    return extended, {**records.reader_options, **own}


def _is_corrupt(kind: StructType, values: list[Column]) -> Column:
    """Whether Spark could not read the record, or a column declared NOT NULL is missing."""
    failed = f.col(PARSED).isNull() | f.col(f"{PARSED}.{_CORRUPT}").isNotNull()
    for field, value in zip(kind.fields, values, strict=True):
        if not field.nullable:
            failed = failed | value.isNull()
    return failed


def _avro(records: Records, schema: str) -> Reader:
    from pyspark.sql.avro.functions import from_avro

    options = {**records.reader_options, "mode": "PERMISSIVE", "avroSchema": marked_avro(schema)}
    body = f.col("value")
    if records.confluent:
        number = records.schema_id
        head = b"\0" + (number.to_bytes(4, "big") if number is not None else b"")
        has_head = f.substring("value", 1, len(head)) == f.lit(head)
        begins = has_head & (f.length("value") >= _CONFLUENT_BYTES)
        body = f.when(begins, f.expr(f"substring(value, {_CONFLUENT_BYTES + 1})"))
    try:
        parsed = from_avro(_call_jar("AvroRecords", "check", body, schema), schema, options)
    except TypeError:  # the class is not there
        raise ValueError(
            f"Avro is not in this session: add {avro_coordinate()} to spark.jars.packages"
        ) from None
    # What the reader gives is only known to Spark: look at the type of an empty frame.
    empty = SparkSession.active().createDataFrame([], "value BINARY").select(parsed.alias("p"))
    kind = empty.schema["p"].dataType
    assert isinstance(kind, StructType)  # noqa: S101  (the schema is a record)
    kept = StructType([field for field in kind.fields if field.name != AVRO_MARKER])
    values = [f.col(f"{PARSED}.{quote_name(name)}") for name in kept.fieldNames()]
    failed = f.col(PARSED).isNull() | f.col(f"{PARSED}.{AVRO_MARKER}").isNull()
    return Reader(kept, parsed, values, failed)

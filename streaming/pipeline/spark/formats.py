"""Parse record values with Spark's JSON, CSV and Avro functions, and detect bad values.

Spark's functions miss some unreadable values and crash on some input, so the jar checks JSON
(`JsonRecords.java`) and Avro (`AvroRecords.java`), and parses decimals (`ExactDecimals.java`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark import SparkContext
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DecimalType, StringType, StructField, StructType

from streaming.pipeline.config.referenced_files import AVRO_MARKER, add_avro_marker
from streaming.pipeline.spark.column_names import parse_schema, quote_name
from streaming.pipeline.spark.job_session import avro_coordinate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import DataType

    from streaming.pipeline.config.sources import Records

#: Name of the column `RecordParser.parsed`, on which `values` and `failed` depend.
PARSED = "__parsed"
_CORRUPT = "__corrupt"
_CONFLUENT_HEADER_BYTES = 5
#: Escapes in Spark's CSV reader options, for characters that are hard to write in YAML.
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED_CHARACTERS = {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f"}
_LINE_END = r"(?:\r\n|\n|\r)\z"


class RecordParser(NamedTuple):
    """Expressions that parse a value into columns."""

    schema: StructType
    #: Result of Spark's function, to be selected as `PARSED`.
    parsed: Column
    #: Value of each column, computed from `PARSED`.
    values: list[Column]
    #: Whether parsing failed or was incomplete.
    failed: Column


def make_parser(records: Records, schema_text: str) -> RecordParser:
    """Return a format's parser; raise ValueError if the schema is invalid or a jar is missing."""
    if records.format == "avro":
        return _build_avro_parser(records, schema_text)
    schema = parse_schema(schema_text)
    if _CORRUPT in (name.lower() for name in schema.fieldNames()):
        raise ValueError(f"the column {_CORRUPT!r} has a reserved name: use another")
    build = _build_json_parser if records.format == "json" else _build_csv_parser
    return build(records, schema)


def cast_to(text: Column, data_type: DataType) -> Column:
    """Convert text to a type; null if that is impossible, or if a decimal would lose a digit."""
    if isinstance(data_type, DecimalType):
        return _call_jar("ExactDecimals", "parse", text, data_type.precision, data_type.scale)
    return text.try_cast(data_type)


def parse_json(
    value: Column, schema: StructType, options: Mapping[str, str], target: StructType | None = None
) -> Column:
    """Parse one JSON object; null if it is invalid, or has a number that Spark would change.

    The result has the type `target`, by default `schema`.
    """
    checked_value = _call_jar("JsonRecords", "check", value, schema.json(), dict(options))
    return f.from_json(checked_value.cast("string"), target or schema, {**options})


def _call_jar(name: str, method: str, column: Column, *arguments: object) -> Column:
    """Call a static method in the jar, which returns a column; ValueError if the jar lacks it."""
    jvm: Any = SparkContext.getOrCreate()._jvm
    java_class = getattr(jvm.io.assignorbridge.records, name)
    try:
        return Column(getattr(java_class, method)(column._jc, *arguments))
    except TypeError:  # py4j returns a package for a missing class
        raise ValueError(
            "the session has no assignor-bridge jar, or an older version of it: start the session "
            "with configure_spark"
        ) from None


def _build_json_parser(records: Records, schema: StructType) -> RecordParser:
    extended_schema, options = _add_corrupt_marker(records, schema)
    parsed = parse_json(f.col("value"), schema, options, extended_schema)
    values = [f.col(f"{PARSED}.{quote_name(name)}") for name in schema.fieldNames()]
    return RecordParser(schema, parsed, values, _is_corrupt(schema, values))


def _build_csv_parser(records: Records, schema: StructType) -> RecordParser:
    """Return a parser for RFC 4180 (quoted fields double their quotes); a value is one record."""
    csv_options = {name.lower(): value for name, value in records.reader_options.items()}
    quote = csv_options.get("quote", '"')
    escape = csv_options.get("escape", quote)
    # Only Spark's reader supports the decimal signs of other locales.
    casts_decimals = "locale" not in csv_options
    are_text = [casts_decimals and isinstance(x.dataType, DecimalType) for x in schema.fields]
    pairs = list(zip(schema.fields, are_text, strict=True))
    csv_fields = [StructField(x.name, StringType()) if is_text else x for x, is_text in pairs]
    extended_schema, options = _add_corrupt_marker(records, StructType(csv_fields))
    if "escape" not in csv_options and quote:
        options["escape"] = escape
    value_text = f.col("value").cast("string")
    text = f.regexp_replace(value_text, _LINE_END, "")
    values, failed = [], ~f.is_valid_utf8(value_text)  # invalid UTF-8 would be replaced below
    for field, is_text in pairs:
        cell = f.col(f"{PARSED}.{quote_name(field.name)}")
        value = cast_to(cell, field.dataType) if is_text else cell
        failed = (failed | (cell.isNotNull() & value.isNull())) if is_text else failed
        values.append(value)
    if quote and quote == escape:
        quote_count = f.length(text) - f.length(f.replace(text, f.lit(quote), f.lit("")))
        # Only a quote at the start of a field opens a quoted field; in `19" rack` it is text.
        sep = csv_options.get("sep", csv_options.get("delimiter", ","))
        sep = _ESCAPE.sub(lambda match: _ESCAPED_CHARACTERS.get(match[1], match[1]), sep)
        has_quoted_field = text.rlike(rf"(?:^|{re.escape(sep)})\s*{re.escape(quote)}")
        failed = failed | (has_quoted_field & (quote_count % 2 == 1))
    if len(schema.fields) > 1:
        failed = failed | (text == "")  # Spark reads it as nulls, although fields are missing
    parsed = f.from_csv(text, extended_schema.toDDL(), options)
    return RecordParser(schema, parsed, values, _is_corrupt(schema, values) | failed)


def _add_corrupt_marker(records: Records, schema: StructType) -> tuple[StructType, dict[str, str]]:
    """Return a schema and options with which Spark marks the records that it cannot read."""
    extended_schema = StructType([*schema.fields]).add(_CORRUPT, StringType())
    corrupt_options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    return extended_schema, {**records.reader_options, **corrupt_options}


def _is_corrupt(schema: StructType, values: list[Column]) -> Column:
    """Return whether Spark could not read the record, or a NOT NULL column has no value."""
    failed = f.col(PARSED).isNull() | f.col(f"{PARSED}.{_CORRUPT}").isNotNull()
    for field, value in zip(schema.fields, values, strict=True):
        if not field.nullable:
            failed = failed | value.isNull()
    return failed


def _build_avro_parser(records: Records, schema_text: str) -> RecordParser:
    from pyspark.sql.avro.functions import from_avro

    options = {**records.reader_options, "mode": "PERMISSIVE"}
    options["avroSchema"] = add_avro_marker(schema_text)
    body = f.col("value")
    if records.confluent:
        schema_id = records.schema_id
        header = b"\0" + (schema_id.to_bytes(4, "big") if schema_id is not None else b"")
        has_header = f.substring("value", 1, len(header)) == f.lit(header)
        is_confluent = has_header & (f.length("value") >= _CONFLUENT_HEADER_BYTES)
        body = f.when(is_confluent, f.expr(f"substring(value, {_CONFLUENT_HEADER_BYTES + 1})"))
    try:
        checked_body = _call_jar("AvroRecords", "check", body, schema_text)
        parsed = from_avro(checked_body, schema_text, options)
    except TypeError:  # the class is missing
        raise ValueError(
            f"the session has no Avro functions: add {avro_coordinate()} to spark.jars.packages"
        ) from None
    # Only Spark knows the columns of an Avro schema, so take them from an empty frame.
    frame = SparkSession.active().createDataFrame([], "value BINARY").select(parsed.alias("p"))
    marked_schema: Any = frame.schema["p"].dataType  # a struct, because the schema is a record
    schema = StructType([field for field in marked_schema.fields if field.name != AVRO_MARKER])
    values = [f.col(f"{PARSED}.{quote_name(name)}") for name in schema.fieldNames()]
    failed = f.col(PARSED).isNull() | f.col(f"{PARSED}.{AVRO_MARKER}").isNull()
    return RecordParser(schema, parsed, values, failed)

"""Parse Kafka's records into columns, and separate the bad ones.

A parsed view has the schema's columns and one struct `_kafka` with topic, partition, offset,
timestamp, key and `tombstone`. A record is bad if it cannot be read completely and exactly with the
schema, or if a NOT NULL column has no value. A null value is a tombstone, and so is the JSON text
`null`; a tombstone is bad only if an upsert needs its key and cannot read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, MapType, StructType

from streaming.pipeline.spark.column_names import (
    check_reserved_names,
    get_name_normalizer,
    parse_schema,
)
from streaming.pipeline.spark.formats import PARSED, RecordParser, cast_to, make_parser, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

    from streaming.pipeline.config.sources import Records

#: The struct with Kafka's own columns, which sinks drop.
KAFKA = "_kafka"
#: Fields of this struct that order the rows of a key.
KAFKA_ORDER = ("topic", "partition", "offset", "timestamp")
KAFKA_FIELDS = (*KAFKA_ORDER, "key", "tombstone")
#: Name of the column that gives the reason why a record is bad.
REASON = "reason"
_BAD = "__bad"


class ParsedRows(NamedTuple):
    """The rows of a source, and its bad records."""

    #: The good rows; with `bad_records: fail`, reading them fails at the first bad record.
    rows: DataFrame
    #: Kafka's columns of the bad records, and `REASON`; for the format `raw`, empty and without it.
    bad_records: DataFrame


class Upsert(NamedTuple):
    """An upsert that writes the rows of a source."""

    keys: tuple[str, ...]
    #: Whether a transform may set a tombstone's key columns, so that they may be null here.
    set_by_transform: bool


#: Used for a source whose rows no upsert writes.
_NO_UPSERT = Upsert((), set_by_transform=True)


def parse_records(
    frame: DataFrame, name: str, records: Records, schema_text: str, *, upserts: Sequence[Upsert]
) -> ParsedRows:
    """Parse the records of a source, in a frame with the columns of Kafka's source.

    `name` is the source's name, for messages and the observed metrics. `upserts` write the rows;
    without any, only the format `raw` keeps tombstones.

    Raises ValueError if a schema is invalid, a column has a reserved name, or the jar is missing.
    """
    tombstone = f.col("value").isNull()
    if records.format == "raw":
        rows = frame.select("*", build_kafka_struct(f.col("key"), tombstone))
        return ParsedRows(rows, frame.where("false"))
    if records.format == "json":
        tombstone = tombstone | (f.trim(f.col("value").cast("string")) == "null")
    normalize = get_name_normalizer(frame.sparkSession)
    parser = make_parser(records, schema_text)
    fields = parser.schema.fields
    key_columns_per_upsert = [
        _build_key_columns(records, parser.schema, upsert.keys, normalize)
        for upsert in upserts or [_NO_UPSERT]
    ]
    remaining_keys = dict(key_columns_per_upsert[0])
    names = [*(x.name for x in fields), *(name for name, _ in remaining_keys.values())]
    check_reserved_names(names, [KAFKA], normalize)
    lacks_key = f.lit(False)
    for upsert, key_columns in zip(upserts, key_columns_per_upsert, strict=False):
        if records.key is not None or not upsert.set_by_transform:
            for key in upsert.keys:
                if normalize(key) in key_columns:
                    lacks_key = lacks_key | key_columns[normalize(key)][1].isNull()
    is_tombstone = f.col(f"{KAFKA}.tombstone")
    marked_rows = (
        frame.select("*", build_kafka_struct(f.col("key"), tombstone), parser.parsed.alias(PARSED))
        .withColumn(_BAD, f.when(is_tombstone, lacks_key).otherwise(parser.failed))
        .observe(
            name,
            f.count("*").alias("records"),
            f.count_if(_BAD).alias("bad_records"),
            f.count_if(is_tombstone).alias("tombstones"),
            *build_checksum_columns(),
        )
    )
    is_fatal = records.bad_records == "fail"
    good_rows = marked_rows.where(_fail_on_bad_record(name, records) if is_fatal else f"NOT {_BAD}")
    if not upserts:
        good_rows = good_rows.where(f"NOT {KAFKA}.tombstone")
    columns = []
    for field, value in zip(fields, parser.values, strict=True):
        column = value
        if normalize(field.name) in remaining_keys:
            key_value = remaining_keys.pop(normalize(field.name))[1]
            column = f.coalesce(value, f.when(is_tombstone, key_value))
        columns.append(column.alias(field.name))
    columns += [column.alias(name) for name, column in remaining_keys.values()]
    reason = _build_reason(records, parser, is_tombstone)
    bad_rows = marked_rows.where(_BAD).withColumn(REASON, reason)
    return ParsedRows(good_rows.select(*columns, KAFKA), bad_rows.select(*frame.columns, REASON))


def _build_reason(records: Records, parser: RecordParser, is_tombstone: Column) -> Column:
    """Return the reason why a record is bad, as text with column names, but no values."""
    value_text = f.col("value").cast("string")
    unreadable_names, missing_names = [], []
    for field, value in zip(parser.schema.fields, parser.values, strict=True):
        is_null = value.isNull() & f.col(PARSED).isNotNull()
        if records.format == "json":
            json_value = f.get_json_object(value_text, f"$['{field.name}']")
            unreadable_names.append(f.when(is_null & json_value.isNotNull(), f.lit(field.name)))
        if not field.nullable:
            missing_names.append(f.when(is_null, f.lit(field.name)))
    unreadable_text = f.concat_ws(", ", *unreadable_names)
    missing_text = f.concat_ws(", ", *missing_names)
    type_reason = f.concat(f.lit("these columns cannot be read as their types: "), unreadable_text)
    value_reason = f.concat(f.lit("these NOT NULL columns have no value: "), missing_text)
    return (
        f.when(is_tombstone, f.lit("a tombstone whose key cannot be read as the upsert's key"))
        .when(unreadable_text != "", type_reason)
        .when(missing_text != "", value_reason)
        .otherwise(f.lit(f"it cannot be read as {records.format} with the schema"))
    )


def build_checksum_columns() -> list[Column]:
    """Return the checksum that `assignor audit` compares with the batch's offsets."""
    return [f.bit_xor(f.xxhash64("topic", "partition", "offset")).alias("checksum")]


def build_kafka_struct(key: Column, tombstone: Column) -> Column:
    """Return `_kafka` for a frame that has the columns of Kafka's source, except the key."""
    columns = [*map(f.col, KAFKA_ORDER), key, f.coalesce(tombstone, f.lit(False))]
    renames = zip(columns, KAFKA_FIELDS, strict=True)
    return f.struct(*(column.alias(name) for column, name in renames)).alias(KAFKA)


def format_position(topic: str, partition: str, offset: str) -> Column:
    """Return the position of a record for messages, such as `orders-0 offset 5`."""
    topic_partition = f.concat_ws("-", topic, f.col(partition).cast("string"))
    return f.concat(topic_partition, f.lit(" offset "), f.col(offset).cast("string"))


def _fail_on_bad_record(name: str, records: Records) -> Column:
    """Return a condition that is true, or fails with a bad record's position (not its content)."""
    problem = f.when(
        f.col(f"{KAFKA}.tombstone"),
        f.lit(
            " is a tombstone whose key cannot be read as the upsert's: set or correct "
            "'records.key', or set the key columns from _kafka.key in a transform"
        ),
    ).otherwise(f.lit(f" cannot be read as {records.format} with the schema"))
    prefix = f.lit(f"source '{name}': the record at ")
    position = format_position("topic", "partition", "offset")
    remedy = f.lit("; to continue without such records set bad_records: drop or dead_letter")
    message = f.concat(prefix, position, problem, remedy)
    return f.when(f.col(_BAD), f.raise_error(message).cast("boolean")).otherwise(True)


def _build_key_columns(
    records: Records, schema: StructType, keys: tuple[str, ...], normalize: Callable[[str], str]
) -> dict[str, tuple[str, Column]]:
    """Return the name and expression of each known column in Kafka's key, by normalized name.

    They fill tombstone rows, and in all rows the columns that are missing from the schema.
    """
    if records.key is None:
        key_names = {normalize(keys[0])} if len(keys) == 1 else set()
        key_schema = StructType([x for x in schema.fields if normalize(x.name) in key_names])
    else:
        key_schema = parse_schema(records.key)
    if not key_schema.fields:
        return {}
    key_object = parse_json(f.col("key"), key_schema, {})
    values = {field.name: key_object.getField(field.name) for field in key_schema.fields}
    if len(key_schema.fields) == 1:
        (field,) = key_schema.fields
        text = f.col("key").cast("string")
        text = f.when(f.is_valid_utf8(text), text)
        # Debezium's key is an object even for one column, {"id": 1}; other writers send the text.
        value = f.when(f.array_contains(f.json_object_keys(text), field.name), values[field.name])
        if not isinstance(field.dataType, (StructType, ArrayType, MapType)):
            value = value.otherwise(cast_to(text, field.dataType))
        values = {field.name: value}
    return {normalize(name): (name, column) for name, column in values.items()}

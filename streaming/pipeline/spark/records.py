"""From Kafka's records to columns: JSON, Avro and CSV by Spark's own functions, bad ones set apart.

A parsed view has the schema's columns and one struct `_kafka` with topic, partition, offset,
timestamp, key and `tombstone`. A record is bad when it cannot be read, whole and without losing a
digit, with the schema, or when a column declared NOT NULL is missing. A null value is a tombstone
(for JSON the text `null` too); that is bad only when an upsert needs its key and cannot read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, MapType, StructType

from streaming.pipeline.spark.columns import check_reserved_names, columns, get_name_normalizer
from streaming.pipeline.spark.formats import PARSED, Reader, read_json, read_text, reader_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

    from streaming.pipeline.config.sources import Records

#: The struct with Kafka's own columns; sinks leave it out.
KAFKA = "_kafka"
#: Those of its fields that order the rows of a key.
KAFKA_ORDER = ("topic", "partition", "offset", "timestamp")
KAFKA_FIELDS = (*KAFKA_ORDER, "key", "tombstone")
#: Why a record is bad.
REASON = "reason"
_BAD = "__bad"


class ParsedSource(NamedTuple):
    """The rows of a source, and its bad records."""

    #: The view: good rows only, or failing at the first bad one.
    rows: DataFrame
    #: Kafka's columns of the bad records, and `REASON`; None for raw ones.
    bad: DataFrame | None


class UpsertKeys(NamedTuple):
    """What the parser knows of an upsert that gets the rows."""

    keys: tuple[str, ...]
    #: Whether a later step may make the key columns of a tombstone, so that null may stay in them.
    makes_keys: bool


#: For a source whose rows no upsert gets.
_NOBODY = UpsertKeys((), makes_keys=True)


def parse_records(
    frame: DataFrame, name: str, records: Records, schema: str, *, upserts: Sequence[UpsertKeys]
) -> ParsedSource:
    """Parse the records of a source.

    Parameters
    ----------
    frame
        Kafka's columns.
    name
        Name of the source, for messages and the observed counts.
    records, schema
        How they are read, and the text of the schema.
    upserts
        The upserts that the rows go to: tombstones stay; without any they are dropped.

    Raises
    ------
    ValueError
        When the schema, or the key's, cannot be read, or has a column of a name that is ours.
    """
    tombstone = f.col("value").isNull()
    if records.format == "raw":
        return ParsedSource(frame.select("*", build_kafka_struct(f.col("key"), tombstone)), None)
    if records.format == "json":
        tombstone = tombstone | (f.trim(f.col("value").cast("string")) == "null")
    normalize = get_name_normalizer(frame.sparkSession)
    by_format = reader_of(records, schema)
    fields = by_format.kind.fields
    keys = [_key_columns(records, by_format.kind, u.keys, normalize) for u in upserts or [_NOBODY]]
    check_reserved_names(
        [*(x.name for x in fields), *(name for name, _ in keys[0].values())], [KAFKA], normalize
    )
    keyless = f.lit(False)
    for upsert, read in zip(upserts, keys, strict=False):
        if records.key is not None or not upsert.makes_keys:
            for key in upsert.keys:
                if normalize(key) in read:
                    keyless = keyless | read[normalize(key)][1].isNull()
    is_tombstone = f.col(f"{KAFKA}.tombstone")
    marked = (
        frame.select("*", build_kafka_struct(f.col("key"), tombstone), by_format.read.alias(PARSED))
        .withColumn(_BAD, f.when(is_tombstone, keyless).otherwise(by_format.failed))
        .observe(
            name,
            f.count("*").alias("records"),
            f.count_if(_BAD).alias("bad_records"),
            f.count_if(is_tombstone).alias("tombstones"),
            *build_checksum_columns(),
        )
    )
    good = marked.where(_failing(name, records) if records.bad_records == "fail" else f"NOT {_BAD}")
    if not upserts:
        good = good.where(f"NOT {KAFKA}.tombstone")
    of_key = dict(keys[0])
    selected = []
    for field, value in zip(fields, by_format.values, strict=True):
        column = value
        if normalize(field.name) in of_key:
            of_tombstone = f.when(is_tombstone, of_key.pop(normalize(field.name))[1])
            column = f.coalesce(value, of_tombstone)
        selected.append(column.alias(field.name))
    selected += [column.alias(name) for name, column in of_key.values()]
    bad = marked.where(_BAD).withColumn(REASON, _reason(records, by_format, is_tombstone))
    return ParsedSource(good.select(*selected, KAFKA), bad.select(*frame.columns, REASON))


def _reason(records: Records, by_format: Reader, is_tombstone: Column) -> Column:
    """Return why a record is bad, with names of columns and without a value of the record."""
    text = f.col("value").cast("string")
    unread, missing = [], []
    for field, value in zip(by_format.kind.fields, by_format.values, strict=True):
        is_null = value.isNull() & f.col(PARSED).isNotNull()
        if records.format == "json":
            sent = f.get_json_object(text, f"$['{field.name}']")
            unread.append(f.when(is_null & sent.isNotNull(), f.lit(field.name)))
        if not field.nullable:
            missing.append(f.when(is_null, f.lit(field.name)))
    names, needed = f.concat_ws(", ", *unread), f.concat_ws(", ", *missing)
    return (
        f.when(is_tombstone, f.lit("a tombstone whose key cannot be read as that of the upsert"))
        .when(names != "", f.concat(f.lit("these columns cannot be read as their types: "), names))
        .when(needed != "", f.concat(f.lit("these NOT NULL columns have no value: "), needed))
        .otherwise(f.lit(f"it cannot be read as {records.format} with the schema"))
    )


def build_checksum_columns() -> list[Column]:
    """Return what `assignor audit` compares with the batch's offsets (`audit/checksum.py`)."""
    return [f.bit_xor(f.xxhash64("topic", "partition", "offset")).alias("checksum")]


def build_kafka_struct(key: Column, tombstone: Column) -> Column:
    """Return the struct of a frame that has the other columns of Kafka's source."""
    columns = [*map(f.col, KAFKA_ORDER), key, f.coalesce(tombstone, f.lit(False))]
    named = zip(columns, KAFKA_FIELDS, strict=True)
    return f.struct(*(column.alias(name) for column, name in named)).alias(KAFKA)


def format_position(topic: str, partition: str, offset: str) -> Column:
    """Say where a record lies, as messages do: `orders-0 offset 5`."""
    where = f.concat_ws("-", topic, f.col(partition).cast("string"))
    return f.concat(where, f.lit(" offset "), f.col(offset).cast("string"))


def _failing(name: str, records: Records) -> Column:
    """Keep good rows; a bad one fails the query and says where it lies, not what is in it."""
    why = f.when(
        f.col(f"{KAFKA}.tombstone"),
        f.lit(
            " is a tombstone whose key cannot be read as the upsert's: set 'records.key', or make "
            "the key columns of _kafka.key in a transform"
        ),
    ).otherwise(f.lit(f" cannot be read as {records.format} with the schema"))
    words = f.concat(
        f.lit(f"source '{name}': the record at "), format_position("topic", "partition", "offset"), why,
        f.lit("; to continue without such records set bad_records: drop or dead_letter"),
    )  # fmt: skip
    return f.when(f.col(_BAD), f.raise_error(words).cast("boolean")).otherwise(True)


def _key_columns(
    records: Records,
    kind: StructType,
    upsert_keys: tuple[str, ...],
    normalize: Callable[[str], str],
) -> dict[str, tuple[str, Column]]:
    """Return columns of Kafka's key, for tombstones (and all rows where the schema lacks them).

    They are named as they are written, by their folded names.
    """
    if records.key is None:
        named = {normalize(upsert_keys[0])} if len(upsert_keys) == 1 else set()
        kind = StructType([field for field in kind.fields if normalize(field.name) in named])
    else:
        kind = columns(records.key)
    if not kind.fields:
        return {}
    of_object = read_json(f.col("key"), kind, {})
    read = {field.name: of_object.getField(field.name) for field in kind.fields}
    if len(kind.fields) == 1:
        (field,) = kind.fields
        text = f.col("key").cast("string")
        text = f.when(f.is_valid_utf8(text), text)
        # Debezium's key is an object even for one column, {"id": 1}; other writers send the text.
        value = f.when(f.array_contains(f.json_object_keys(text), field.name), read[field.name])
        if not isinstance(field.dataType, (StructType, ArrayType, MapType)):
            value = value.otherwise(read_text(text, field.dataType))
        read = {field.name: value}
    return {normalize(name): (name, column) for name, column in read.items()}

"""From Kafka's records to columns: JSON, Avro and CSV by Spark's own functions, bad ones set apart.

A parsed view has the schema's columns and one struct `_kafka` with topic, partition, offset,
timestamp, key and `tombstone`. A record is bad when Spark's function cannot read it, whole, with
the schema, or when a column declared NOT NULL is missing. A null value is a tombstone (for JSON the
text `null` too); that is bad only when an upsert needs its key and cannot read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from streaming.pipeline.names import clashing, folding, quoted
from streaming.pipeline.readers import reader
from streaming.pipeline.schemas import AVRO_MARKER, columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from streaming.pipeline.readers import Reader
    from streaming.pipeline.sources_config import Records

#: The struct with Kafka's own columns; sinks leave it out.
KAFKA = "_kafka"
KAFKA_FIELDS = ("topic", "partition", "offset", "timestamp", "key", "tombstone")
_PARSED = "__parsed"
_BAD = "__bad"


@dataclass(frozen=True, slots=True)
class Parsed:
    """The rows of a source, and its bad records."""

    #: The view: good rows only, or failing at the first bad one.
    rows: DataFrame
    #: Kafka's columns of the bad records; None for raw ones.
    bad: DataFrame | None


class Upsert(NamedTuple):
    """What the parser knows of an upsert that gets the rows."""

    keys: tuple[str, ...]
    #: Whether a later step may make the key columns of a tombstone, so that null may stay in them.
    makes_keys: bool


def parse(
    frame: DataFrame, name: str, records: Records, schema: str, *, upserts: Sequence[Upsert]
) -> Parsed:
    """Parse the records of a source.

    Parameters
    ----------
    frame
        Kafka's columns.
    name
        Name of the source, for messages and the observed counts.
    records
        How they are read.
    schema
        The text of the schema.
    upserts
        The upserts that the rows go to: tombstones stay; without any they are dropped.

    Raises
    ------
    ValueError
        When the schema, or the key's, cannot be read, or has a column of a name that is ours.
    """
    from pyspark.sql import functions as f

    if records.format == "raw":
        kafka = _kafka_struct(f.col("value").isNull())
        return Parsed(frame.select("*", kafka.alias(KAFKA)), None)
    fold = folding(frame.sparkSession)
    by_format = reader(records, schema)
    kind = by_format.kind
    tombstone = f.col("value").isNull()
    if records.format == "json":
        tombstone = tombstone | (f.trim(f.col("value").cast("string")) == "null")
    keys = [_key_columns(records, kind, upsert.keys, fold) for upsert in upserts]
    key = keys[0] if keys else _key_columns(records, kind, (), fold)
    ours = clashing([*kind.fieldNames(), *key], [KAFKA], fold)
    if ours:
        raise ValueError(f"the column {ours[0]!r} has a name that is ours: use another")
    keyless = f.lit(False)
    for upsert, found in zip(upserts, keys, strict=True):
        keyless = keyless | _keyless(upsert, found, records.key is not None, fold)
    is_tombstone = f.col(f"{KAFKA}.tombstone")
    failed = f.when(is_tombstone, keyless).otherwise(_failed(by_format))
    marked = frame.select(
        *frame.columns,
        _kafka_struct(tombstone).alias(KAFKA),
        by_format.read.alias(_PARSED),
    ).withColumn(_BAD, failed)
    marked = marked.observe(
        name,
        f.count("*").alias("records"),
        f.count_if(_BAD).alias("bad_records"),
        f.count_if(is_tombstone).alias("tombstones"),
    )
    good = marked.where(_failing(name, records) if records.bad_records == "fail" else f"NOT {_BAD}")
    if not upserts:
        good = good.where(f"NOT {KAFKA}.tombstone")
    by_name = {fold(n): column for n, column in key.items()}
    found_columns = []
    for field in kind.fields:
        read = _within(by_format, quoted(field.name))
        if fold(field.name) in by_name:
            of_key = f.when(is_tombstone, by_name.pop(fold(field.name)))
            read = f.coalesce(read, of_key)
        found_columns.append(read.alias(field.name))
    added = [column.alias(n) for n, column in key.items() if fold(n) in by_name]
    return Parsed(
        good.select(*found_columns, *added, KAFKA), marked.where(_BAD).select(*frame.columns)
    )


def _within(by_format: Reader, field: str) -> Column:
    from pyspark.sql import functions as f

    steps = [_PARSED, *([by_format.within] if by_format.within else []), field]
    return f.col(".".join(steps))


def _failed(by_format: Reader) -> Column:
    """Whether reading failed, or left something out."""
    from pyspark.sql import functions as f

    failed = f.col(_PARSED).isNull()
    if by_format.within is not None:
        failed = failed | f.col(f"{_PARSED}.{by_format.within}").isNull()
    if by_format.corrupt is not None:
        failed = failed | f.col(f"{_PARSED}.{by_format.corrupt}").isNotNull()
        for field in by_format.kind.fields:
            if not field.nullable:
                failed = failed | _within(by_format, quoted(field.name)).isNull()
    else:
        failed = failed | f.col(f"{_PARSED}.{AVRO_MARKER}").isNull()
    return failed | by_format.partly


def _kafka_struct(tombstone: Column) -> Column:
    from pyspark.sql import functions as f

    *names, last = KAFKA_FIELDS
    return f.struct(*names, f.coalesce(tombstone, f.lit(False)).alias(last))


def place_of(topic: str, partition: str, offset: str) -> Column:
    """Say where a record lies, as messages do: `orders-0 offset 5`."""
    from pyspark.sql import functions as f

    where = f.concat_ws("-", topic, f.col(partition).cast("string"))
    return f.concat(where, f.lit(" offset "), f.col(offset).cast("string"))


def _failing(name: str, records: Records) -> Column:
    """Keep good rows; a bad one fails the query and says where it lies, not what is in it."""
    from pyspark.sql import functions as f

    why = f.when(
        f.col(f"{KAFKA}.tombstone"),
        f.lit(" is a tombstone whose key cannot be read as the upsert's, see 'records.key'"),
    ).otherwise(f.lit(f" cannot be read as {records.format} with the schema"))
    words = f.concat(
        f.lit(f"source '{name}': the record at "), place_of("topic", "partition", "offset"), why,
        f.lit("; to go on without such records set bad_records: drop or dead_letter"),
    )  # fmt: skip
    return f.when(f.col(_BAD), f.raise_error(words).cast("boolean")).otherwise(True)


def _key_columns(
    records: Records, kind: StructType, upsert_keys: tuple[str, ...], fold: Callable[[str], str]
) -> dict[str, Column]:
    """Columns of Kafka's key, for tombstones (and for all rows where the schema lacks them)."""
    from pyspark.sql import functions as f

    text = f.col("key").cast("string")
    text = f.when(f.is_valid_utf8(text), text)
    if records.key is not None:
        key_kind = columns(records.key)
        if len(key_kind.fields) > 1:
            read = f.from_json(text, key_kind)
            return {name: read.getField(name) for name in key_kind.fieldNames()}
        return {field.name: text.try_cast(field.dataType) for field in key_kind.fields}
    if len(upsert_keys) != 1:
        return {}
    [wanted] = upsert_keys
    return {
        field.name: text.try_cast(field.dataType)
        for field in kind.fields
        if fold(field.name) == fold(wanted)
    }


def _keyless(
    upsert: Upsert, found: dict[str, Column], declared: bool, fold: Callable[[str], str]
) -> Column:
    """Whether a tombstone lacks a key that only Kafka's key can give."""
    from pyspark.sql import functions as f

    missing = f.lit(False)
    if upsert.makes_keys and not declared:
        return missing
    wanted = {fold(key) for key in upsert.keys}
    for column in _columns_named(found, wanted, fold):
        missing = missing | column.isNull()
    return missing


def _columns_named(
    found: dict[str, Column], wanted: set[str], fold: Callable[[str], str]
) -> Iterable[Column]:
    return (column for name, column in found.items() if fold(name) in wanted)

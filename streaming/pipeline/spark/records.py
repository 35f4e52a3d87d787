"""From Kafka's records to columns: JSON, Avro and CSV by Spark's own functions, bad ones set apart.

A parsed view has the schema's columns and one struct `_kafka` with topic, partition, offset,
timestamp, key and `tombstone`. A record is bad when Spark's function cannot read it, whole, with
the schema, or when a column declared NOT NULL is missing. A null value is a tombstone (for JSON the
text `null` too); that is bad only when an upsert needs its key and cannot read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streaming.pipeline.spark.columns import check_free, columns, folding, quoted
from streaming.pipeline.spark.formats import PARSED, reader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from streaming.pipeline.config.sources import Records

#: The struct with Kafka's own columns; sinks leave it out.
KAFKA = "_kafka"
KAFKA_FIELDS = ("topic", "partition", "offset", "timestamp", "key", "tombstone")
_BAD = "__bad"


class Parsed(NamedTuple):
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


#: For a source whose rows no upsert gets.
_NOBODY = Upsert((), makes_keys=True)


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

    tombstone = f.col("value").isNull()
    if records.format == "raw":
        return Parsed(frame.select("*", _kafka_struct(tombstone)), None)
    if records.format == "json":
        tombstone = tombstone | (f.trim(f.col("value").cast("string")) == "null")
    fold = folding(frame.sparkSession)
    by_format = reader(records, schema)
    fields = by_format.kind.fields
    keys = [_key_columns(records, by_format.kind, u.keys, fold) for u in upserts or [_NOBODY]]
    check_free([*(x.name for x in fields), *(name for name, _ in keys[0].values())], [KAFKA], fold)
    keyless = f.lit(False)
    for upsert, read in zip(upserts, keys, strict=False):
        if records.key is not None or not upsert.makes_keys:
            for key in upsert.keys:
                if fold(key) in read:
                    keyless = keyless | read[fold(key)][1].isNull()
    is_tombstone = f.col(f"{KAFKA}.tombstone")
    marked = (
        frame.select("*", _kafka_struct(tombstone), by_format.read.alias(PARSED))
        .withColumn(_BAD, f.when(is_tombstone, keyless).otherwise(by_format.failed))
        .observe(
            name,
            f.count("*").alias("records"),
            f.count_if(_BAD).alias("bad_records"),
            f.count_if(is_tombstone).alias("tombstones"),
        )
    )
    good = marked.where(_failing(name, records) if records.bad_records == "fail" else f"NOT {_BAD}")
    if not upserts:
        good = good.where(f"NOT {KAFKA}.tombstone")
    of_key = dict(keys[0])
    selected = []
    for field in fields:
        value = f.col(f"{by_format.fields}.{quoted(field.name)}")
        if fold(field.name) in of_key:
            value = f.coalesce(value, f.when(is_tombstone, of_key.pop(fold(field.name))[1]))
        selected.append(value.alias(field.name))
    selected += [column.alias(name) for name, column in of_key.values()]
    return Parsed(good.select(*selected, KAFKA), marked.where(_BAD).select(*frame.columns))


def _kafka_struct(tombstone: Column) -> Column:
    from pyspark.sql import functions as f

    *names, last = KAFKA_FIELDS
    return f.struct(*names, f.coalesce(tombstone, f.lit(False)).alias(last)).alias(KAFKA)


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
) -> dict[str, tuple[str, Column]]:
    """Return columns of Kafka's key, for tombstones (and all rows where the schema lacks them).

    They are named as they are written, by their folded names.
    """
    from pyspark.sql import functions as f

    text = f.col("key").cast("string")
    text = f.when(f.is_valid_utf8(text), text)
    if records.key is None:
        named = {fold(upsert_keys[0])} if len(upsert_keys) == 1 else set()
        fields = [field for field in kind.fields if fold(field.name) in named]
    else:
        fields = columns(records.key).fields
    if records.key is not None and len(fields) > 1:
        read = f.from_json(text, columns(records.key))
        return {fold(x.name): (x.name, read.getField(x.name)) for x in fields}
    return {fold(x.name): (x.name, text.try_cast(x.dataType)) for x in fields}

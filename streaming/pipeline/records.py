"""From Kafka's records to columns: JSON, Avro and CSV by Spark's own functions, bad ones set apart.

A parsed view has the schema's columns and one struct `_kafka` with topic, partition, offset,
timestamp, key and `tombstone`. A record is bad when Spark's function cannot read it with the
schema, or when a column declared NOT NULL is missing. A null value is a tombstone (for JSON the
text `null` too), not a bad record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streaming.pipeline.schemas import AVRO_MARKER, columns, marked_avro
from streaming.pipeline.session import avro_coordinate

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from streaming.pipeline.sources_config import Records

#: The struct with Kafka's own columns; sinks leave it out.
KAFKA = "_kafka"
_CORRUPT = "__corrupt"
_PARSED = "__parsed"
_BAD = "__bad"
_CONFLUENT_BYTES = 5


@dataclass(frozen=True, slots=True)
class Parsed:
    """The rows of a source, and its bad records."""

    #: The view: good rows only, or failing at the first bad one.
    rows: DataFrame
    #: Kafka's columns of the bad records; None for raw ones.
    bad: DataFrame | None


def parse(
    frame: DataFrame,
    name: str,
    records: Records,
    schema: str,
    *,
    for_upsert: tuple[str, ...] | None,
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
    for_upsert
        The keys of the upsert that the rows go to: tombstones stay; None drops them.

    Raises
    ------
    ValueError
        When the schema, or the key's, cannot be read.
    """
    from pyspark.sql import functions as f

    if records.format == "raw":
        kafka = _kafka_struct(f.col("value").isNull())
        return Parsed(frame.select("*", kafka.alias(KAFKA)), None)
    kind, parsed, failed = _reader(records, schema)
    tombstone = f.col("value").isNull()
    if records.format == "json":
        tombstone = tombstone | (f.trim(f.col("value").cast("string")) == "null")
    marked = frame.select(
        *frame.columns,
        _kafka_struct(tombstone).alias(KAFKA),
        parsed.alias(_PARSED),
    ).withColumn(_BAD, ~f.col(f"{KAFKA}.tombstone") & failed)
    marked = marked.observe(
        name,
        f.count("*").alias("records"),
        f.count_if(_BAD).alias("bad_records"),
        f.count_if(f.col(f"{KAFKA}.tombstone")).alias("tombstones"),
    )
    good = marked.where(_failing(name, records) if records.bad_records == "fail" else f"NOT {_BAD}")
    if for_upsert is None:
        good = good.where(f"NOT {KAFKA}.tombstone")
    key = _key_columns(records, kind, for_upsert or ())
    found = [
        f.coalesce(f.col(f"{_PARSED}.{_quoted(field.name)}"), key[field.name]).alias(field.name)
        if field.name in key
        else f.col(f"{_PARSED}.{_quoted(field.name)}").alias(field.name)
        for field in kind.fields
    ]
    added = [column.alias(n) for n, column in key.items() if n not in kind.fieldNames()]
    return Parsed(good.select(*found, *added, KAFKA), marked.where(_BAD).select(*frame.columns))


def _reader(records: Records, schema: str) -> tuple[StructType, Column, Column]:
    """Give the columns, the parsed struct, and whether parsing failed."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructType

    options = dict(records.options)
    parsed = f.col(_PARSED)
    if records.format == "avro":
        kind, value = _avro(records, schema)
        return kind, value, f.col(f"{_PARSED}.{AVRO_MARKER}").isNull()
    kind = columns(schema)
    extended = StructType([*kind.fields]).add(_CORRUPT, StringType())
    options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    text = f.col("value").cast("string")
    if records.format == "json":
        value = f.from_json(text, extended, options)
    else:
        value = f.from_csv(text, extended.toDDL(), options)
    failed = parsed.isNull() | parsed.getField(_CORRUPT).isNotNull()
    for field in kind.fields:
        if not field.nullable:
            failed = failed | parsed.getField(field.name).isNull()
    return kind, value, failed


def _avro(records: Records, schema: str) -> tuple[StructType, Column]:
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
    return StructType([field for field in kind.fields if field.name != AVRO_MARKER]), parsed


def _confluent_head(schema_id: int) -> Column:
    from pyspark.sql import functions as f

    return f.lit(b"\0" + schema_id.to_bytes(4, "big"))


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.active()


def _kafka_struct(tombstone: Column) -> Column:
    from pyspark.sql import functions as f

    names = ("topic", "partition", "offset", "timestamp", "key")
    return f.struct(*names, f.coalesce(tombstone, f.lit(False)).alias("tombstone"))


def _failing(name: str, records: Records) -> Column:
    """Keep good rows; a bad one fails the query and says where it lies, not what is in it."""
    from pyspark.sql import functions as f

    place = f.concat_ws("-", "topic", f.col("partition").cast("string"))
    words = f.concat(
        f.lit(f"source '{name}': the record at "), place, f.lit(" offset "),
        f.col("offset").cast("string"),
        f.lit(f" cannot be read as {records.format} with the schema; to go on without such "
              "records set bad_records: drop or dead_letter"),
    )  # fmt: skip
    return f.when(f.col(_BAD), f.raise_error(words).cast("boolean")).otherwise(True)


def _key_columns(
    records: Records, kind: StructType, upsert_keys: tuple[str, ...]
) -> dict[str, Column]:
    """Columns of Kafka's key, for tombstones (and for all rows where the schema lacks them)."""
    from pyspark.sql import functions as f

    text = f.col("key").cast("string")
    wanted: dict[str, DataType] = {}
    if records.key is not None:
        key_kind = columns(records.key)
        wanted = {field.name: field.dataType for field in key_kind.fields}
        if len(wanted) > 1:
            read = f.from_json(text, key_kind)
            return {n: _for_tombstones(n, read.getField(n), kind) for n in wanted}
    elif len(upsert_keys) == 1 and upsert_keys[0] in kind.fieldNames():
        wanted = {upsert_keys[0]: kind[upsert_keys[0]].dataType}
    return {n: _for_tombstones(n, text.try_cast(t), kind) for n, t in wanted.items()}


def _for_tombstones(name: str, column: Column, kind: StructType) -> Column:
    from pyspark.sql import functions as f

    if name not in kind.fieldNames():
        return column
    return f.when(f.col(f"{KAFKA}.tombstone"), column)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

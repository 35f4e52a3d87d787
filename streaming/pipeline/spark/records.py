"""From Kafka's records to columns: JSON, Avro and CSV by Spark's own functions, bad ones set apart.

A parsed view has the schema's columns and one struct `_kafka` with topic, partition, offset,
timestamp, key and `tombstone`. A record is bad when Spark's function cannot read it, whole, with
the schema, or when a column declared NOT NULL is missing: Spark's JSON reader stops after the first
object, its CSV reader closes an open quote at the end, and neither says so. A null value is a
tombstone (for JSON the text `null` too); that is bad only when an upsert needs its key and cannot
read it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructType

from streaming.pipeline.config.files import AVRO_MARKER, marked_avro
from streaming.pipeline.spark.columns import check_free, columns, folding, quoted
from streaming.pipeline.spark.session import avro_coordinate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

    from streaming.pipeline.config.sources import Records

#: The struct with Kafka's own columns; sinks leave it out.
KAFKA = "_kafka"
KAFKA_FIELDS = ("topic", "partition", "offset", "timestamp", "key", "tombstone")
_BAD = "__bad"
#: The column that `_Reader.read` becomes, for `fields` and `failed` to look at.
_PARSED = "__parsed"
_CORRUPT = "__corrupt"
_RECORD = "__record"
_CONFLUENT_BYTES = 5
#: How an option of Spark's CSV reader writes signs that YAML and shells make hard to write.
_ESCAPED, _SIGNS = re.compile(r"\\(.)"), {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f"}


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
        return Parsed(frame.select("*", _kafka_struct(tombstone)), None)
    if records.format == "json":
        tombstone = tombstone | (f.trim(f.col("value").cast("string")) == "null")
    fold = folding(frame.sparkSession)
    by_format = _reader(records, schema)
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
        frame.select("*", _kafka_struct(tombstone), by_format.read.alias(_PARSED))
        .withColumn(_BAD, f.when(is_tombstone, keyless).otherwise(by_format.failed))
        .observe(
            name,
            f.count("*").alias("records"),
            f.count_if(_BAD).alias("bad_records"),
            f.count_if(is_tombstone).alias("tombstones"),
            *checksum_columns(),
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


def checksum_columns() -> list[Column]:
    """Return what `assignor audit` compares with the batch's offsets (`audit/checksum.py`)."""
    return [f.bit_xor(f.xxhash64("topic", "partition", "offset")).alias("checksum")]


def _kafka_struct(tombstone: Column) -> Column:
    *names, last = KAFKA_FIELDS
    return f.struct(*names, f.coalesce(tombstone, f.lit(False)).alias(last)).alias(KAFKA)


def place_of(topic: str, partition: str, offset: str) -> Column:
    """Say where a record lies, as messages do: `orders-0 offset 5`."""
    where = f.concat_ws("-", topic, f.col(partition).cast("string"))
    return f.concat(where, f.lit(" offset "), f.col(offset).cast("string"))


def _failing(name: str, records: Records) -> Column:
    """Keep good rows; a bad one fails the query and says where it lies, not what is in it."""
    why = f.when(
        f.col(f"{KAFKA}.tombstone"),
        f.lit(" is a tombstone whose key cannot be read as the upsert's, see 'records.key'"),
    ).otherwise(f.lit(f" cannot be read as {records.format} with the schema"))
    words = f.concat(
        f.lit(f"source '{name}': the record at "), place_of("topic", "partition", "offset"), why,
        f.lit("; to continue without such records set bad_records: drop or dead_letter"),
    )  # fmt: skip
    return f.when(f.col(_BAD), f.raise_error(words).cast("boolean")).otherwise(True)


def _key_columns(
    records: Records, kind: StructType, upsert_keys: tuple[str, ...], fold: Callable[[str], str]
) -> dict[str, tuple[str, Column]]:
    """Return columns of Kafka's key, for tombstones (and all rows where the schema lacks them).

    They are named as they are written, by their folded names.
    """
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


class _Reader(NamedTuple):
    """How a value becomes columns."""

    #: The columns.
    kind: StructType
    #: What Spark's function makes of a record; to be selected as `_PARSED`.
    read: Column
    #: The struct in `_PARSED` that has the columns.
    fields: str
    #: Whether reading failed, or left something out.
    failed: Column


def _reader(records: Records, schema: str) -> _Reader:
    """Return the reader of a format; a ValueError says what is wrong with the schema."""
    if records.format == "avro":
        return _avro(records, schema)
    kind = columns(schema)
    if _CORRUPT in (name.lower() for name in kind.fieldNames()):
        raise ValueError(f"the column {_CORRUPT!r} has a reserved name: use another")
    return _json(records, kind) if records.format == "json" else _csv(records, kind)


def _json(records: Records, kind: StructType) -> _Reader:
    """Read the value as a field of an object: what stands behind it then breaks that object.

    Only what closes that object, or adds another field, does not; as the element of a list
    both do. The list is only read when a brace before the end says that it can be so.
    """
    lenient = {**records.reader_options, "mode": "PERMISSIVE"}
    options = {**lenient, "columnNameOfCorruptRecord": _CORRUPT}
    outer = StructType().add(_RECORD, kind).add(_CORRUPT, StringType())
    text = f.col("value").cast("string")
    read = f.from_json(f.concat(f.lit(f'{{"{_RECORD}":'), text, f.lit("}")), outer, options)
    in_list = f.concat(f.lit("["), text, f.lit("]"))
    alone = f.size(f.from_json(in_list, "ARRAY<STRUCT<__none: BOOLEAN>>", lenient)) == 1
    more = (f.locate("}", text) < f.length(f.rtrim(text))) & ~f.coalesce(alone, f.lit(False))
    fields = f"{_PARSED}.{_RECORD}"
    return _Reader(kind, read, fields, _is_corrupt(kind, fields) | ~f.is_valid_utf8(text) | more)


def _csv(records: Records, kind: StructType) -> _Reader:
    """Read by RFC 4180: a quote in a quoted field is doubled."""
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
    failed = _is_corrupt(kind, _PARSED) | ~f.is_valid_utf8(text)
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
    return _Reader(kind, f.from_csv(text, extended.toDDL(), options), _PARSED, failed)


def _is_corrupt(kind: StructType, fields: str) -> Column:
    """Whether Spark could not read the record, or a column declared NOT NULL is missing."""
    failed = f.col(fields).isNull() | f.col(f"{_PARSED}.{_CORRUPT}").isNotNull()
    for field in kind.fields:
        if not field.nullable:
            failed = failed | f.col(f"{fields}.{quoted(field.name)}").isNull()
    return failed


def _avro(records: Records, schema: str) -> _Reader:
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
    failed = f.col(_PARSED).isNull() | f.col(f"{_PARSED}.{AVRO_MARKER}").isNull()
    return _Reader(kept, parsed, _PARSED, failed)

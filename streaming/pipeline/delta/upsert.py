"""The rule of an upsert: of all records of a key the newest counts, however they arrive.

Each row carries `_sequence`, a struct of the `sequence_by` columns (or nothing), Kafka's timestamp,
partition and offset, compared in this order. Within a batch the greatest of a key stays. The table
keeps the column, so that a record of a later batch changes a row only when it is newer. A delete
takes the row out, or marks it (`deletes: mark`); only a marked row still knows that it is newer
than what may come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as f

from streaming.pipeline.delta.write_mode import DELETED, KAFKAS_ORDER, SEQUENCE, part_names
from streaming.pipeline.errors import TableError, first_line
from streaming.pipeline.spark.columns import check_free, folding, hashable, quoted
from streaming.pipeline.spark.frames import check_kafka_is_ours
from streaming.pipeline.spark.records import KAFKA, place_of

if TYPE_CHECKING:
    from delta.tables import DeltaMergeBuilder, DeltaTable
    from pyspark.sql import Column, DataFrame

    from streaming.pipeline.config.sinks import DeltaSink

_DELETE = "__delete"
_RANK = "__rank"
_TOPIC = "__topic"


def prepare(frame: DataFrame, sink: DeltaSink) -> DataFrame:
    """Add the sequence and whether the row deletes, and leave Kafka's struct out."""
    fold = folding(frame.sparkSession)
    ours = [SEQUENCE, _DELETE, _RANK, _TOPIC, *([DELETED] if sink.deletes == "mark" else [])]
    check_free(frame.columns, ours, fold)
    check_kafka_is_ours(frame)
    names = {fold(name) for name in frame.columns}
    for what, columns in (("keys", sink.keys), ("sequence_by", sink.sequence_by)):
        for column in columns:
            if fold(column) not in names:
                raise TableError(
                    f"{what}: {column!r} is no column of the rows ({', '.join(frame.columns)})"
                )
    has_kafka = KAFKA in frame.columns
    if not has_kafka and not sink.sequence_by:
        raise TableError(
            f"the rows have no order: let the transform keep the column {KAFKA}, or name "
            "'sequence_by' columns"
        )
    kafkas = KAFKAS_ORDER if has_kafka else ()
    order = [
        f.col(quoted(column)).alias(part)
        for column, part in zip(sink.sequence_by, part_names(sink.sequence_by, kafkas), strict=True)
    ]
    order += [f.col(f"{KAFKA}.{part}") for part in kafkas]
    delete = f.lit(False)
    if has_kafka:  # the struct is null in what a LEFT JOIN did not find
        delete = f.coalesce(f.col(f"{KAFKA}.tombstone"), delete)
    try:
        if sink.delete_when is not None:
            delete = delete | f.coalesce(f.expr(sink.delete_when), f.lit(False))
        made = frame.withColumns({_DELETE: delete, SEQUENCE: f.struct(*order)})
        if has_kafka:
            made = made.withColumn(_TOPIC, f.col(f"{KAFKA}.topic"))
    except Exception as error:
        raise TableError(f"delete_when: {first_line(error)}") from error
    return made.drop(KAFKA)


def own_columns(rows: DataFrame, sink: DeltaSink) -> list[str]:
    """Name the columns of the rows that are not the upsert's."""
    ours = (SEQUENCE, _DELETE, _TOPIC) if sink.mode == "upsert" else ()
    return [name for name in rows.columns if name not in ours]


def table_columns(rows: DataFrame, sink: DeltaSink) -> DataFrame:
    """Return a frame with the columns that the table gets."""
    if sink.mode == "append":
        return rows
    kept = rows.drop(_DELETE, _TOPIC)
    return kept.withColumn(DELETED, f.lit(False)) if sink.deletes == "mark" else kept


def newest(rows: DataFrame, sink: DeltaSink) -> DataFrame:
    """Keep the newest row of each key; ties of rows without Kafka's struct by their content.

    A null in a key or in `sequence_by` fails the query while the rows are read, hence before
    anything is written.
    """
    rows = rows.where(_no_nulls(sink, _TOPIC in rows.columns)).drop(_TOPIC)
    window = Window.partitionBy(*[quoted(key) for key in sink.keys]).orderBy(
        f.col(SEQUENCE).desc(), content_hash(rows)
    )
    ranked = rows.withColumn(_RANK, f.row_number().over(window))
    return ranked.where(f"{_RANK} = 1").drop(_RANK)


def content_hash(rows: DataFrame) -> Column:
    """Return what orders rows that are equally new.

    It has no meaning of its own: the same row of them shall win in whatever order they are read.
    Rows of one hash, nearly always equal ones, are in any order.
    """
    fields = rows.schema.fields
    return f.xxhash64(*(hashable(f.col(quoted(x.name)), x.dataType) for x in fields))


def _no_nulls(sink: DeltaSink, has_kafka: bool) -> Column:
    """Fail at a null in a key or in `sequence_by`, and say in which record."""
    place = f.lit("")
    if has_kafka:
        where = place_of(_TOPIC, f"{SEQUENCE}.partition", f"{SEQUENCE}.offset")
        place = f.coalesce(f.concat(f.lit(" of "), where), place)
    condition = f.lit(True)
    for kind, columns, cure in (
        ("sequence", sink.sequence_by, "a tombstone has none: leave 'sequence_by' out, or let the "
         "transform fill the column"),
        ("key", sink.keys, "filter such rows out, or see 'records.key' for tombstones"),
    ):  # fmt: skip
        for column in columns:
            words = f.concat(
                f.lit(f"{kind} column {column!r} is null in the row"), place,
                f.lit(f", an upsert needs it; {cure}"),
            )  # fmt: skip
            failed = f.raise_error(words).cast("boolean")
            condition = f.when(f.col(quoted(column)).isNull(), failed).otherwise(condition)
    return condition


def merging(table: DeltaTable, rows: DataFrame, sink: DeltaSink) -> DeltaMergeBuilder:
    """Return the merge, to be executed, of rows with distinct keys, none of them null."""
    values: dict[str, str | Column] = {
        quoted(c): f"s.{quoted(c)}" for c in rows.columns if c != _DELETE
    }
    keys = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in sink.keys)
    newer = f"(t.{SEQUENCE} IS NULL OR s.{SEQUENCE} > t.{SEQUENCE})"
    builder = table.alias("t").merge(rows.alias("s"), keys)
    if sink.schema_evolution:
        builder = builder.withSchemaEvolution()
    if sink.deletes == "mark":
        values |= {DELETED: f"s.{_DELETE}"}
        builder = builder.whenMatchedUpdate(newer, values).whenNotMatchedInsert(values=values)
    else:
        builder = (
            builder.whenMatchedDelete(f"{newer} AND s.{_DELETE}")
            .whenMatchedUpdate(newer, values)
            .whenNotMatchedInsert(f"NOT s.{_DELETE}", values)
        )
    return builder

"""The rule of an upsert: of all records of a key the newest stays, however they arrive.

Each row carries `_sequence`, a struct of the `sequence_by` columns, if any, and of the record's
offset, partition, topic and timestamp, compared in this order (`write_mode.BY_OFFSET`). Within a
partition that is Kafka's own order, which compaction follows, too. Between partitions Kafka defines
none: the order is then total, so that all runs keep the same row, but has no meaning
(`order_conflicts.py` counts such keys). Within a batch the greatest of a key stays. The table keeps
the column, so that a record of a later batch changes a row only if it is newer. A delete removes
the row, or marks it (`deletes: mark`); only a marked row still knows its sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as f

from streaming.pipeline.delta.write_mode import (
    BY_OFFSET,
    BY_TIMESTAMP,
    DELETED,
    SEQUENCE,
    kafkas_fields,
    part_names,
)
from streaming.pipeline.errors import TableError, first_line
from streaming.pipeline.spark.columns import (
    check_free,
    folding,
    hashable,
    quoted,
    survives_partitioning,
)
from streaming.pipeline.spark.frames import check_kafka_is_ours
from streaming.pipeline.spark.records import KAFKA, place_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from delta.tables import DeltaMergeBuilder, DeltaTable
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from streaming.pipeline.config.sinks import DeltaSink
    from streaming.pipeline.delta.table import Table

_DELETE = "__delete"
_RANK = "__rank"


class Layout(NamedTuple):
    """What an upsert needs to know of its table."""

    #: Columns that it is partitioned by.
    partitioned: Sequence[str]
    #: Kafka's fields of its `_sequence`, in their order; see `write_mode`.
    fields: tuple[str, ...]


def layout(
    spark: SparkSession, table: Table, existing: StructType | None, rows: DataFrame, sink: DeltaSink
) -> Layout:
    """Return the layout of an existing table, or of the one that will be created."""
    if existing is None:
        return Layout(sink.partition_by, kafkas_fields(rows.schema[SEQUENCE].dataType))
    sequence = next((x.dataType for x in existing.fields if x.name.lower() == SEQUENCE), None)
    return Layout(table.partition_columns(spark), kafkas_fields(sequence))


def prepare(frame: DataFrame, sink: DeltaSink) -> DataFrame:
    """Add the sequence and whether the row deletes, and leave Kafka's struct out."""
    fold = folding(frame.sparkSession)
    ours = [SEQUENCE, _DELETE, _RANK, *([DELETED] if sink.deletes == "mark" else [])]
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
    kafkas = BY_OFFSET if has_kafka else ()
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
    except Exception as error:
        raise TableError(f"delete_when: {first_line(error)}") from error
    return made.drop(KAFKA)


def own_columns(rows: DataFrame, sink: DeltaSink) -> list[str]:
    """Name the columns of the rows that are not the upsert's."""
    ours = (SEQUENCE, _DELETE) if sink.mode == "upsert" else ()
    return [name for name in rows.columns if name not in ours]


def table_columns(rows: DataFrame, sink: DeltaSink) -> DataFrame:
    """Return a frame with the columns that the table gets."""
    if sink.mode == "append":
        return rows
    kept = rows.drop(_DELETE)
    return kept.withColumn(DELETED, f.lit(False)) if sink.deletes == "mark" else kept


def fit_sequence(rows: DataFrame, sink: DeltaSink, fields: tuple[str, ...]) -> DataFrame:
    """Return the rows with `_sequence` as the table has it; `fields` are the table's of Kafka."""
    names = rows.schema[SEQUENCE].dataType.names  # type: ignore[attr-defined]
    if fields != BY_TIMESTAMP or kafkas_fields(rows.schema[SEQUENCE].dataType) != BY_OFFSET:
        return rows
    users = names[: -len(BY_OFFSET)]
    renamed = part_names(sink.sequence_by, BY_TIMESTAMP)
    parts = zip([*users, *BY_TIMESTAMP], [*renamed, *BY_TIMESTAMP], strict=True)
    columns = (f.col(f"{SEQUENCE}.{quoted(name)}").alias(new) for name, new in parts)
    return rows.withColumn(SEQUENCE, f.struct(*columns))


def newest(rows: DataFrame, sink: DeltaSink, layout: Layout, seen: str = "true") -> DataFrame:
    """Keep the newest row of each key; ties of rows without Kafka's struct by their content.

    A key that cannot be merged, or a null in `sequence_by`, fails the query while the rows are
    read, hence before anything is written. `seen` is a condition in SQL that is true.
    """
    rows = rows.where(_usable(rows, sink, layout.partitioned)).where(seen)
    rows = fit_sequence(rows, sink, layout.fields)
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


def _usable(rows: DataFrame, sink: DeltaSink, partitioned: Collection[str]) -> Column:
    """Fail at a key that cannot be merged or a null in `sequence_by`, and name its record.

    A partition column is written as text, which does not hold all values. A row with such a value
    would not be found again by its key.
    """
    place = f.lit("")
    if kafkas_fields(rows.schema[SEQUENCE].dataType) == BY_OFFSET:
        where = place_of(*(f"{SEQUENCE}.{part}" for part in ("topic", "partition", "offset")))
        place = f.coalesce(f.concat(f.lit(" of "), where), place)
    condition = f.lit(True)

    def require(holds: Column, wrong: str, cure: str) -> Column:
        words = f.concat(f.lit(f"{wrong} in the row"), place, f.lit(cure))
        return f.when(holds, condition).otherwise(f.raise_error(words).cast("boolean"))

    fold = folding(rows.sparkSession)
    for column in sink.keys:
        if fold(column) in map(fold, partitioned):
            [kind] = (x.dataType for x in rows.schema.fields if fold(x.name) == fold(column))
            condition = require(
                survives_partitioning(f.col(quoted(column)), kind),
                f"key column {column!r} has a value that a partition of the table cannot hold",
                "; filter such rows out, let the transform replace the value, or give the sink a "
                "new table that is not partitioned by this column",
            )
    for kind_of, columns, cure in (
        ("sequence", sink.sequence_by, "a tombstone has none: leave 'sequence_by' out, or let the "
         "transform fill the column"),
        ("key", sink.keys, "filter such rows out, or see 'records.key' for tombstones"),
    ):  # fmt: skip
        for column in columns:
            condition = require(
                f.col(quoted(column)).isNotNull(),
                f"{kind_of} column {column!r} is null",
                f", an upsert needs it; {cure}",
            )
    return condition


def merging(
    table: DeltaTable, rows: DataFrame, sink: DeltaSink, compared: str = "true"
) -> DeltaMergeBuilder:
    """Return the merge, to be executed, of rows with distinct keys, none of them null.

    `compared` is a condition in SQL that is true, for each row `s` that has a row `t` of its key.
    """
    values: dict[str, str | Column] = {
        quoted(c): f"s.{quoted(c)}" for c in rows.columns if c != _DELETE
    }
    keys = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in sink.keys)
    newer = f"(t.{SEQUENCE} IS NULL OR s.{SEQUENCE} > t.{SEQUENCE})"
    first = f"{compared} AND {newer}"  # each row with its key in the table gets to the first clause
    builder = table.alias("t").merge(rows.alias("s"), keys)
    if sink.schema_evolution:
        builder = builder.withSchemaEvolution()
    if sink.deletes == "mark":
        values |= {DELETED: f"s.{_DELETE}"}
        builder = builder.whenMatchedUpdate(first, values).whenNotMatchedInsert(values=values)
    else:
        builder = (
            builder.whenMatchedDelete(f"{first} AND s.{_DELETE}")
            .whenMatchedUpdate(newer, values)
            .whenNotMatchedInsert(f"NOT s.{_DELETE}", values)
        )
    return builder

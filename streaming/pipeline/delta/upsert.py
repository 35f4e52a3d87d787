"""Merge rows by key, and keep each key's newest record, whatever the order of arrival.

Each row has a `_sequence`, a struct of the `sequence_by` columns, if any, and of the record's
offset, partition, topic and timestamp, compared in this order (`write_mode.BY_OFFSET`). Within a
partition this is Kafka's order, which log compaction also uses. Between partitions the order is
arbitrary but deterministic, so all runs keep the same row (`order_conflicts.py` counts such keys).
A batch keeps each key's row with the highest `_sequence`. The table stores `_sequence`, so a later
batch changes a row only if its record is newer. A delete removes the row, or marks it
(`deletes: mark`); only a marked row keeps its `_sequence`.
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
    find_kafka_fields,
    name_sequence_fields,
)
from streaming.pipeline.job_errors import TableError, summarize
from streaming.pipeline.spark.column_names import (
    check_reserved_names,
    get_name_normalizer,
    quote_name,
    survives_partitioning,
    to_hashable,
)
from streaming.pipeline.spark.frames import check_kafka_struct
from streaming.pipeline.spark.records import KAFKA, format_position

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from delta.tables import DeltaMergeBuilder, DeltaTable
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from streaming.pipeline.config.sinks import DeltaSink
    from streaming.pipeline.delta.sink_table import Table

_DELETE = "__delete"
_RANK = "__rank"


class UpsertLayout(NamedTuple):
    """Properties of the table on which an upsert depends."""

    partition_columns: Sequence[str]
    #: Kafka fields in the table's `_sequence`, in order; see `write_mode`.
    kafka_fields: tuple[str, ...]


def read_layout(
    spark: SparkSession, table: Table, schema: StructType | None, rows: DataFrame, sink: DeltaSink
) -> UpsertLayout:
    """Return the layout of the table; if it does not exist (`schema` is None), the future one."""
    if schema is None:
        return UpsertLayout(sink.partition_by, find_kafka_fields(rows.schema[SEQUENCE].dataType))
    sequence_type = next((x.dataType for x in schema.fields if x.name.lower() == SEQUENCE), None)
    return UpsertLayout(table.list_partition_columns(spark), find_kafka_fields(sequence_type))


def add_sequence(frame: DataFrame, sink: DeltaSink) -> DataFrame:
    """Replace Kafka's struct with `_sequence` and a delete flag; raise ValueError if impossible."""
    normalize = get_name_normalizer(frame.sparkSession)
    reserved_names = [SEQUENCE, _DELETE, _RANK, *([DELETED] if sink.deletes == "mark" else [])]
    check_reserved_names(frame.columns, reserved_names, normalize)
    check_kafka_struct(frame)
    names = {normalize(name) for name in frame.columns}
    for key, columns in (("keys", sink.keys), ("sequence_by", sink.sequence_by)):
        for column in columns:
            if normalize(column) not in names:
                columns_text = ", ".join(frame.columns)
                raise TableError(f"{key}: {column!r} is not a column of the rows ({columns_text})")
    has_kafka = KAFKA in frame.columns
    if not has_kafka and not sink.sequence_by:
        raise TableError(f"the rows have no order: keep the column {KAFKA}, or set 'sequence_by'")
    kafka_fields = BY_OFFSET if has_kafka else ()
    user_fields = name_sequence_fields(sink.sequence_by, kafka_fields)
    pairs = zip(sink.sequence_by, user_fields, strict=True)
    sequence = [f.col(quote_name(column)).alias(field) for column, field in pairs]
    sequence += [f.col(f"{KAFKA}.{field}") for field in kafka_fields]
    is_delete = f.lit(False)
    if has_kafka:  # unmatched rows of a LEFT JOIN have a null struct
        is_delete = f.coalesce(f.col(f"{KAFKA}.tombstone"), is_delete)
    try:
        if sink.delete_when is not None:
            is_delete = is_delete | f.coalesce(f.expr(sink.delete_when), f.lit(False))
        result = frame.withColumns({_DELETE: is_delete, SEQUENCE: f.struct(*sequence)})
    except Exception as error:
        raise TableError(f"delete_when: {summarize(error)}") from error
    return result.drop(KAFKA)


def list_user_columns(rows: DataFrame, sink: DeltaSink) -> list[str]:
    """Return the rows' columns, without those that the upsert adds."""
    added_columns = (SEQUENCE, _DELETE) if sink.mode == "upsert" else ()
    return [name for name in rows.columns if name not in added_columns]


def select_table_columns(rows: DataFrame, sink: DeltaSink) -> DataFrame:
    """Return the frame with the columns that are written to the table."""
    if sink.mode == "append":
        return rows
    rows = rows.drop(_DELETE)
    return rows.withColumn(DELETED, f.lit(False)) if sink.deletes == "mark" else rows


def match_table_sequence(
    rows: DataFrame, sink: DeltaSink, kafka_fields: tuple[str, ...]
) -> DataFrame:
    """Convert `_sequence` from `BY_OFFSET` to the table's fields, if these are `BY_TIMESTAMP`."""
    names = rows.schema[SEQUENCE].dataType.names  # type: ignore[attr-defined]
    row_fields = find_kafka_fields(rows.schema[SEQUENCE].dataType)
    if kafka_fields != BY_TIMESTAMP or row_fields != BY_OFFSET:
        return rows
    user_fields = names[: -len(BY_OFFSET)]
    new_fields = name_sequence_fields(sink.sequence_by, BY_TIMESTAMP)
    renames = zip([*user_fields, *BY_TIMESTAMP], [*new_fields, *BY_TIMESTAMP], strict=True)
    columns = (f.col(f"{SEQUENCE}.{quote_name(old)}").alias(new) for old, new in renames)
    return rows.withColumn(SEQUENCE, f.struct(*columns))


def keep_newest(
    rows: DataFrame, sink: DeltaSink, layout: UpsertLayout, count_sql: str = "true"
) -> DataFrame:
    """Keep the newest row of each key; a content hash decides between equally new rows.

    A key that cannot be merged, or a null in `sequence_by`, fails the query while rows are read,
    before any are written. `count_sql` is an always-true SQL condition that counts conflicts.
    """
    rows = rows.where(_require_usable(rows, sink, layout.partition_columns)).where(count_sql)
    rows = match_table_sequence(rows, sink, layout.kafka_fields)
    window = Window.partitionBy(*map(quote_name, sink.keys))
    window = window.orderBy(f.col(SEQUENCE).desc(), hash_content(rows))
    ranked_rows = rows.withColumn(_RANK, f.row_number().over(window))
    return ranked_rows.where(f"{_RANK} = 1").drop(_RANK)


def hash_content(rows: DataFrame) -> Column:
    """Return a hash of each row that makes the choice between equally new rows deterministic.

    The read order has no effect, except on different rows with equal hashes, which are rare.
    """
    fields = rows.schema.fields
    return f.xxhash64(*(to_hashable(f.col(quote_name(x.name)), x.dataType) for x in fields))


def _require_usable(rows: DataFrame, sink: DeltaSink, partition_columns: Collection[str]) -> Column:
    """Return a condition that is true, or fails with the position (if known) of an unmergeable row.

    Such a row has a null in a key or `sequence_by` column, or a partition key whose value changes
    when Delta writes it as text, so that a later merge would not find the row.
    """
    position = f.lit("")
    if find_kafka_fields(rows.schema[SEQUENCE].dataType) == BY_OFFSET:
        record = format_position(*(f"{SEQUENCE}.{x}" for x in ("topic", "partition", "offset")))
        position = f.coalesce(f.concat(f.lit(" of "), record), position)
    condition = f.lit(True)

    def require(requirement: Column, problem: str, remedy: str) -> Column:
        message = f.concat(f.lit(f"{problem} in the row"), position, f.lit(remedy))
        return f.when(requirement, condition).otherwise(f.raise_error(message).cast("boolean"))

    normalize = get_name_normalizer(rows.sparkSession)
    for column in sink.keys:
        if normalize(column) in map(normalize, partition_columns):
            fields = rows.schema.fields
            [data_type] = (x.dataType for x in fields if normalize(x.name) == normalize(column))
            condition = require(
                survives_partitioning(f.col(quote_name(column)), data_type),
                f"key column {column!r} has a value that a partition of the table cannot hold",
                "; filter out such rows, let the transform replace the value, or give the sink a "
                "new table that is not partitioned by this column",
            )
    remedy = "remove 'sequence_by', or let the transform set the column (tombstones have no value)"
    required_columns = [("sequence", column, remedy) for column in sink.sequence_by]
    remedy = "filter out such rows, or see 'records.key' for tombstones"
    required_columns += [("key", column, remedy) for column in sink.keys]
    for role, column, remedy in required_columns:
        has_value = f.col(quote_name(column)).isNotNull()
        problem = f"{role} column {column!r} is null"
        condition = require(has_value, problem, f", but an upsert needs it; {remedy}")
    return condition


def build_merge(
    table: DeltaTable, rows: DataFrame, sink: DeltaSink, count_sql: str = "true"
) -> DeltaMergeBuilder:
    """Return the merge of rows with distinct keys that are not null; it is not executed yet.

    `count_sql`, an always-true SQL condition on row `s` and table row `t`, counts conflicts.
    """
    names = [quote_name(name) for name in rows.columns if name != _DELETE]
    values: dict[str, str | Column] = {name: f"s.{name}" for name in names}
    same_keys = " AND ".join(f"t.{quote_name(key)} = s.{quote_name(key)}" for key in sink.keys)
    is_newer = f"(t.{SEQUENCE} IS NULL OR s.{SEQUENCE} > t.{SEQUENCE})"
    condition = f"{count_sql} AND {is_newer}"  # only the first clause sees every match
    builder = table.alias("t").merge(rows.alias("s"), same_keys)
    if sink.schema_evolution:
        builder = builder.withSchemaEvolution()
    if sink.deletes == "mark":
        values |= {DELETED: f"s.{_DELETE}"}
        builder = builder.whenMatchedUpdate(condition, values).whenNotMatchedInsert(values=values)
    else:
        builder = (
            builder.whenMatchedDelete(f"{condition} AND s.{_DELETE}")
            .whenMatchedUpdate(is_newer, values)
            .whenNotMatchedInsert(f"NOT s.{_DELETE}", values)
        )
    return builder

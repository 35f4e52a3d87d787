"""Provide the Delta sink of `assignor run` for a user's own `writeStream`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pyspark.sql import functions as f

from streaming.pipeline.config.sinks import DeltaSink
from streaming.pipeline.delta import upsert
from streaming.pipeline.delta.continuity import check_continuity
from streaming.pipeline.delta.writer import DeltaWriter
from streaming.pipeline.job_errors import ConfigError, JobError, TableError
from streaming.pipeline.spark.column_names import get_name_normalizer
from streaming.pipeline.spark.plan_sources import list_plan_sources
from streaming.pipeline.spark.records import KAFKA_ORDER, build_kafka_struct
from streaming.redaction import redact
from streaming.validation import describe_problems

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame


def delta_sink(
    rows: DataFrame, *, path: str | None = None, table: str | None = None, **options: Any
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that writes each batch to a Delta table exactly once.

    `assignor run` uses the same sink. The call creates the table, or checks that the rows fit it.
    A repeated batch is written once, and a small batch is written as one file. Batches that
    conflict with other writers are retried.

    Parameters
    ----------
    rows
        The streaming frame whose `writeStream` uses the function.
    path, table
        The folder or URL of the table, or its name in the catalog.
    **options
        The keys of a job's Delta sink: `mode`, `keys`, `sequence_by`, `delete_when`, `deletes`,
        `partition_by`, `cluster_by`, `schema_evolution`, `target_file_size`, `compact_every`,
        `shared`. An upsert without `sequence_by` needs Kafka's columns `topic`, `partition`,
        `offset`, and `timestamp` in the rows. Tombstones do not delete rows; use `delete_when`.

    Raises
    ------
    ConfigError
        If an option is invalid, or the rows do not fit the table.

    Examples
    --------
    >>> sink = delta_sink(orders, path="tables/orders")  # doctest: +SKIP
    >>> writer = orders.writeStream.foreachBatch(sink)  # doctest: +SKIP
    >>> query = writer.option("checkpointLocation", "checkpoints/orders").start()  # doctest: +SKIP
    """
    values = {"path": path, "table": table, **options}
    try:
        sink = DeltaSink.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"delta_sink: {redact(describe_problems(error, values))}") from None
    if sink.from_ is not None:
        raise ConfigError("delta_sink: remove 'from', which is only for job files")
    if not hasattr(rows, "_jdf"):
        raise ConfigError("delta_sink: Spark Connect is not supported: the sink needs the driver")
    label = f"delta_sink({redact(sink.path or sink.table or '')!r})"
    try:
        return _ForeachBatchWriter(sink, rows, label)
    except ValueError as error:  # a TableError or a reserved name
        raise ConfigError(f"{label}: {redact(str(error))}") from error


class _ForeachBatchWriter:
    """Writes the batches of one query."""

    def __init__(self, sink: DeltaSink, rows: DataFrame, label: str) -> None:
        self._spark = rows.sparkSession
        self._sink = sink
        self._sources = list_plan_sources(rows)
        self._writer = DeltaWriter(sink, label, redact=redact)
        self._query_id: str | None = None
        sequenced_rows = self._add_sequence(rows)
        self._writer.check(self._spark, sequenced_rows)
        self._writer.prepare(self._spark, sequenced_rows)

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write a batch; raise JobError if it is from a second query, or not of this session."""
        query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if self._query_id is None:
            self._check_and_set_query(query_id)
        elif query_id != self._query_id:
            raise JobError("delta_sink: a second query uses the sink: create a sink for each query")
        self._writer(self._add_sequence(batch), number)

    def _check_and_set_query(self, query_id: str | None) -> None:
        stream = self._spark.streams.get(query_id) if query_id else None
        if query_id is None or stream is None:
            raise JobError("delta_sink: the batch is not from a streaming query of this session")
        query: Any = stream
        checkpoint = str(query._jsq.streamingQuery().resolvedCheckpointRoot())
        check_continuity(self._spark, self._sources, checkpoint, self._writer)
        self._writer.set_query(query_id, stream, checkpoint)
        self._query_id = query_id

    def _add_sequence(self, rows: DataFrame) -> DataFrame:
        if self._sink.mode == "append":
            return rows
        normalize = get_name_normalizer(self._spark)
        names = {normalize(name) for name in rows.columns}
        missing_columns = [name for name in KAFKA_ORDER if normalize(name) not in names]
        if not missing_columns:
            no_key = f.lit(None).cast("binary")
            rows = rows.select("*", build_kafka_struct(no_key, f.lit(False)))
        elif not self._sink.sequence_by:
            raise TableError(
                f"an upsert needs the columns {', '.join(map(repr, missing_columns))} of Kafka's "
                "source in the rows, or 'sequence_by', to determine which row of a key is newer"
            )
        return upsert.add_sequence(rows, self._sink)

"""Write each micro-batch to a Delta table exactly once.

Delta records each writer's name and last batch number (`txnAppId`, `txnVersion`) in the same commit
as the rows, and skips a batch that is in the table. The writer's name contains the query id, which
Spark keeps in the checkpoint. So repeated batches are skipped, unless the checkpoint is new.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from delta import exceptions

from streaming.delta.transactions import make_writer_name
from streaming.pipeline import job_errors
from streaming.pipeline.delta import upsert, write_mode
from streaming.pipeline.delta.audit_trail import AuditTrail
from streaming.pipeline.delta.once import OnceWriter
from streaming.pipeline.delta.order_conflicts import OrderConflicts
from streaming.pipeline.delta.sink_table import (
    Table,
    check_columns,
    check_timestamps,
    make_lost_table_error,
)
from streaming.pipeline.delta.upsert import UpsertLayout
from streaming.pipeline.job_errors import JobError, TableError, drop_java_trace, summarize
from streaming.pipeline.spark.column_names import get_name_normalizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from streaming.pipeline.config.sinks import DeltaSink

_LOG = logging.getLogger(__name__)
_APP_ID = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_ADAPTIVE = "spark.sql.adaptive.enabled"
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_OPTIMIZE = "spark.databricks.delta.optimizeWrite.enabled"
_BIN_SIZE = "spark.databricks.delta.optimizeWrite.binSize"
_OPTIMIZE_PARTITIONS = "spark.databricks.delta.optimizeWrite.maxShufflePartitions"
#: Settings for the maximum size of files that compaction merges and writes (default: 1 GB).
_COMPACTION_SETTINGS = (
    "spark.databricks.delta.optimize.minFileSize",
    "spark.databricks.delta.optimize.maxFileSize",
)
#: Delta measures shuffled rows, which take about four times as many bytes as in Parquet files.
_SHUFFLED_BYTES_PER_BYTE = 4
_MAX_OPTIMIZE_PARTITIONS = 200
#: Up to this number of shuffle partitions, adaptive execution is off.
_MAX_STATIC_PARTITIONS = 8
_START_TIMEOUT_S = 300.0
#: Number of attempts after which a conflict with another writer fails the query.
_MAX_ATTEMPTS = 10
#: Conflicts with other writers, after which a batch is retried. It is not retried after
#: `ConcurrentTransactionException`, which means that another driver runs the same query.
_RETRIED_ERRORS = (
    exceptions.ConcurrentAppendException,
    exceptions.ConcurrentDeleteDeleteException,
    exceptions.ConcurrentDeleteReadException,
    exceptions.ConcurrentWriteException,
    exceptions.MetadataChangedException,
    exceptions.ProtocolChangedException,
)


class DeltaWriter:
    """Writes the batches of one Delta sink; an instance is the function for `foreachBatch`."""

    def __init__(
        self,
        sink: DeltaSink,
        label: str,
        name_writer: Callable[[str], str] = make_writer_name,
        redact: Callable[[str], str] = str,
        checkpoint: str | None = None,
    ) -> None:
        self.sink = sink
        self.table = Table(sink.path, sink.table)
        self.once_writer = OnceWriter(self.table, label)
        self._label = label
        self._checkpoint = checkpoint
        self._audit_trail = AuditTrail(label, checkpoint, redact)
        #: Returns the writer's name in the table's log for a query id.
        self._name_writer = name_writer
        self._redact = redact
        #: Whether the table existed at the last check.
        self.table_exists = False
        #: Whether an older version created the table, without the properties.
        self._is_of_older_version = False
        #: The table's layout at the last check; for a new table, the sink's layout.
        self._layout = UpsertLayout(sink.partition_by, ())
        #: Counts records that an upsert cannot order; created for the first batch.
        self._order_conflicts: OrderConflicts | None = None
        #: Error of a failed batch; Spark keeps only its text.
        self.error: Exception | None = None
        self._query_id: str | None = None
        #: Spark's query, whose executions count the records; None if unknown.
        self._stream: Any = None
        self._has_query_id = threading.Event()

    def check(self, spark: SparkSession, rows: DataFrame) -> None:
        """Raise TableError unless the rows, the sink, and an existing table fit together.

        Sets `table_exists` and, for an upsert, the layout, on which `prepare` depends.
        """
        sink, is_upsert = self.sink, self.sink.mode == "upsert"
        table_schema = self.table.read_schema(spark)
        self.table_exists = table_schema is not None
        if is_upsert:
            self._layout = upsert.read_layout(spark, self.table, table_schema, rows, sink)
            rows = upsert.match_table_sequence(rows, sink, self._layout.kafka_fields)
        row_schema = upsert.select_table_columns(rows, sink).schema
        names = {field.name.lower() for field in row_schema.fields}
        for key, columns in (("partition_by", sink.partition_by), ("cluster_by", sink.cluster_by)):
            for column in columns:
                if column.lower() not in names:
                    raise TableError(f"{key}: {column!r} is not a column of the rows")
        if is_upsert:
            upsert.keep_newest(rows, sink, self._layout)  # only to let Spark reject a map key
        if table_schema is None:
            return
        properties = self.table.read_properties(spark)
        old_mode = write_mode.parse_mode(properties)
        self._is_of_older_version = old_mode is None
        write_mode.check_same_mode(
            self.table.title,
            old_mode or write_mode.infer_mode(table_schema, upsert.list_user_columns(rows, sink)),
            write_mode.get_sink_mode(sink),
            get_name_normalizer(spark),
            is_inferred=self._is_of_older_version,
        )
        check_columns(self.table.title, table_schema, row_schema, sink.schema_evolution)
        check_timestamps(self.table.title, table_schema, row_schema, properties)
        self.table.check_layout(spark, sink)

    def prepare(self, spark: SparkSession, rows: DataFrame) -> None:
        """Create the table for these rows, or record the mode in an older version's table."""
        properties = write_mode.get_sink_mode(self.sink).to_properties()
        if self.table_exists:
            self._record_mode(spark, properties)
        else:
            schema = upsert.select_table_columns(rows, self.sink).schema
            self.table.create(spark, self.sink, schema, properties)

    def _record_mode(self, spark: SparkSession, properties: dict[str, str]) -> None:
        """Record the write mode of an older version's upsert, which did not record its keys.

        An append needs no record, because the table's columns show the mode. Setting properties can
        conflict with other writers or be forbidden; such a failure must not stop an old job.
        """
        if not self._is_of_older_version or self.sink.mode != "upsert":
            return
        message = "%s: the table %r cannot record its keys (%s): a change of keys is not detected"
        log_warning = partial(_LOG.warning, message, self._label, self.table.title)
        with job_errors.report_failure(log_warning, self._redact):
            self.table.set_properties(spark, properties)

    def set_query(
        self, query_id: str, stream: StreamingQuery | None = None, checkpoint: str | None = None
    ) -> None:
        """Set the query's id, for which the first batch waits, and its stream and checkpoint."""
        self._query_id = query_id
        self._stream = stream
        if checkpoint is not None:
            self._checkpoint = checkpoint
            self._audit_trail = AuditTrail(self._label, checkpoint, self._redact)
        self._has_query_id.set()

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write a batch, and retry it after a conflict with another writer of the table.

        Delta's transaction id makes a retry safe. It needs no delay, because the other writer's
        commit is already in the table.
        """
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            try:
                self._write(batch, number)
            except Exception as error:
                self.error = self._find_table_error(batch.sparkSession, number) or error
                if self.error is not error:
                    raise self.error from error
                if attempt == _MAX_ATTEMPTS or not isinstance(error, _RETRIED_ERRORS):
                    if self._is_being_stopped():
                        raise drop_java_trace(error) from None
                    raise
                message = (
                    "%s: retrying batch %d, because another writer changed the table %r during "
                    "attempt %d of %d: %s"
                )
                reason, attempts = self._redact(summarize(error)), (attempt, _MAX_ATTEMPTS)
                _LOG.warning(message, self._label, number, self.table.title, *attempts, reason)
                self._reset_counts()
            else:
                self.error = None
                return

    def _find_table_error(self, spark: SparkSession, number: int) -> TableError | None:
        """Return an error if the table was removed; None if it exists or cannot be checked."""
        exists = True
        with contextlib.suppress(Exception):  # the batch's own error is raised
            exists = self.table.exists(spark)
        if exists:
            return None
        if number == 0 or self._checkpoint is None:
            return TableError(f"the table {self.table.title!r} was removed: run the job again")
        return make_lost_table_error(self.table.title, self._checkpoint, number - 1)

    def _is_being_stopped(self) -> bool:
        with contextlib.suppress(Exception):  # Spark may have ended
            return self._stream is not None and not self._stream.isActive
        return False

    def finish(self) -> None:
        """Wait for background writes after the query has ended."""
        self.once_writer.finish()

    def _write(self, batch: DataFrame, number: int) -> None:
        """Write a batch once.

        1. Wait for the query's id, which is part of the transaction id.
        2. Collect the source offsets for the commit, and set the transaction id.
        3. Append or merge the rows; Delta skips a batch that the table has.
        4. Compact the table after every Nth batch.
        """
        if not self._has_query_id.wait(_START_TIMEOUT_S):  # 1
            raise JobError(f"{self._label}: the query got no id within {_START_TIMEOUT_S:g} s")
        spark = batch.sparkSession
        metadata = self._audit_trail.build_metadata(spark, self._query_id or "", number)  # 2
        settings = self._build_batch_settings(spark, number) | metadata.settings
        with _override_settings(spark, settings):
            if self.sink.mode == "upsert":  # 3
                self._merge(batch, number, metadata.ranges)
            else:
                options = {"execution": self._get_execution(), "ranges": metadata.ranges}
                self.once_writer.append(batch, evolve=self.sink.schema_evolution, **options)
        compact_every = self.sink.compact_every
        if compact_every is not None and (number + 1) % compact_every == 0:  # 4
            self._compact(spark)

    def _merge(self, batch: DataFrame, number: int, ranges: str | None) -> None:
        sink, spark, title = self.sink, batch.sparkSession, self.table.title
        if self._order_conflicts is None:
            kafka_fields = () if sink.sequence_by else self._layout.kafka_fields
            self._order_conflicts = OrderConflicts(spark, self._label, title, kafka_fields)
        order_conflicts = self._order_conflicts
        batch_condition = order_conflicts.build_batch_condition(sink.keys)
        rows = upsert.keep_newest(batch, sink, self._layout, batch_condition)
        merge_condition = order_conflicts.build_merge_condition()
        merge = upsert.build_merge(self.table.open(spark), rows, sink, merge_condition)
        self.once_writer.merge(merge, self._get_execution(), ranges)
        order_conflicts.log_conflicts(number)

    def _reset_counts(self) -> None:
        """Reset the counts, because the next attempt reads the batch's records again."""
        if self._order_conflicts is not None:
            self._order_conflicts.discard_counts()
        execution = self._get_execution()
        if execution is not None:
            execution.executedPlan().resetMetrics()

    def _get_execution(self) -> Any:
        """Return Spark's execution of the batch; None if it is unknown or not exposed."""
        with contextlib.suppress(Exception):
            stream = self._stream
            return stream._jsq.streamingQuery().lastExecution() if stream else None
        self._stream = None  # the commits then have no counts
        return None

    def _compact(self, spark: SparkSession) -> None:
        message = "%s: the table %r could not be compacted (%s); its rows are written"
        log_warning = partial(_LOG.warning, message, self._label, self.table.title)
        with (
            job_errors.report_failure(log_warning, self._redact),
            _override_settings(spark, self._build_compaction_settings(spark)),
        ):
            self.table.open(spark).optimize().executeCompaction()

    def _build_compaction_settings(self, spark: SparkSession) -> dict[str, str]:
        """Return Delta settings for the sink's file size, except those that the user has set."""
        file_bytes = self.sink.target_file_bytes
        if file_bytes is None:
            return {}
        return {k: str(file_bytes) for k in _COMPACTION_SETTINGS if spark.conf.get(k, None) is None}

    def _build_batch_settings(self, spark: SparkSession, number: int) -> dict[str, str]:
        """Return Spark's settings for one write.

        Spark disables adaptive execution for streams, but without it a merge of ten rows with 200
        shuffle partitions runs hundreds of tasks. With few partitions, adaptive execution would
        only double the number of jobs.
        """
        is_adaptive = int(spark.conf.get(_SHUFFLE_PARTITIONS) or 0) > _MAX_STATIC_PARTITIONS
        settings = {
            _APP_ID: self._name_writer(self._query_id or ""),
            _VERSION: str(number),
            _ADAPTIVE: str(is_adaptive).lower(),
        }
        file_bytes = self.sink.target_file_bytes
        if file_bytes is not None:
            settings |= {_OPTIMIZE: "true", _BIN_SIZE: f"{file_bytes * _SHUFFLED_BYTES_PER_BYTE}b"}
            if spark.conf.get(_OPTIMIZE_PARTITIONS, None) is None:
                settings[_OPTIMIZE_PARTITIONS] = str(_MAX_OPTIMIZE_PARTITIONS)
        return settings


@contextlib.contextmanager
def _override_settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Change Spark settings for one write, in the session that Spark cloned for the query."""
    old_values = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old_value in old_values.items():
            if old_value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old_value)

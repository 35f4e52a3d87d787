"""Write one micro-batch to a Delta table, exactly once.

Delta notes the number of the last batch per writer in its log (`txnAppId`, `txnVersion`) in the
same commit as the rows, and skips a batch that it has. The writer's name holds the id of the
query, which Spark keeps in the checkpoint: a batch that is run again is skipped, a new checkpoint
begins anew.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import TYPE_CHECKING, Any

from delta import exceptions

from streaming.delta.transactions import writer_name
from streaming.pipeline.delta import upsert, write_mode
from streaming.pipeline.delta.audit_trail import AuditTrail
from streaming.pipeline.delta.once import OnceWriter
from streaming.pipeline.delta.order_conflicts import OrderConflicts
from streaming.pipeline.delta.table import Table, check_columns, check_timestamps, missing_table
from streaming.pipeline.delta.upsert import Layout
from streaming.pipeline.errors import JobError, TableError, first_line, without_java_trace
from streaming.pipeline.spark.columns import folding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from streaming.pipeline.config.sinks import DeltaSink

_LOG = logging.getLogger(__name__)
_APP_ID = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_ADAPTIVE = "spark.sql.adaptive.enabled"
_PARTITIONS = "spark.sql.shuffle.partitions"
_OPTIMIZE = "spark.databricks.delta.optimizeWrite.enabled"
_BIN_SIZE = "spark.databricks.delta.optimizeWrite.binSize"
_SHUFFLE_PARTITIONS = "spark.databricks.delta.optimizeWrite.maxShufflePartitions"
#: Which files a compaction joins, and how large it makes them: by default, 1 GB both.
_COMPACTED_SIZES = (
    "spark.databricks.delta.optimize.minFileSize",
    "spark.databricks.delta.optimize.maxFileSize",
)
#: Delta measures rows as they are shuffled; in Parquet they take about a quarter of that.
_SHUFFLED_PER_WRITTEN = 4
_MOST_SHUFFLE_PARTITIONS = 200
#: So many shuffle partitions are run as they are.
_FEW_PARTITIONS = 8
_START_LIMIT_S = 300.0
#: How often a batch is written before a conflict with other writers fails the query.
_ATTEMPTS = 10
#: Conflicts that Delta asks to try again. `ConcurrentTransactionException` is not one of them: it
#: shows another driver of the same query.
_CONFLICTS = (
    exceptions.ConcurrentAppendException,
    exceptions.ConcurrentDeleteDeleteException,
    exceptions.ConcurrentDeleteReadException,
    exceptions.ConcurrentWriteException,
    exceptions.MetadataChangedException,
    exceptions.ProtocolChangedException,
)


class DeltaWriter:
    """The function for `foreachBatch` of one Delta sink."""

    def __init__(
        self,
        sink: DeltaSink,
        place: str,
        name_writer: Callable[[str], str] = writer_name,
        redact: Callable[[str], str] = str,
        checkpoint: str | None = None,
    ) -> None:
        self.sink = sink
        self.table = Table(sink.path, sink.table)
        #: Appends or merges batches.
        self.once = OnceWriter(self.table, place)
        self._place = place
        self._checkpoint = checkpoint
        self._trail = AuditTrail(place, checkpoint, redact)
        #: Makes the writer's name in the table's log from the query's id.
        self._name_writer = name_writer
        #: Hides secrets in what is logged of an error.
        self._redact = redact
        #: Whether the table is there, as of the last check.
        self.table_exists = False
        #: Whether the table is from an older version, which wrote no properties.
        self._is_of_older_version = False
        #: How the table keeps its rows, as of the last check; a new one as its sink says.
        self._layout = Layout(sink.partition_by, ())
        #: Counts what an upsert cannot order, from the first batch on.
        self._conflicts: OrderConflicts | None = None
        #: What a batch failed with; Spark only hands on its text.
        self.error: Exception | None = None
        self._query_id: str | None = None
        #: Spark's own query, which counts the records of its batches; None for none.
        self._running: Any = None
        self._started = threading.Event()

    def check(self, spark: SparkSession, rows: DataFrame) -> None:
        """Check that rows fit the table, if it is there, and that it is written as before."""
        sink, is_upsert = self.sink, self.sink.mode == "upsert"
        existing = self.table.schema(spark)
        self.table_exists = existing is not None
        if is_upsert:
            self._layout = upsert.layout(spark, self.table, existing, rows, sink)
            rows = upsert.fit_sequence(rows, sink, self._layout.fields)
        schema = upsert.table_columns(rows, sink).schema
        names = {field.name.lower() for field in schema.fields}
        for what, columns in (("partition_by", sink.partition_by), ("cluster_by", sink.cluster_by)):
            for column in columns:
                if column.lower() not in names:
                    raise TableError(f"{what}: {column!r} is no column of the rows")
        if is_upsert:
            upsert.newest(rows, sink, self._layout)  # Spark refuses here, say, a map as a key
        if existing is None:
            return
        properties = self.table.properties(spark)
        before = write_mode.of_properties(properties)
        self._is_of_older_version = before is None
        write_mode.check_same(
            self.table.where,
            before or write_mode.of_columns(existing, upsert.own_columns(rows, sink)),
            write_mode.of_sink(sink),
            folding(spark),
            is_inferred=self._is_of_older_version,
        )
        check_columns(self.table.where, existing, schema, sink.schema_evolution)
        check_timestamps(self.table.where, existing, schema, properties)
        self.table.check_layout(spark, sink)

    def prepare(self, spark: SparkSession, rows: DataFrame) -> None:
        """Make the table for such rows; let one of an older version remember how it is written."""
        properties = write_mode.of_sink(self.sink).properties()
        if self.table_exists:
            self._remember(spark, properties)
        else:
            schema = upsert.table_columns(rows, self.sink).schema
            self.table.create(spark, self.sink, schema, properties)

    def _remember(self, spark: SparkSession, properties: dict[str, str]) -> None:
        """Write down how an older version's upsert wrote the table, which has no words on its keys.

        An append's columns tell all. To write properties breaks off other writers' batches, and
        may not be allowed; neither is a reason to stop a job that ran before.
        """
        if not self._is_of_older_version or self.sink.mode != "upsert":
            return
        try:
            self.table.set_properties(spark, properties)
        except Exception as error:  # noqa: BLE001
            _LOG.warning(
                "%s: the table %r cannot remember its keys (%s): other ones would not be refused",
                self._place, self.table.where, self._redact(first_line(error)),
            )  # fmt: skip

    def started(
        self, query_id: str, running: StreamingQuery | None = None, checkpoint: str | None = None
    ) -> None:
        """Take the query's id, for which the first batch waits; and its checkpoint, if new."""
        self._query_id = query_id
        self._running = running
        if checkpoint is not None:
            self._checkpoint = checkpoint
            self._trail = AuditTrail(self._place, checkpoint, self._redact)
        self._started.set()

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write a batch, again if another writer of the table was faster.

        Delta's transaction id makes that safe. There is nothing to wait for between two attempts,
        because the other writer's commit is in the table.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._write(batch, number)
            except Exception as error:
                self.error = self._missing_table(batch.sparkSession, number) or error
                if self.error is not error:
                    raise self.error from error
                if attempt == _ATTEMPTS or not isinstance(error, _CONFLICTS):
                    if self._is_being_stopped():
                        raise without_java_trace(error) from None
                    raise
                _LOG.warning(
                    "%s: batch %d is written again, because another writer changed the table %r "
                    "during attempt %d of %d: %s", self._place, number, self.table.where, attempt,
                    _ATTEMPTS, self._redact(first_line(error)),
                )  # fmt: skip
                self._reset_counts()
            else:
                self.error = None
                return

    def _missing_table(self, spark: SparkSession, number: int) -> TableError | None:
        """Return the error for a table that was removed while the query ran."""
        try:
            exists = self.table.exists(spark)
        except Exception:  # noqa: BLE001  (the batch's own error is raised)
            return None
        if exists:
            return None
        if number == 0 or self._checkpoint is None:
            return TableError(f"the table {self.table.where!r} was removed: run the job again")
        return missing_table(self.table.where, self._checkpoint, number - 1)

    def _is_being_stopped(self) -> bool:
        try:
            return self._running is not None and not self._running.isActive
        except Exception:  # noqa: BLE001  (Spark has ended)
            return False

    def finish(self) -> None:
        """Wait for what is still written beside the batches; the query has ended."""
        self.once.finish()

    def _write(self, batch: DataFrame, number: int) -> None:
        if not self._started.wait(_START_LIMIT_S):
            raise JobError(f"{self._place}: the query has no id")
        spark = batch.sparkSession
        origin = self._trail.of_batch(spark, self._query_id or "", number)
        with _settings(spark, self._batch_settings(spark, number) | origin.settings):
            if self.sink.mode == "upsert":
                self._merge(batch, number, origin.ranges)
            else:
                grows = self.sink.schema_evolution
                self.once.append(
                    batch, grows=grows, execution=self._execution(), ranges=origin.ranges
                )
        every = self.sink.compact_every
        if every is not None and (number + 1) % every == 0:
            self._compact(spark)

    def _merge(self, batch: DataFrame, number: int, ranges: str | None) -> None:
        sink, spark = self.sink, batch.sparkSession
        if self._conflicts is None:
            fields = () if sink.sequence_by else self._layout.fields
            self._conflicts = OrderConflicts(spark, self._place, self.table.where, fields)
        conflicts = self._conflicts
        rows = upsert.newest(batch, sink, self._layout, conflicts.seen(sink.keys))
        merge = upsert.merging(self.table.open(spark), rows, sink, conflicts.found())
        self.once.merge(merge, self._execution(), ranges)
        conflicts.report(number)

    def _reset_counts(self) -> None:
        """Count the records of the batch from zero, because the next attempt reads them again."""
        if self._conflicts is not None:
            self._conflicts.forget()
        execution = self._execution()
        if execution is not None:
            execution.executedPlan().resetMetrics()

    def _execution(self) -> Any:
        """Return Spark's execution of the batch; None where this Spark keeps it elsewhere."""
        try:
            return self._running._jsq.streamingQuery().lastExecution() if self._running else None
        except Exception:  # noqa: BLE001  (then the commit has no counts)
            self._running = None
            return None

    def _compact(self, spark: SparkSession) -> None:
        try:
            with _settings(spark, self._compaction_settings(spark)):
                self.table.open(spark).optimize().executeCompaction()
        except Exception as error:  # noqa: BLE001  (the rows are written; the next one may do it)
            _LOG.warning("%s: compaction failed: %s", self._place, self._redact(first_line(error)))

    def _compaction_settings(self, spark: SparkSession) -> dict[str, str]:
        """Return the sizes of files that the sink asks for, where nobody has set Delta's."""
        target = self.sink.target_file_bytes
        if target is None:
            return {}
        return {key: str(target) for key in _COMPACTED_SIZES if spark.conf.get(key, None) is None}

    def _batch_settings(self, spark: SparkSession, number: int) -> dict[str, str]:
        """Return what holds for one write.

        A write is planned while it runs, which Spark turns off for streams: with 200 shuffle
        partitions a merge of ten rows runs hundreds of tasks without it. With few there is nothing
        to join, and it only makes twice as many jobs.
        """
        is_adaptive = int(spark.conf.get(_PARTITIONS) or 0) > _FEW_PARTITIONS
        settings = {
            _APP_ID: self._name_writer(self._query_id or ""),
            _VERSION: str(number),
            _ADAPTIVE: str(is_adaptive).lower(),
        }
        target = self.sink.target_file_bytes
        if target is not None:
            settings |= {_OPTIMIZE: "true", _BIN_SIZE: f"{target * _SHUFFLED_PER_WRITTEN}b"}
            if spark.conf.get(_SHUFFLE_PARTITIONS, None) is None:
                settings[_SHUFFLE_PARTITIONS] = str(_MOST_SHUFFLE_PARTITIONS)
        return settings


@contextlib.contextmanager
def _settings(spark: SparkSession, values: dict[str, str]) -> Iterator[None]:
    """Set what holds for one write, in the session that Spark cloned for the query."""
    before = {key: spark.conf.get(key, None) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)

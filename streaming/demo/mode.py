"""Run one query of the demo batch by batch and return its figures.

The figures come from Spark's UI and progress, so both modes are measured in the same way.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson

from streaming.demo.flights import SCHEMA
from streaming.demo.spark_process import DemoError, get_ui
from streaming.observe.query_progress import parse_progress
from streaming.observe.spark_ui import choose_query
from streaming.pipeline.delta.foreach_batch import delta_sink

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from streaming.demo.flights import Flight, FlightWriter
    from streaming.observe.figures import BatchFigures
    from streaming.observe.query_progress import BatchProgress

_BATCH_LIMIT_S = 600.0
#: How often a query checks for new records.
_TRIGGER = "200 milliseconds"
_PROGRESS_POLL_S = 0.05
#: Each sleep simulates the work of several records, because short sleeps are inexact and costly.
_SLEEP_US = 10_000


@dataclass(slots=True)
class Mode:
    """A query of the demo, planned by Spark or an assignor, with its own topic and table."""

    spark: SparkSession
    name: str
    writer: FlightWriter
    topic: str
    #: Path of the Delta table; the checkpoint is next to it.
    table: Path
    source_options: Mapping[str, str]
    #: Number of records in the smallest batch; the source waits until this number is available.
    min_records: int
    #: Simulated work per record, in microseconds.
    work_us: int
    _query: StreamingQuery | None = None
    #: Unix times of each batch's first and last write.
    _write_times: list[tuple[float, float]] = field(default_factory=list)

    def process_batch(self, number: int, flights: Sequence[Flight]) -> None:
        """Write a batch to the topic and wait for its commit; raise an error if that fails."""
        self._write_times.append(self.writer.write(self.topic, flights))
        query = self._query = self._query or self._start()
        deadline_s = time.monotonic() + _BATCH_LIMIT_S
        while not _has_committed(query, number):
            if not query.isActive:
                query.awaitTermination(1)  # raises the error that stopped the query
                raise DemoError(f"query {self.name!r} stopped without an error")
            if time.monotonic() > deadline_s:
                raise DemoError(
                    f"query {self.name!r} did not commit batch {number} within {_BATCH_LIMIT_S:g} s"
                )
            time.sleep(_PROGRESS_POLL_S)

    def _start(self) -> StreamingQuery:
        source = (
            self.spark.readStream.format("kafka")
            .options(**self.source_options)
            .option("subscribe", self.topic)
            .option("startingOffsets", "earliest")
            # The first batch reads all existing records; later batches wait for `min_records`.
            .option("minOffsetsPerTrigger", self.min_records)
            .option("maxTriggerDelay", "5h")
            .load()
        )
        sink = delta_sink(_sum_delays(source, self.work_us), path=str(self.table))
        return (
            source.writeStream.foreachBatch(
                lambda batch, number: sink(_sum_delays(batch, self.work_us), number)
            )
            .queryName(self.name)
            .option("checkpointLocation", f"{self.table}.checkpoint")
            .trigger(processingTime=_TRIGGER)
            .start()
        )

    def stop(self) -> tuple[BatchFigures, ...]:
        """Stop the query; return the figures of its batches with data, none if it never started."""
        if self._query is None:
            return ()
        self._query.stop()
        self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        progresses = (parse_progress(orjson.loads(p.json)) for p in self._query.recentProgress)
        progress_by_batch = {progress.batch: progress for progress in progresses if progress.rows}
        ui = get_ui(self.spark)
        ui_batches = choose_query(ui.fetch_batches(), str(self._query.id), ui.address)
        records_by_batch = {number: p.rows for number, p in progress_by_batch.items()}
        batches_with_data = [batch for batch in ui_batches if batch.batch in records_by_batch]
        return tuple(
            _add_progress(f, progress_by_batch[f.batch], self._write_times[f.batch])
            for f in ui.fetch_run(batches_with_data, records_by_batch).batches
        )

    def query_table(self) -> dict[str, Any]:
        """Return the ids' count, distinct count, minimum, and maximum, and the sums per carrier."""
        from pyspark.sql import functions as f

        rows = self.spark.read.format("delta").load(str(self.table))
        ids = rows.select(f.explode("ids").alias("id")).agg(
            f.count("id"), f.count_distinct("id"), f.min("id"), f.max("id")
        )
        by_carrier = rows.groupBy("carrier").agg(f.sum("flights"), f.sum("delay_min")).collect()
        return {
            "ids": list(ids.collect()[0]),
            "flights": {row[0]: row[1] for row in by_carrier},
            "delay_min": {row[0]: row[2] or 0 for row in by_carrier},
        }


def _has_committed(query: StreamingQuery, number: int) -> bool:
    progress = query.lastProgress
    return progress is not None and progress["batchId"] == number and progress["numInputRows"] > 0


def _sum_delays(rows: DataFrame, work_us: int) -> DataFrame:
    """Sum delays by carrier, and keep all ids to detect lost flights; wait `work_us` per record."""
    from pyspark.sql import functions as f

    if work_us:
        records_per_sleep = max(1, _SLEEP_US // work_us)
        sleep_ms = max(1, round(records_per_sleep * work_us / 1000))
        sleep_sql = f"java_method('java.lang.Thread', 'sleep', {sleep_ms}L)"
        is_due_sql = f"offset % {records_per_sleep} = 0"
        rows = rows.where(f"CASE WHEN {is_due_sql} THEN length({sleep_sql}) > 0 ELSE true END")
    return (
        rows.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("flight"))
        .select("flight.*")
        .groupBy("carrier")
        .agg(
            f.count("*").alias("flights"),
            f.sum("dep_delay").alias("delay_min"),
            f.collect_list("id").alias("ids"),
        )
    )


def _add_progress(
    figures: BatchFigures, progress: BatchProgress, write_times: tuple[float, float]
) -> BatchFigures:
    source, commit_time_s = progress.sources[0], progress.timestamp_s + progress.seconds
    first_s, last_s = write_times
    return replace(
        figures,
        seconds=progress.seconds,
        records=progress.rows,
        lag={str(tp): count for tp, count in sorted(source.unread_at_start.items())},
        metrics=source.metrics,
        newest_age_s=commit_time_s - last_s,
        oldest_age_s=commit_time_s - first_s,
    )

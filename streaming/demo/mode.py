"""One query of the demo's job, which reads one batch when it is its turn, and what it measured.

Spark's UI and the progress measure both modes alike, whether ours or Spark's mapping planned.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson

from streaming.demo.flights import SCHEMA
from streaming.demo.job import DemoError, ui_of
from streaming.observe.query_progress import read_progress
from streaming.observe.spark_ui import choose_query
from streaming.pipeline.delta.foreach_batch import delta_sink

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from streaming.demo.flights import Flight, Writer
    from streaming.observe.figures import BatchFigures
    from streaming.observe.query_progress import BatchProgress

_BATCH_LIMIT_S = 600.0
#: How often a query looks for its next batch, and the demo for the batch's end.
_TRIGGER, _LOOK_S = "200 milliseconds", 0.05
#: One sleep stands for the work of several records: few are exact, and wake nobody often.
_NAP_US = 10_000


@dataclass(slots=True)
class Mode:
    """A query with its own topic, checkpoint and table, all of them its alone."""

    spark: SparkSession
    name: str
    writer: Writer
    topic: str
    #: The checkpoint is next to it.
    table: Path
    #: Of the source. It makes a batch of everything that a turn writes: no less, so no more.
    options: Mapping[str, str]
    #: Least records of a turn.
    share: int
    work_us: int
    _query: StreamingQuery | None = None
    #: When the first and the last record of each batch were written.
    _written: list[tuple[float, float]] = field(default_factory=list)

    def take(self, batch: int, flights: Sequence[Flight]) -> None:
        """Write the records of a batch to the topic, and return when they are committed."""
        self._written.append(self.writer.write(self.topic, flights))
        query = self._query = self._query or self._start()
        deadline = time.monotonic() + _BATCH_LIMIT_S
        while not _has_read(query, batch):
            if not query.isActive:
                query.awaitTermination(1)  # raises what it ended with
                raise DemoError(f"the query {self.name!r} ended by itself")
            if time.monotonic() > deadline:
                raise DemoError(
                    f"batch {batch} of {self.name!r} did not end within {_BATCH_LIMIT_S:g} s"
                )
            time.sleep(_LOOK_S)

    def _start(self) -> StreamingQuery:
        source = (
            self.spark.readStream.format("kafka")
            .options(**self.options)
            .option("subscribe", self.topic)
            .option("startingOffsets", "earliest")
            # The first batch takes what is there; each later one waits for all of its turn.
            .option("minOffsetsPerTrigger", self.share)
            .option("maxTriggerDelay", "5h")
            .load()
        )
        sink = delta_sink(_delays(source, self.work_us), path=str(self.table))
        return (
            source.writeStream.foreachBatch(
                lambda batch, number: sink(_delays(batch, self.work_us), number)
            )
            .queryName(self.name)
            .option("checkpointLocation", f"{self.table}.checkpoint")
            .trigger(processingTime=_TRIGGER)
            .start()
        )

    def end(self) -> tuple[BatchFigures, ...]:
        """Stop the query; return its batches with the tasks that read their records."""
        if self._query is None:
            return ()
        self._query.stop()
        self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        told = (read_progress(orjson.loads(p.json)) for p in self._query.recentProgress)
        batches = {progress.batch: progress for progress in told if progress.rows}
        ui = ui_of(self.spark)
        ran = choose_query(ui.batches(), str(self._query.id), ui.address)
        records = {number: progress.rows for number, progress in batches.items()}
        run = ui.run([batch for batch in ran if batch.batch in batches], records)
        return tuple(
            _joined(figures, batches[figures.batch], self._written[figures.batch])
            for figures in run.batches
        )

    def table_figures(self) -> dict[str, Any]:
        """Ask the Delta table what it holds."""
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


def _has_read(query: StreamingQuery, batch: int) -> bool:
    last = query.lastProgress
    return last is not None and last["batchId"] == batch and last["numInputRows"] > 0


def _delays(batch: DataFrame, work_us: int) -> DataFrame:
    """Parse, then sum up by carrier; the flights' ids stay, so that none can go unnoticed."""
    from pyspark.sql import functions as f

    if work_us:
        every = max(1, _NAP_US // work_us)
        nap_ms = max(1, round(every * work_us / 1000))
        nap = f"java_method('java.lang.Thread', 'sleep', {nap_ms}L)"
        batch = batch.where(f"CASE WHEN offset % {every} = 0 THEN length({nap}) > 0 ELSE true END")
    return (
        batch.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("flight"))
        .select("flight.*")
        .groupBy("carrier")
        .agg(
            f.count("*").alias("flights"),
            f.sum("dep_delay").alias("delay_min"),
            f.collect_list("id").alias("ids"),
        )
    )


def _joined(
    figures: BatchFigures, progress: BatchProgress, written: tuple[float, float]
) -> BatchFigures:
    source, committed_s = progress.sources[0], progress.timestamp_s + progress.seconds
    first_s, last_s = written
    return replace(
        figures,
        seconds=progress.seconds,
        records=progress.rows,
        lag={str(tp): count for tp, count in sorted(source.waiting.items())},
        metrics=source.metrics,
        newest_s=committed_s - last_s,
        oldest_s=committed_s - first_s,
    )

"""What a small batch costs in each way to write it to a Delta table of 200 commits.

A batch has 1,000 rows of Spark's own `rate-micro-batch` source, in one task, so that the sink is
what is measured; Spark runs in local mode with two cores, shuffle and log in two partitions. The
ways take turns; in each turn a query goes on from its checkpoint, and its first two batches are
left out. Of a turn of appends one batch writes a checkpoint of the table's log. `times_ours` is a
way's median over that of ours of the same kind. "Before" is this project's sink where checksums are
not asked. A merge meets 10,000 keys in one file; the plain one is that of Delta's documentation:
neither exactly once, nor in any order of records.
"""

from __future__ import annotations

import shutil
import statistics
from typing import TYPE_CHECKING, Any

import pytest

from streaming.pipeline.config.sinks import DeltaSink
from streaming.pipeline.delta import upsert
from streaming.pipeline.delta.writer import DeltaWriter
from tests.lab.benchmarks.report import write_report
from tests.lab.benchmarks.turns import in_turn
from tests.support.spark_tools import start_spark, to_dict, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1200)]

COMMITS, KEYS, ROWS = 200, 10_000, 1_000
TURNS, WARM_UP = 3, 2
#: Batches that count of a turn: with as many commits as lie between two checkpoints.
BATCHES = {"append": 10, "merge": 5}


def test_what_a_batch_costs_in_each_sink(tmp_path: Path) -> None:
    spark = start_spark("local[2]", tmp_path)
    try:
        tables = make_tables(spark, tmp_path)
        ways = {
            "append: Spark's own sink": Way(spark, tmp_path / "own", tables["append"], own_sink),
            "append: ours, before": Way(spark, tmp_path / "before", tables["append"], before),
            "append: ours": Way(spark, tmp_path / "now", tables["append"], now),
            "merge: DeltaTable.merge in foreachBatch": Way(
                spark, tmp_path / "plain", tables["merge"], plain_merge
            ),
            "merge: ours": Way(spark, tmp_path / "upsert", tables["merge"], now_merge),
        }
        for turn in range(TURNS):
            for name, way in in_turn(list(ways.items()), turn):
                way.run(BATCHES[name.split(":")[0]])
        rows = [way.row(name) for name, way in ways.items()]
        medians = {row["sink"]: row["batch_s_median"] for row in rows}
        for row in rows:
            ours_s = medians[row["sink"].split(":")[0] + ": ours"]
            row["times_ours"] = row["batch_s_median"] / ours_s
    finally:
        spark.stop()
    for row in rows:
        print(row)
    write_report(
        "delta_sink",
        title="What a batch costs in Spark's own Delta sink and in ours",
        command="make bench",
        rows=rows,
        notes=__doc__ or "",
    )


def make_tables(spark: SparkSession, folder: Path) -> dict[str, Path]:
    """Make a table of 200 commits, and a compacted one of as many, with each key once."""
    writer = DeltaWriter(
        DeltaSink(path=str(folder / "append"), target_file_size="off"), "made for the benchmark"
    )
    writer.set_query("the query that made it")
    each = KEYS // COMMITS
    for number in range(COMMITS):
        batch = keyed(spark.range(number * each, (number + 1) * each, 1, 1).toDF("value"), -1)
        if number == 0:
            writer.prepare(spark, batch)
        writer(batch, number)
    shutil.copytree(folder / "append", folder / "merge")
    spark.sql(f"OPTIMIZE delta.`{folder / 'merge'}`")
    return {"append": folder / "append", "merge": folder / "merge"}


def keyed(values: DataFrame, version: int | None = None) -> DataFrame:
    """Rows of a table that an upsert may have made: a key, a payload, and the sequence."""
    seq = "value" if version is None else f"nullif({version}L, 0L)"  # may be null, as a stream's
    return values.selectExpr(
        f"value * 7919 % {KEYS} AS id",
        "concat('payload of ', value) AS payload",
        f"{seq} AS seq",
        f"named_struct('seq', {seq}) AS _sequence",
    )


class Way:
    """One way to write: its own copy of the table, and a query that goes on turn after turn."""

    def __init__(
        self, spark: SparkSession, folder: Path, table: Path, start: Callable[..., StreamingQuery]
    ) -> None:
        self._spark = spark
        self._checkpoint = str(folder / "checkpoint")
        self._table = str(folder / "table")
        self._start = start
        shutil.copytree(table, self._table)
        self._seconds: list[float] = []
        self._jobs: list[float] = []

    def run(self, batches: int) -> None:
        """Take a turn."""
        source = (
            self._spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", ROWS)
            .option("numPartitions", 1)
            .option("startTimestamp", 1)
            .option("advanceMillisPerBatch", 1)
            .load()
        )
        query = self._start(source, self._checkpoint, self._table)
        try:
            done(query, WARM_UP)
            before, seen = self._job_count(), len(query.recentProgress)
            done(query, seen + batches)
            jobs, progresses = self._job_count() - before, query.recentProgress[seen:]
        finally:
            query.stop()
        took = [to_dict(p)["durationMs"]["triggerExecution"] / 1000 for p in progresses]
        self._seconds += took
        self._jobs.append(jobs / len(took))

    def _job_count(self) -> int:
        count: int = self._spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()
        return count

    def row(self, name: str) -> dict[str, Any]:
        """Sum up."""
        return {
            "sink": name,
            "batch_s_median": statistics.median(self._seconds),
            "batch_s_min": min(self._seconds),
            "batch_s_max": max(self._seconds),
            "jobs_a_batch": statistics.mean(self._jobs),
            "batches": len(self._seconds),
        }


def done(query: StreamingQuery, batches: int) -> None:
    """Wait for so many batches of this run."""

    def are_done() -> bool:
        assert query.exception() is None, str(query.exception())
        return len(query.recentProgress) >= batches

    wait_until(are_done, f"{batches} batches", 120)


def own_sink(source: DataFrame, checkpoint: str, table: str) -> StreamingQuery:
    rows = keyed(source)
    return started(rows.writeStream.format("delta").option("path", table), checkpoint)


def before(source: DataFrame, checkpoint: str, table: str) -> StreamingQuery:
    return ours(keyed(source), DeltaSink(path=table), checkpoint, "as it was before")


def now(source: DataFrame, checkpoint: str, table: str) -> StreamingQuery:
    return ours(keyed(source), DeltaSink(path=table), checkpoint)


def now_merge(source: DataFrame, checkpoint: str, table: str) -> StreamingQuery:
    sink = DeltaSink(path=table, mode="upsert", keys="id", sequence_by="seq")
    rows = source.selectExpr(
        f"value * 7919 % {KEYS} AS id", "concat('payload of ', value) AS payload", "value AS seq"
    )
    return ours(upsert.add_sequence(rows, sink), sink, checkpoint)


def plain_merge(source: DataFrame, checkpoint: str, table: str) -> StreamingQuery:

    from delta.tables import DeltaTable

    def merge(batch: DataFrame, number: int) -> None:
        del number
        target = DeltaTable.forPath(batch.sparkSession, table).alias("t")
        builder = target.merge(batch.alias("s"), "t.id = s.id")
        builder.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    return started(keyed(source).writeStream.foreachBatch(merge), checkpoint)


def ours(
    rows: DataFrame, sink: DeltaSink, checkpoint: str, misfit: str | None = None
) -> StreamingQuery:
    writer = DeltaWriter(sink, "sink")
    writer.once_writer.unsupported_reason = misfit
    query = started(rows.writeStream.foreachBatch(writer), checkpoint)
    writer.set_query(query.id)
    return query


def started(writer: Any, checkpoint: str) -> StreamingQuery:
    query: StreamingQuery = writer.option("checkpointLocation", checkpoint).start()
    return query

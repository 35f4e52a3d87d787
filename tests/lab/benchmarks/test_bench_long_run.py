"""One job for ten minutes: three topics to two Delta tables at 5,000 records a second.

`assignor run` with one YAML file. JSON and CSV records are united by SQL and appended to one table;
Avro records in Confluent's wire format are merged into another, by 100,000 keys drawn at random.
The trigger is five seconds; a batch that takes longer is followed by the next at once. Spark's
driver, two executors of one slot, broker and producer share the machine's two cores. The measured
time begins when each query has written a first small batch. Lag is what was written to a query's
topics and is not yet in its table, looked at each second: it rises while a batch runs and falls at
its end. Heap is what a JVM's collections left, the least of each half minute; the rest of memory is
resident. At the end each record must be in the tables, once. `LONG_RUN_S=60 make bench` makes it
shorter.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from delta.tables import DeltaTable
from pyspark.sql import functions as f

from assignor_bridge.errors import OptionError
from streaming.kafka.topics import create_topic
from streaming.observe.progress_log import read_batches
from tests.lab.benchmarks.job_process import (
    PARTS,
    JobProcess,
    Used,
    heap_after_collections,
    used_by,
)
from tests.lab.benchmarks.long_run_figures import QueryRun, Series, drawn, percentile, thirds
from tests.lab.benchmarks.long_run_load import Load
from tests.lab.benchmarks.report import FOLDER, write_report
from tests.support.spark_tools import start_spark, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

LASTS_S = float(os.environ.get("LONG_RUN_S", "600"))
RATE, PARTITIONS, WARM_UP_ROUNDS = 5_000, 4, 100
EVERY_S, SAMPLE_S, HEAP_S = 60.0, 5.0, 30.0
PICTURE = FOLDER.parent / "images" / "long_run.svg"
#: The tables with the topics that go into them.
TABLES = {"appended": 2, "merged": 1}
AVRO = """{"type": "record", "name": "Reading", "fields": [
    {"name": "id", "type": "long"}, {"name": "value", "type": "double"}]}"""
JOB = """
name: long-run
kafka.bootstrap.servers: ${BROKER}
sources:
  j: {subscribe: "json-${MARK}", records: {format: json, schema: "id BIGINT, value DOUBLE"}}
  c: {subscribe: "csv-${MARK}", records: {format: csv, schema: "id BIGINT, value DOUBLE"}}
  a: {subscribe: "avro-${MARK}", records: {format: avro, schema: reading.avsc}}
transforms:
  both:
    sql: SELECT 'json' AS kind, id, value FROM j UNION ALL SELECT 'csv', id, value FROM c
sinks:
  appended: {from: both, path: "${OUT}/appended", compact_every: 20}
  merged: {from: a, path: "${OUT}/merged", mode: upsert, keys: id, compact_every: 20}
trigger: processingTime 5 seconds
checkpoint: ${OUT}/checkpoint
metrics: {log_file: "${OUT}/progress.jsonl"}
spark:
  spark.master: local-cluster[2,1,1024]
  spark.driver.extraJavaOptions: -Xlog:gc:file=${OUT}/driver.gc:timemillis
  spark.executor.extraJavaOptions: -Xlog:gc:file=${OUT}/executor-%p.gc:timemillis
"""


@dataclass
class Samples:
    """Memory and CPU of the parts, every five seconds."""

    taken: list[dict[str, Used]] = field(default_factory=list)

    def series(self, part: str) -> Series:
        """Resident memory of a part."""
        return Series(part, [sample[part].rss_mb for sample in self.taken], SAMPLE_S)

    def cores(self, part: str) -> float:
        """Mean use of CPU, in cores."""
        first, last = self.taken[0][part], self.taken[-1][part]
        return (last.cpu_s - first.cpu_s) / (SAMPLE_S * max(1, len(self.taken) - 1))


def test_three_topics_to_two_tables(broker: EmbeddedBroker, tmp_path: Path) -> None:
    mark = uuid4().hex[:6]
    topics = (f"json-{mark}", f"csv-{mark}", f"avro-{mark}")
    for topic in topics:
        create_topic(broker.bootstrap_servers, topic, PARTITIONS)
    (tmp_path / "reading.avsc").write_text(AVRO)
    (tmp_path / "job.yaml").write_text(JOB)
    job = JobProcess(
        tmp_path / "job.yaml", tmp_path,
        {"BROKER": broker.bootstrap_servers, "MARK": mark, "OUT": str(tmp_path)},
    )  # fmt: skip
    try:
        wait_until(job.is_running, "the job's start", 180)
        load = Load(broker.bootstrap_servers, topics, RATE / len(topics))
        load.warm_up(WARM_UP_ROUNDS)
        wait_until(lambda: all_read(job, tmp_path, load.rounds), "the first records", 180)
        load.start()
        try:
            samples = sampled(job, broker.pid or 0)
        finally:
            load.stop()
        wait_until(lambda: all_read(job, tmp_path, load.rounds), "the last records", 300)
        job.stop()
    finally:
        job.kill()
    spark = start_spark("local[2]", tmp_path / "reader")
    try:
        check_tables(spark, tmp_path, load)
        sizes = {name: size(spark, tmp_path / name) for name in TABLES}
    finally:
        spark.stop()
    runs = queries(tmp_path)
    for batch in (batch for run in runs for batch in run.batches):
        for source in batch.sources:  # else the figures are not about the option
            planned = [source.metrics.get(f"assignor.{key}") for key in ("strategy", "fallbacks")]
            assert planned == ["lag-aware-sticky", "0"], source.metrics
    report(tmp_path, runs, load, samples, sizes)


def sampled(
    job: JobProcess, broker: int, every: int = 0, look: Callable[[], None] = lambda: None
) -> Samples:
    """Look at the processes as long as the run lasts; closer at every so-and-so-many-th sample."""
    samples, began = Samples(), time.monotonic()
    while True:
        assert job.is_running()
        samples.taken.append(job.used() | {"broker": used_by(broker)})
        if every and len(samples.taken) % every == 0:
            look()
        due = began + len(samples.taken) * SAMPLE_S
        if due > began + LASTS_S:
            time.sleep(max(0.0, began + LASTS_S - time.monotonic()))
            return samples
        time.sleep(max(0.0, due - time.monotonic()))


def queries(folder: Path) -> list[QueryRun]:
    """Read the batches of both queries from the job's log."""
    batches = read_batches(folder / "progress.jsonl")
    return [
        QueryRun(name, topics, [b for b in batches if b.label == f"long-run.{name}"])
        for name, topics in TABLES.items()
    ]


def all_read(job: JobProcess, folder: Path, rounds: int) -> bool:
    """Whether both queries have read all that was written; fails when the job has ended."""
    assert job.is_running()
    try:
        found = queries(folder)
    except OptionError:  # no batch yet
        return False
    return all(sum(b.rows for b in run.batches) == run.topics * rounds for run in found)


def check_tables(spark: SparkSession, folder: Path, load: Load) -> None:
    """Each record is there once; of each key the newest."""
    appended = read(spark, folder / "appended").groupBy("kind").agg(
        f.count("*"), f.countDistinct("id"), f.min("id"), f.max("id"),
        f.count_if(f.expr("value = id / 8")),
    )  # fmt: skip
    counts = (load.rounds, load.rounds, 0, load.rounds - 1, load.rounds)
    assert sorted(map(tuple, appended.collect())) == [("csv", *counts), ("json", *counts)]
    merged = read(spark, folder / "merged").select("id", "value").collect()
    assert sorted((row.id, row.value) for row in merged) == sorted(load.newest.items())


def read(spark: SparkSession, path: Path) -> DataFrame:
    return spark.read.format("delta").load(str(path))


def size(spark: SparkSession, path: Path) -> str:
    """Tell files and bytes of a table, and what is in its folder until VACUUM."""
    detail = DeltaTable.forPath(spark, str(path)).detail().collect()[0]
    there = [file.stat().st_size for file in path.rglob("*.parquet")]
    return (
        f"{detail.numFiles} files with {detail.sizeInBytes / 2**20:.1f} MB "
        f"({len(there)} with {sum(there) / 2**20:.1f} MB before VACUUM)"
    )


def report(
    folder: Path, runs: Sequence[QueryRun], load: Load, samples: Samples, sizes: dict[str, str]
) -> None:
    lags = [run.lag(load) for run in runs]
    driver = heap(folder.glob("driver.gc"), "driver", load)
    executors = heap(folder.glob("executor-*.gc"), "executors", load)
    picture = drawn(
        [
            ("Records not yet in the table, most of 10 s", [lag.in_windows(10) for lag in lags]),
            ("Heap that collections left, MB", [driver, executors]),
        ],
        "lag and memory of a job over ten minutes",
    )
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(picture, encoding="utf-8")
    lasted_s = load.ended_s - load.began_s
    per_s = 3 * (load.rounds - WARM_UP_ROUNDS) / lasted_s
    cores = load.cpu_s / lasted_s
    notes = [
        __doc__ or "",
        f"Reached: {per_s:,.0f} records a second. The producer was {3 * load.most_behind:,} "
        f"records behind its plan at most, and took {cores:.2f} cores.",
        "",
        "| table | batches | batch s p50 | p95 | max | lag, median of first third | last third "
        "| max | slope, records a minute | files at the end |",
        "|---" * 10 + "|",
        *(
            f"| {run.name} | {len(run.seconds(load.began_s))} | "
            + " | ".join(f"{percentile(run.seconds(load.began_s), p):.2f}" for p in (50, 95, 100))
            + f" | {thirds(lag)} | {lag.per_minute:+,.0f} | {sizes[run.name]} |"
            for run, lag in zip(runs, lags, strict=True)
        ),
        "",
        "| memory, MB | median of first third | last third | max | slope, MB a minute | cores |",
        "|---" * 6 + "|",
        *(
            f"| {what} | {thirds(series)} | {series.per_minute:+.1f} | {used} |"
            for what, series, used in (
                ("driver's heap", driver, ""),
                ("executors' heaps", executors, ""),
                *(
                    (f"{part}, resident", samples.series(part), f"{samples.cores(part):.2f}")
                    for part in (*PARTS, "broker")
                ),
            )
        ),
        "",
        "![Lag and memory over time](../images/long_run.svg)",
        "",
        "Minute by minute:",
    ]
    write_report(
        "long_run",
        title=f"One job, two tables: {3 * load.rounds:,} records in {LASTS_S / 60:g} minutes",
        command="make bench" if LASTS_S == 600 else f"LONG_RUN_S={LASTS_S:g} make bench",
        rows=[
            minute(number, runs, lags, samples, load)
            for number in range(max(1, round(LASTS_S / EVERY_S)))
        ],
        notes="\n".join(notes),
    )
    print("\n".join(notes[1:]))


def heap(logs: Any, name: str, load: Load) -> Series:
    """Give the least heap that collections left in each half minute, summed over JVMs."""
    sums = [0.0] * max(1, round((load.ended_s - load.began_s) / HEAP_S))
    for log in logs:
        found, last = heap_after_collections(log), 0.0
        for window in range(len(sums)):
            begins = load.began_s + window * HEAP_S
            left = [mb for at, mb in found if begins <= at < begins + HEAP_S]
            last = min(left, default=last)  # no collection: as before
            sums[window] += last
    return Series(name, sums, HEAP_S)


def minute(
    number: int, runs: Sequence[QueryRun], lags: Sequence[Series], samples: Samples, load: Load
) -> dict[str, Any]:
    """What one minute was like."""
    begins, ends = number * EVERY_S, (number + 1) * EVERY_S
    row: dict[str, Any] = {
        "minute": number + 1,
        "records": 3 * (load.rounds_after(ends) - load.rounds_after(begins)),
    }
    for run, lag in zip(runs, lags, strict=True):
        took = run.seconds(load.began_s + begins, load.began_s + ends)
        row[f"{run.name}_batch_s_median"] = percentile(took, 50)
        row[f"{run.name}_batch_s_max"] = percentile(took, 100)
        row[f"{run.name}_lag_max"] = max(lag.between(begins, ends), default=0)
    for part in PARTS:
        row[f"{part}_mb"] = round(max(samples.series(part).between(begins, ends), default=0))
    return row

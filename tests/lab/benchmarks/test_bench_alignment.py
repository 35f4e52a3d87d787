"""A backfill with a watermark: what is dropped, and how large the state becomes.

24 partitions are behind by three hours down to ten minutes, all up to the same time, with 6.25
records a second each. A count by minute and 1,000 keys reads them, at most 100,000 in a batch.
Three ways take turns, three times: Spark's own order with a watermark of ten minutes (and Spark's
best setting, `kafka.fetch.max.wait.ms=1`); the same with
`assignor.alignEventTime=10 minutes`; and Spark's own order with a watermark of three hours, as it
takes there to drop nothing. `records_lost` are those in no window of the result,
`rows_dropped` is Spark's numRowsDroppedByWatermark, `peak_state_rows` the largest numRowsTotal. The
seconds are those of all triggers. What is lost or dropped is the most of three runs, the other
figures are medians, after a run that warms the JVMs up.
Aligned batches are shorter than Spark's wherever the limit would let them reach further than ten
minutes, so there are more of them.

`ASSIGNOR_BENCH_SCALE=0.1` has a tenth of the records, in one run each, and writes nothing.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from tests.lab.benchmarks.report import write_report
from tests.lab.benchmarks.tuned_spark import SHORT_WAIT
from tests.lab.benchmarks.turns import in_turn
from tests.support.spark_tools import assert_planned, read_topic, wait_for_end

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

SCALE = float(os.environ.get("ASSIGNOR_BENCH_SCALE", "1"))  # below 1: does it run? writes nothing
PARTITIONS, KEYS, REPEATS = 24, 1000, 3 if SCALE == 1 else 1
LONGEST_S, SHORTEST_S = 3 * 3600, 600
A_SECOND = 6.25 * SCALE  # records of a partition: 860,000 in all
LIMIT = round(100_000 * SCALE)
SPARK, ALIGNED, PATIENT = "Spark", "aligned", "Spark, watermark of 3 hours"
BEST = dict(SHORT_WAIT)
WAYS = {
    SPARK: (BEST, "10 minutes"),
    ALIGNED: (
        {
            "assignor": "lag-aware-sticky", "assignor.onError": "fail",
            "assignor.alignEventTime": "10 minutes",
        },
        "10 minutes",
    ),
    PATIENT: (BEST, "3 hours"),
}  # fmt: skip


def test_a_skewed_backlog(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.create(PARTITIONS)
    total = fill(topic)
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    count(spark, topic, tmp_path / "warm", SPARK)
    for repeat in range(REPEATS):
        for way in in_turn(list(WAYS), repeat):
            folder = tmp_path / f"{repeat}{len(way)}"
            runs[way].append(count(spark, topic, folder, way))
    rows = [row_of(way, total, of_way) for way, of_way in runs.items()]
    print(json.dumps(rows, indent=2))
    if SCALE == 1:
        write_report(
            "alignment",
            title="Event-time alignment of a backfill with a watermark",
            command="make bench (tests/lab/benchmarks/test_bench_alignment.py)",
            rows=rows,
            notes=__doc__ or "",
        )
    by_way = {row["way"]: row for row in rows}
    for way in (ALIGNED, PATIENT):
        assert by_way[way]["records_lost"] == by_way[way]["rows_dropped"] == 0
    assert by_way[SPARK]["rows_dropped"] > 0, "nothing was at stake"


def fill(topic: Topic) -> int:
    """Write the backlog; the number of its records."""
    producer = Producer(
        {
            "bootstrap.servers": topic.bootstrap_servers, "linger.ms": 50,
            "queue.buffering.max.messages": 2_000_000,
            "enable.idempotence": True,  # a batch that is sent again keeps its place
        }
    )  # fmt: skip
    end = time.time() // 60 * 60 - 3600
    total = 0
    for partition in range(PARTITIONS):
        behind_s = LONGEST_S - (LONGEST_S - SHORTEST_S) * partition / (PARTITIONS - 1)
        records = int(behind_s * A_SECOND)
        for number in range(records):
            stamp = round(1000 * (end - behind_s + number / A_SECOND))
            key = str(number % KEYS)
            producer.produce(topic.name, None, key, partition=partition, timestamp=stamp)
            if number % 10_000 == 0:
                producer.poll(0)
        total += records
    assert producer.flush(120) == 0
    return total


def count(spark: SparkSession, topic: Topic, folder: Path, way: str) -> dict[str, Any]:
    """Count the whole topic in one way."""
    from pyspark.sql import functions as f

    options, delay = WAYS[way]
    counted = str(folder / "counted")

    def keep(counts: DataFrame, batch: int) -> None:
        counts.withColumn("batch", f.lit(batch)).write.mode("append").parquet(counted)

    query = (
        read_topic(spark, topic, {"maxOffsetsPerTrigger": str(LIMIT), **options})
        .withWatermark("timestamp", delay)
        .groupBy(f.window("timestamp", "1 minute"), "key")
        .count()
        .writeStream.outputMode("update")
        .foreachBatch(keep)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    batches = wait_for_end(query, 600)
    if way == ALIGNED:
        assert_planned(batches)
        metrics = [source["metrics"] for batch in batches for source in batch["sources"]]
        assert "time" in {figures.get("assignor.heldBackBy") for figures in metrics}
    states = [operator for batch in batches for operator in batch["stateOperators"]]
    last = spark.read.parquet(counted).groupBy("window", "key").agg(f.max("count").alias("n"))
    return {
        "batches": sum(batch["numInputRows"] > 0 for batch in batches),
        "seconds": sum(batch["durationMs"]["triggerExecution"] for batch in batches) / 1000,
        "counted": last.agg(f.sum("n")).first()[0],
        "rows_dropped": sum(state["numRowsDroppedByWatermark"] for state in states),
        "peak_state_rows": max(state["numRowsTotal"] for state in states),
        "peak_state_mb": max(state["memoryUsedBytes"] for state in states) / 2**20,
    }


def row_of(way: str, total: int, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Sum up the runs of one way."""
    median = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    seconds = [run["seconds"] for run in runs]
    return {
        "way": way,
        "watermark": WAYS[way][1],
        "records": total,
        "records_lost": total - min(run["counted"] for run in runs),
        "rows_dropped": max(run["rows_dropped"] for run in runs),
        "peak_state_rows": median["peak_state_rows"],
        "peak_state_mb": median["peak_state_mb"],
        "batches": median["batches"],
        "seconds_median": median["seconds"],
        "seconds_min": min(seconds),
        "seconds_max": max(seconds),
    }

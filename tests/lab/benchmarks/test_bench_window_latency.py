"""Spark's own published latency of micro-batches over Kafka, with the option and without.

Spark publishes one figure for micro-batches beside its real-time mode, in the results file of
`RTMKafkaWindowAggregationBenchmark` (connector/kafka-0-10-sql/benchmarks): p50 358 ms, p99 492 ms.
The same workload here: 1,000 records a second into five equal partitions, counted by 1,000 keys and
a window of a minute, update mode, RocksDB with changelog checkpoints, `ProcessingTime(0)`, and each
update written to Kafka with the time of its newest record. Latency is the output record's
CreateTime minus that time. The source has that benchmark's settings, `fetch.max.wait.ms=1` and
`max.partition.fetch.bytes` of 10 MB; "with the option" has them, too.

What differs: two executors of one slot that share two cores with broker and producer, where Spark's
had three of five slots on a server; runs of two minutes after half a minute of warm-up, two for
each way and in turns, after a shorter one of each that does not count, where Spark's had half an
hour after ten minutes; keys come as JSON. So the published figures are not to be compared with
these, but these with each other.

`batches` and `batch_s_median` are those of Spark's progress. `ASSIGNOR_BENCH_SCALE=0.1` tries it
with runs of twelve seconds, and writes nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pytest

from tests.lab.benchmarks.freshness_load import Load, LoadProcess
from tests.lab.benchmarks.freshness_runs import batches_of, wait_for
from tests.lab.benchmarks.report import write_report
from tests.lab.benchmarks.turns import NO_WAIT, OURS, SCALE, cluster, in_turn
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import assert_planned, read_topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

PARTITIONS, KEYS, RATE, FIRST = 5, 1_000, 1_000, 20
WARM_UP_S, MEASURED_S, RUNS = max(4.0, 30 * SCALE), 120 * SCALE, 2
SETTINGS = NO_WAIT | {"kafka.max.partition.fetch.bytes": str(10 * 1024 * 1024)}
WAYS = {"Spark: its settings": SETTINGS, "lag-aware-sticky": SETTINGS | OURS}
_STORE = "spark_sql_streaming_stateStore_"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = cluster(
        tmp_path_factory.mktemp("spark"), 2,
        spark_sql_shuffle_partitions=str(PARTITIONS),
        spark_sql_streaming_pollingDelay="10ms",
        spark_sql_streaming_numRecentProgressUpdates="2000",
        **{
            f"{_STORE}providerClass":
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
            f"{_STORE}rocksdb_changelogCheckpointing_enabled": "true",
            f"{_STORE}rocksdb_trackTotalNumberOfRows": "false",
        },
    )  # fmt: skip
    yield session
    session.stop()


def test_window_latency(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for options in WAYS.values():
        run(spark, servers, options, tmp_path, MEASURED_S / 4)
    for number in range(RUNS):
        for way in in_turn(list(WAYS), number):
            runs[way].append(run(spark, servers, WAYS[way], tmp_path, MEASURED_S))
            print(way, {k: v for k, v in runs[way][-1].items() if k != "latency"}, flush=True)
    rows = [row_of(way, of_way) for way, of_way in runs.items()]
    for row in rows:
        row["p99_times_ours"] = row["p99_ms"] / rows[-1]["p99_ms"]
        print(row, flush=True)
    if SCALE == 1:
        write_report(
            "window_latency", title="Spark's published latency of windows over Kafka", rows=rows,
            notes=__doc__ or "",
            command="make bench (tests/lab/benchmarks/test_bench_window_latency.py)",
        )  # fmt: skip


def counted(frame: DataFrame) -> DataFrame:
    """Count by key and minute; the newest record's time goes with each update as a header."""
    from pyspark.sql import functions as f

    key = f.get_json_object(f.col("value").cast("string"), "$.key").cast("bigint") % KEYS
    groups = frame.select(key.alias("id"), "timestamp").groupBy(
        f.window("timestamp", "1 minute"), "id"
    )
    newest = f.unix_millis(f.max("timestamp")).cast("string").cast("binary")
    header = f.struct(f.lit("source-timestamp").alias("key"), f.col("newest").alias("value"))
    return groups.agg(f.count("*").alias("count"), newest.alias("newest")).select(
        f.col("id").cast("string").alias("key"),
        f.col("count").cast("string").alias("value"),
        f.array(header).alias("headers"),
    )


def run(
    spark: SparkSession, servers: str, options: Mapping[str, str], folder: Path, measured_s: float
) -> dict[str, Any]:
    """Run the query for a while; give the latencies of what it wrote after the warm-up."""
    topic, sink = (Topic(servers, f"{kind}-{uuid4().hex[:8]}") for kind in ("window", "counts"))
    topic.create(PARTITIONS)
    sink.create(PARTITIONS)
    with LoadProcess(Load(servers, topic.name, PARTITIONS, 0, FIRST)) as producer:
        query = (
            counted(read_topic(spark, topic, options))
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", servers)
            .option("topic", sink.name)
            .option("kafka.compression.type", "snappy")
            .option("checkpointLocation", str(folder / topic.name))
            .outputMode("update")
            .trigger(processingTime="0 seconds")
            .start()
        )
        try:
            wait_for(query, FIRST)
            producer.write_at(RATE)
            from_ms = 1000 * (time.time() + WARM_UP_S)
            time.sleep(WARM_UP_S + measured_s)
            written = producer.end()
            wait_for(query, written["records"])
            batches = batches_of(query)
        finally:
            query.stop()
    if "assignor" in options:
        assert_planned(batches)
    seconds = [b["durationMs"]["triggerExecution"] / 1000 for b in batches]
    return {
        "latency": latencies(spark, sink, from_ms),
        "batches": len(batches),
        "batch_s_median": float(np.median(seconds)),
    }


def latencies(spark: SparkSession, sink: Topic, from_ms: float) -> list[int]:
    """Read what the query wrote: milliseconds of each update whose record came after a time."""
    made = "CAST(CAST(headers[0].value AS STRING) AS BIGINT)"
    rows = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", sink.bootstrap_servers)
        .option("subscribe", sink.name)
        .option("includeHeaders", "true")
        .load()
        .where(f"{made} >= {from_ms}")
        .selectExpr(f"unix_millis(timestamp) - {made} AS latency")
    )
    return [row.latency for row in rows.collect()]


def row_of(way: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Sum up the runs of a way; the spread is that of its runs' own p99."""
    latency = np.array([value for run in runs for value in run["latency"]])
    p50, p95, p99 = (float(p) for p in np.percentile(latency, (50, 95, 99)))
    each = [float(np.percentile(run["latency"], 99)) for run in runs]
    return {
        "way": way,
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
        "p99_ms_of_runs": f"{min(each):.0f} to {max(each):.0f}",
        "max_ms": float(latency.max()),
        "updates": len(latency),
        "batches": sum(run["batches"] for run in runs),
        "batch_s_median": float(np.median([run["batch_s_median"] for run in runs])),
    }

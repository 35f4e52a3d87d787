"""A skewed micro-batch over eight executors, beside Spark's own mappings in the same run.

Sixteen partitions with Zipf 1.2 lags, 16,000 records a batch. A record costs 1 ms, modelled by
sleeping in the executor, so that eight executors can share two cores: the ideal is 2.0 s. Every
tenth record sleeps 10 ms, since thousands of wake-ups a second would be work for the two cores that
the model does not mean. All queries run side
by side and take turns, one whole batch a round; the first rounds warm up.

Spark's reader waits up to half a second at the end of a partition (`fetch.max.wait.ms`): the rows
with `no wait` have 1 ms there, and tell how much of a difference is placement.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.lab.benchmarks.report import write_report
from tests.lab.benchmarks.turns import NO_WAIT, in_turn
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import assert_planned, read_topic, start_spark, to_dict, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

EXECUTORS, PARTITIONS, RECORDS, ZIPF = 8, 16, 16_000, 1.2
IDEAL_S = RECORDS / EXECUTORS / 1000
WARM_UP, ROUNDS = 2, 8

MODES: Mapping[str, dict[str, str]] = {
    "Spark: default": {},
    "Spark: minPartitions=32": {"minPartitions": "32"},
    "Spark: minPartitions=64": {"minPartitions": "64"},
    "Spark: maxRecordsPerPartition=1000": {"maxRecordsPerPartition": "1000"},
    "Spark: maxRecordsPerPartition=500": {"maxRecordsPerPartition": "500"},
    "Spark: default, no wait": NO_WAIT,
    "Spark: minPartitions=32, no wait": {"minPartitions": "32"} | NO_WAIT,
    "lag-aware-sticky": {"assignor": "lag-aware-sticky"},
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Eight executors of one slot each."""
    session = start_spark(f"local-cluster[{EXECUTORS},1,1024]", tmp_path_factory.mktemp("spark"))
    wait_until(lambda: executors(session) == EXECUTORS, f"{EXECUTORS} executors", 180)
    yield session
    session.stop()


def executors(spark: SparkSession) -> int:
    """Count the executors that have registered."""
    known: int = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()
    return known - 1


def zipf_counts() -> list[int]:
    """Records of each partition: 16,000 by Zipf's law, the rest of rounding to the first."""
    weights = [1 / rank**ZIPF for rank in range(1, PARTITIONS + 1)]
    counts = [int(RECORDS * w / sum(weights)) for w in weights]
    counts[0] += RECORDS - sum(counts)
    return counts


def test_zipf_lags_on_eight_executors(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topics, queries = {}, {}
    for number, (mode, options) in enumerate(MODES.items()):
        topics[mode] = Topic(broker.bootstrap_servers, f"zipf-{uuid4().hex[:6]}").create(PARTITIONS)
        topics[mode].fill(zipf_counts())  # the first batch takes what is there, and warms up
        whole = {"minOffsetsPerTrigger": str(RECORDS), "maxTriggerDelay": "5h"}
        queries[mode] = (
            read_topic(spark, topics[mode], whole | options)
            .selectExpr(
                "CASE WHEN offset % 10 = 9 THEN java_method('java.lang.Thread', 'sleep', 10L) END"
            )
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / str(number)))
            .trigger(processingTime="500 milliseconds")
            .start()
        )
    for mode, query in queries.items():
        wait_until(lambda q=query: batches(q), f"the first batch of {mode}", 300)
    took: dict[str, list[dict[str, int]]] = {mode: [] for mode in MODES}
    for round_number in range(WARM_UP + ROUNDS):
        for mode, query in in_turn(list(queries.items()), round_number):
            seen = len(batches(query))
            topics[mode].fill(zipf_counts())
            wait_until(lambda q=query, n=seen: len(batches(q)) > n, f"a batch of {mode}", 300)
            if round_number >= WARM_UP:
                took[mode].append(batches(query)[-1]["durationMs"])
    for mode, query in queries.items():
        if "assignor" in MODES[mode]:
            assert_planned(batches(query))
        query.stop()
    write_report(
        "end_to_end",
        title="A skewed micro-batch over eight executors",
        command="make bench",
        rows=rows_of(took),
        notes=__doc__ or "",
    )
    for row in rows_of(took):
        print(row)


def batches(query: Any) -> list[dict[str, Any]]:
    """Give the progresses of batches that read the records of a round."""
    assert query.exception() is None, str(query.exception())
    found = [to_dict(p) for p in query.recentProgress]
    assert all(b["numInputRows"] in {0, RECORDS} for b in found)
    return [b for b in found if b["numInputRows"]]


def rows_of(took: Mapping[str, list[dict[str, int]]]) -> list[dict[str, Any]]:
    """Sum up each mode: median and spread, and how much longer than ours, round by round."""

    def seconds(mode: str, part: str) -> list[float]:
        return [durations[part] / 1000 for durations in took[mode]]

    ours = seconds("lag-aware-sticky", "triggerExecution")
    rows = []
    for mode in took:
        batch = seconds(mode, "triggerExecution")
        rows.append(
            {
                "mapping": mode,
                "batch_s_median": statistics.median(batch),
                "batch_s_min": min(batch),
                "batch_s_max": max(batch),
                "tasks_s_median": statistics.median(seconds(mode, "addBatch")),
                "times_the_ideal": statistics.median(batch) / IDEAL_S,
                "times_ours": statistics.median(a / b for a, b in zip(batch, ours, strict=True)),
                "rounds": len(batch),
            }
        )
    return rows

"""What `spark.locality.wait` costs when the executor that a task prefers is busy.

Two executors of one slot. A batch has 2,000 records that cost 1 ms each (ten-millisecond sleeps), a
task for each executor, so 1.0 s is ideal. Half of the batches meet a job that holds one of the two
slots for longer than any wait: its task waits, then goes to the other executor, which has finished
its own by then. Both executors are on one host here, so a task waits once; where the host of a busy
executor has no other, Spark waits once for the executor and once more for its host.
"""

from __future__ import annotations

import statistics
import threading
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.lab.benchmarks.report import write_report
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import assert_planned, read_topic, start_spark, to_dict, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1200)]

WAITS_S = (0, 3, 10)
RECORDS, IDEAL_S, ROUNDS = 2_000, 1.0, 3


def test_a_busy_executor_costs_the_locality_wait(broker: EmbeddedBroker, tmp_path: Path) -> None:
    rows = []
    for wait_s in WAITS_S:
        (folder := tmp_path / str(wait_s)).mkdir()
        spark = start_spark("local-cluster[2,1,1024]", folder, spark_locality_wait=f"{wait_s}s")
        try:
            found = run(spark, broker, folder)
        finally:
            spark.stop()
        for state, batches in found.items():
            rows.append(row(wait_s, state, batches))
            print(rows[-1])
    write_report(
        "locality_wait",
        title="What spark.locality.wait costs when an executor is busy",
        command="make bench",
        rows=rows,
        notes=__doc__ or "",
    )


def run(spark: SparkSession, broker: EmbeddedBroker, folder: Path) -> dict[str, list[Any]]:
    """Give the progresses of batches with both executors free, and with one busy, in turns."""
    topic = Topic(broker.bootstrap_servers, f"wait-{uuid4().hex[:6]}").create(2)
    topic.fill([RECORDS // 2] * 2)
    whole = {"minOffsetsPerTrigger": str(RECORDS), "maxTriggerDelay": "5h"}
    query = (
        read_topic(spark, topic, whole | {"assignor": "lag-aware-sticky"})
        .selectExpr(
            "CASE WHEN offset % 10 = 9 THEN java_method('java.lang.Thread', 'sleep', 10L) END"
        )
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    wait_until(lambda: batches(query), "the first batch", 120)
    found: dict[str, list[Any]] = {"free": [], "one busy": []}
    for _ in range(ROUNDS):
        found["free"].append(one_batch(query, topic))
        release = busy(spark)
        found["one busy"].append(one_batch(query, topic))
        release()
    assert_planned(batches(query))
    query.stop()
    return found


def one_batch(query: StreamingQuery, topic: Topic) -> dict[str, Any]:
    """Write a batch's records and wait for its progress."""
    seen = len(batches(query))
    topic.fill([RECORDS // 2] * 2)
    wait_until(lambda: len(batches(query)) > seen, "a batch", 60)
    return batches(query)[-1]


def batches(query: StreamingQuery) -> list[dict[str, Any]]:
    """Give the progresses with records."""
    assert query.exception() is None, str(query.exception())
    return [p for p in map(to_dict, query.recentProgress) if p["numInputRows"]]


def busy(spark: SparkSession) -> Any:
    """Hold one slot with a task of another job; gives what ends it."""
    context = spark.sparkContext
    group = uuid4().hex

    def hold() -> None:
        context.setJobGroup(group, "holds one slot", interruptOnCancel=True)
        try:
            # The sleep is the task that holds the slot, until its group is cancelled.
            context.parallelize([0], 1).foreach(lambda _: time.sleep(60))
        except Exception as ended:  # noqa: BLE001  (cancelled, as planned)
            assert "cancel" in str(ended), ended  # noqa: PT017

    thread = threading.Thread(target=hold)
    thread.start()
    wait_until(lambda: running_tasks(spark) == 1, "the task that holds a slot", 30)

    def release() -> None:
        context.cancelJobGroup(group)
        thread.join(30)
        wait_until(lambda: running_tasks(spark) == 0, "the end of the task", 30)

    return release


def running_tasks(spark: SparkSession) -> int:
    """Count the tasks that executors run now; a cancelled one ends a while after its job."""
    executors: Any = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    return sum(executors.apply(i).activeTasks() for i in range(executors.size()))


def row(wait_s: int, state: str, progresses: list[dict[str, Any]]) -> dict[str, Any]:
    """Sum up the batches of one wait and one state."""
    took = [p["durationMs"]["triggerExecution"] / 1000 for p in progresses]
    hits = [float(p["sources"][0]["metrics"]["assignor.localityHitRate"]) for p in progresses]
    return {
        "locality_wait_s": wait_s,
        "executors": state,
        "batch_s_median": statistics.median(took),
        "batch_s_min": min(took),
        "batch_s_max": max(took),
        "times_the_ideal": statistics.median(took) / IDEAL_S,
        "locality_hit_rate": statistics.mean(hits),
        "batches": len(took),
    }

"""Tasks that fail, executors that die, brokers that restart: each row still comes exactly once."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import TaskContext
from pyspark.sql.functions import udf

from streaming.kafka.embedded import EmbeddedBroker
from tests.support.kafka_topics import Topic
from tests.support.shared_reader_tools import (
    AVAILABLE_NOW,
    OURS,
    fill_in_batches,
    read_counters,
    start,
)
from tests.support.spark_tools import read_topic, wait_for_end, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.integration

SMALL_FETCHES = {"kafka.max.partition.fetch.bytes": "2000", "kafka.fetch.max.bytes": "2000"}


@pytest.fixture
def rows(tmp_path: Path) -> str:
    """A folder for the rows of this test."""
    return str(tmp_path / "rows")


def offsets_read(spark: SparkSession, folder: str) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in spark.read.parquet(folder).collect())


def all_offsets(counts: list[int]) -> list[tuple[int, int]]:
    return [(partition, o) for partition, count in enumerate(counts) for o in range(count)]


def test_a_task_that_fails_once_gets_a_fresh_consumer(
    spark: SparkSession, topic: Topic, checkpoint: str, rows: str
) -> None:
    topic.create(4).fill([500] * 4)

    @udf("long", useArrow=False)
    def fail_once(offset: int) -> int:
        if offset == 250 and TaskContext.get().attemptNumber() == 0:
            raise ValueError("first attempt")
        return offset

    before = read_counters(spark)
    frame = read_topic(spark, topic, OURS).select("partition", fail_once("offset").alias("offset"))
    wait_for_end(start(frame, checkpoint, rows, AVAILABLE_NOW))
    assert offsets_read(spark, rows) == all_offsets([500] * 4)
    after = read_counters(spark)
    assert after["created"] - before["created"] == 4  # two slots, and again for second attempts
    # Idle ones of earlier tests may be closed in the meantime as well.
    wait_until(lambda: read_counters(spark)["closed"] - before["closed"] >= 2, "broken ones closed")


@pytest.mark.long
def test_an_executor_killed_while_it_reads(
    spark: SparkSession, topic: Topic, checkpoint: str, rows: str
) -> None:
    topic.create(4).fill([500] * 4)

    # Defined here, for Python workers cannot import this module.
    def stat_of(pid: int) -> str:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")

    def name_of(pid: int) -> str:
        return stat_of(pid).partition("(")[2].rpartition(")")[0]

    @udf("long", useArrow=False)
    def die_once(partition: int, offset: int) -> int:
        if partition == 2 and offset == 250 and TaskContext.get().attemptNumber() == 0:
            pid = os.getpid()
            while name_of(pid) != "java":  # the JVM among this Python worker's ancestors
                pid = int(stat_of(pid).rpartition(")")[2].split()[1])
            os.kill(pid, signal.SIGKILL)
        return offset

    frame = read_topic(spark, topic, OURS).select(
        "partition", die_once("partition", "offset").alias("offset")
    )
    wait_for_end(start(frame, checkpoint, rows, AVAILABLE_NOW))
    assert offsets_read(spark, rows) == all_offsets([500] * 4)
    read_counters(spark)  # waits until there are two executors again


def test_a_cancelled_task_leaves_no_broken_consumer(
    spark: SparkSession, topic: Topic, tmp_path: Path, rows: str
) -> None:
    fill_in_batches(topic.create(2), [2_000] * 2, batches=100)
    before = read_counters(spark)
    query = _slow(spark, topic, str(tmp_path / "1"), str(tmp_path / "cancelled"), 5)
    _wait_for_tasks(spark)
    query.stop()  # interrupts the tasks
    wait_until(
        lambda: (
            (now := read_counters(spark))["created"] - before["created"]
            == now["closed"] - before["closed"] + now["idle"] - before["idle"]
        ),
        "consumers closed",
    )
    query = start(read_topic(spark, topic, OURS), str(tmp_path / "2"), rows, AVAILABLE_NOW)
    wait_for_end(query)
    assert offsets_read(spark, rows) == all_offsets([2_000] * 2)


@pytest.mark.long
def test_a_broker_restarted_while_it_is_read(
    spark: SparkSession, checkpoint: str, rows: str
) -> None:
    with EmbeddedBroker() as broker:
        topic = Topic(broker.bootstrap_servers, "restarted").create(2)
        fill_in_batches(topic, [1_500] * 2, batches=75)
        query = _slow(spark, topic, checkpoint, rows, 6)
        _wait_for_tasks(spark)
        broker.restart()
        wait_for_end(query)
    assert offsets_read(spark, rows) == all_offsets([1_500] * 2)


def _slow(
    spark: SparkSession, topic: Topic, checkpoint: str, folder: str, millis: int
) -> StreamingQuery:
    frame = read_topic(spark, topic, {**OURS, **SMALL_FETCHES}).selectExpr(
        "partition", "offset", f"java_method('java.lang.Thread', 'sleep', {millis}L) AS slept"
    )
    return start(frame, checkpoint, folder, AVAILABLE_NOW)


def _wait_for_tasks(spark: SparkSession) -> None:
    tracker = spark.sparkContext.statusTracker()

    def running() -> list[Any]:
        infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return [info for info in infos if info and info.numActiveTasks]

    wait_until(running, "a running task")

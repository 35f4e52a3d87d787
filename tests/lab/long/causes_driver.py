"""Six queries, each held up by something else, and one by nothing: run by test_report_causes.py.

Three executors of one slot; a record costs 3 ms, modelled by sleeping. What each query leaves is a
checkpoint, a plan log and its lines in one log of metrics. A line of JSON is printed for each.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from streaming.metrics.attach import attach
from streaming.metrics.config import MetricsConfig
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import assert_planned, read_topic, start_spark, to_dict, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

OURS = {"assignor": "lag-aware-sticky", "assignor.onError": "fail"}
SLEEP = "java_method('java.lang.Thread', 'sleep', {}L)"
COST = f"CASE WHEN offset % 10 = 9 THEN {SLEEP.format(30)} END"
#: The command of an executor's process names it.
COMMAND = "java_method('java.lang.System', 'getProperty', 'sun.java.command')"
SLOW = "1"
COST_OF_SLOW = f"""
    CASE WHEN offset % 10 <> 9 THEN NULL
    WHEN {COMMAND} LIKE '%--executor-id {SLOW} %' THEN {SLEEP.format(120)}
    ELSE {SLEEP.format(30)} END
"""


class Runs:
    """Queries, one after the other, in one session."""

    def __init__(self, spark: SparkSession, servers: str, prefix: str, folder: Path) -> None:
        self._spark, self._servers, self._prefix, self._folder = spark, servers, prefix, folder

    def topic(self, name: str, partitions: int) -> Topic:
        return Topic(self._servers, f"{self._prefix}-{name}").create(partitions)

    @contextlib.contextmanager
    def query(self, name: str, topic: Topic, cost: str = COST, **options: str) -> Iterator[Any]:
        """Run a query for as long as it takes; then say what it left."""
        given = {key.replace("_", "."): value for key, value in options.items()}
        plans, checkpoint = self._folder / f"{name}-plans.jsonl", self._folder / name
        query = (
            read_topic(self._spark, topic, OURS | {"assignor.planLog": str(plans)} | given)
            .selectExpr(cost)
            .writeStream.format("noop")
            .queryName(name)
            .option("checkpointLocation", str(checkpoint))
            .start()
        )
        try:
            yield query
            progresses = [to_dict(p) for p in query.recentProgress]
        finally:
            query.stop()
        assert_planned(progresses)
        left = {"query": name, "checkpoint": str(checkpoint), "plans": str(plans)}
        print(json.dumps(left | {"topic": topic.name}), flush=True)


def main() -> None:
    """Do as the module says."""
    servers, prefix, where = sys.argv[1:]
    folder = Path(where)
    spark = start_spark(
        "local-cluster[3,1,512]", folder,
        spark_executor_memory="512m", spark_locality_wait="300ms",
        spark_sql_streaming_numRecentProgressUpdates="1000",
    )  # fmt: skip
    there = spark.sparkContext._jsc.sc()
    wait_until(lambda: there.getExecutorMemoryStatus().size() == 4, "three executors", 120)
    runs = Runs(spark, servers, prefix, folder)
    with attach(spark, MetricsConfig(log_file=folder / "progress.jsonl")):
        nothing(runs)
        hot_key(runs)
        slow_executor(runs)
        too_few_slots(runs)
        starved_topic(runs)
        busy_cluster(runs, spark)
    spark.stop()


def nothing(runs: Runs) -> None:
    topic = runs.topic("even", 6)
    topic.fill([800] * 6)
    with runs.query("nothing", topic, maxOffsetsPerTrigger="600") as query:
        query.processAllAvailable()


def hot_key(runs: Runs) -> None:
    """Seven of ten records have the same key; partitions are read in order."""
    topic = runs.topic("keyed", 6)
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers})
    for number in range(4_800):
        key = "airline-7" if number % 10 < 7 else f"airline-{100 + number}"
        producer.produce(topic.name, str(number).encode(), key.encode())
    assert producer.flush(60) == 0
    with runs.query(
        "hot", topic, maxOffsetsPerTrigger="600", assignor_split="false"
    ) as query:  # fmt: skip
        query.processAllAvailable()


def slow_executor(runs: Runs) -> None:
    topic = runs.topic("slow", 9)
    topic.fill([700] * 9)
    with runs.query("slow", topic, COST_OF_SLOW, maxOffsetsPerTrigger="630") as query:
        query.processAllAvailable()


def too_few_slots(runs: Runs) -> None:
    """After each batch twice as many records arrive as it read."""
    batch, topic = 1_800, runs.topic("growing", 6)
    topic.fill([batch] * 6)
    first = batch
    with runs.query("few", topic, maxOffsetsPerTrigger=str(batch)) as query:
        for number in range(1, 10):
            wait_until(lambda n=number: read(query) >= n * batch, f"batch {number}", 120)
            topic.fill([batch // 3] * 6, first=first)
            first += batch // 3


def starved_topic(runs: Runs) -> None:
    """A backlog beside a topic with a few records; Spark shares limits by lag."""
    backlog, small = runs.topic("backlog", 4), runs.topic("small", 2)
    backlog.fill([3_000] * 4)
    small.fill([30] * 2)
    both = f"{backlog.name},{small.name}"
    with runs.query("starved", small, maxOffsetsPerTrigger="300", subscribe=both) as query:
        wait_until(lambda: read(query) >= 8 * 300, "eight batches", 120)


def busy_cluster(runs: Runs, spark: SparkSession) -> None:
    """Another job of the application holds two of the three slots."""
    topic = runs.topic("busy", 6)
    topic.fill([600] * 6)
    context, group = spark.sparkContext, "another job"

    def hold() -> None:
        context.setJobGroup(group, group, interruptOnCancel=True)
        with contextlib.suppress(Exception):  # it is cancelled
            rows = spark.range(0, 1200, 1, 2).selectExpr(SLEEP.format(500))
            rows.write.format("noop").mode("overwrite").save()

    def held() -> bool:
        tracker = context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(s) for job in jobs if job for s in job.stageIds]
        return any(stage is not None and stage.numActiveTasks == 2 for stage in stages)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        wait_until(held, "two slots that are held")
        with runs.query("busy", topic, maxOffsetsPerTrigger="600") as query:
            query.processAllAvailable()
    finally:
        context.cancelJobGroup(group)
        thread.join()


def read(query: Any) -> int:
    """Count the rows that were read; a failure of the query is raised."""
    assert query.exception() is None, str(query.exception())
    return sum(p.numInputRows for p in query.recentProgress)


if __name__ == "__main__":
    main()

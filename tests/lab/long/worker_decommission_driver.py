"""A driver that loses a worker to decommissioning in the midst of a batch, on three hosts.

Run by test_decommissioning.py. It prints what the batch before and the one after were planned for.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.kafka_topics import Topic
from tests.support.spark_tools import (
    assert_each_row_once,
    assert_planned,
    read_topic,
    start_spark,
    wait_for_end,
    wait_until,
)
from tests.support.standalone_cluster import DECOMMISSIONING, standalone_cluster, workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS = [40] * 6
#: Each record takes a tenth of a second, so that a batch lasts for eight on three slots.
VALUE = """
    CASE WHEN java_method('java.lang.Thread', 'sleep', 100L) = 'never' THEN NULL
    ELSE CAST(value AS STRING) END AS value
"""


def main() -> None:
    """Do as the module says."""
    servers, name, where = sys.argv[1:]
    folder = Path(where)
    topic = Topic(servers, name).create(len(COUNTS))
    topic.fill(COUNTS)
    hosts = [replace(worker, environment=DECOMMISSIONING) for worker in workers(1, 1, 1)]
    with standalone_cluster(folder / "cluster", hosts) as cluster:
        spark = start_spark(
            cluster.url, folder,
            spark_decommission_enabled="true", spark_executor_memory="512m",
            spark_locality_wait="3s",
        )  # fmt: skip
        wait_until(lambda: len(running(spark)) == 3, "three executors")
        stream = read_topic(spark, topic, {"assignor": "lag-aware-sticky"})
        query = (
            stream.selectExpr("topic", "partition", "offset", VALUE)
            .writeStream.format("delta")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
        )
        first = query.start(f"{folder}/table")
        wait_until(lambda: all(running(spark).values()), "a task on each executor")
        cluster.decommission(hosts[1])
        wait_until(lambda: len(running(spark)) == 2, "the driver to know of it")
        assert not any(p.numInputRows for p in first.recentProgress), "the batch was over before"
        batches = [planned_for(wait_for_end(first))]
        assert_each_row_once(spark, f"{folder}/table", COUNTS)
        topic.fill([2] * len(COUNTS), first=COUNTS[0])
        batches.append(planned_for(wait_for_end(query.start(f"{folder}/table"))))
        assert_each_row_once(spark, f"{folder}/table", [count + 2 for count in COUNTS])
        print("EXECUTORS " + json.dumps(batches), flush=True)
        spark.stop()


def running(spark: SparkSession) -> dict[str, bool]:
    """Return the executors that the scheduler counts on, and whether each runs a task."""
    context = spark.sparkContext._jsc.sc()
    found: Any = context.statusStore().executorList(True)
    executors = [found.apply(i) for i in range(found.size())]
    backend = context.schedulerBackend()
    return {
        str(each.id()): each.activeTasks() > 0
        for each in executors
        if backend.isExecutorActive(each.id())
    }


def planned_for(progresses: list[dict[str, Any]]) -> str:
    """Return how many executors the one batch with records was planned for."""
    assert_planned(progresses)
    [read] = [p for p in progresses if p["numInputRows"]]
    return str(read["sources"][0]["metrics"]["assignor.executors"])


if __name__ == "__main__":
    main()

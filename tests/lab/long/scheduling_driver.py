"""Two queries under settings of Spark's scheduler that few use: run by test_scheduling.py.

Three hosts of two cores, two cores a task, fair pools, and speculation, which one slow record
brings about. Both queries write to Delta at the same time, one of them for two of the three slots.
What became of it is printed as a line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.support.kafka_topics import Topic
from tests.support.spark_tools import (
    assert_each_row_once,
    assert_planned,
    read_topic,
    start_spark,
    wait_for_end,
    wait_until,
)
from tests.support.standalone_cluster import standalone_cluster, workers

COUNTS = [100 + 10 * partition for partition in range(6)]
OPTIONS = {"assignor": "lag-aware-sticky", "assignor.onError": "fail"}
#: The first record of all takes four seconds.
VALUE = """
    CASE WHEN partition = 0 AND offset = 0
         AND java_method('java.lang.Thread', 'sleep', 4000L) = 'never' THEN NULL
    ELSE CAST(value AS STRING) END AS value
"""
SLOTS = {"first": "3", "second": "2"}


def main() -> None:
    """Do as the module says."""
    servers, name, where = sys.argv[1:]
    folder = Path(where)
    topics = {pool: Topic(servers, f"{name}-{pool}").create(len(COUNTS)) for pool in SLOTS}
    for topic in topics.values():
        topic.fill(COUNTS)
    with standalone_cluster(folder / "cluster", workers(2, 2, 2)) as cluster:
        spark = start_spark(
            cluster.url, folder,
            spark_task_cpus="2", spark_scheduler_mode="FAIR", spark_locality_wait="1s",
            spark_speculation="true", spark_speculation_interval="100ms",
            spark_speculation_quantile="0.3", spark_speculation_multiplier="1.1",
            spark_executor_memory="512m",
        )  # fmt: skip
        context = spark.sparkContext._jsc.sc()
        wait_until(lambda: context.getExecutorMemoryStatus().size() == 4, "three executors")
        queries = {}
        for pool, topic in topics.items():
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
            queries[pool] = (
                read_topic(spark, topic, OPTIONS | {"assignor.slots": SLOTS[pool]})
                .selectExpr("topic", "partition", "offset", VALUE)
                .writeStream.format("delta")
                .option("checkpointLocation", f"{folder}/checkpoint-{pool}")
                .trigger(availableNow=True)
                .start(f"{folder}/table-{pool}")
            )  # fmt: skip
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]
        slots, tasks = {}, {}
        for pool, query in queries.items():
            progresses = wait_for_end(query)
            assert_planned(progresses)
            [read] = [p for p in progresses if p["numInputRows"]]
            metrics = read["sources"][0]["metrics"]
            slots[pool], tasks[pool] = metrics["assignor.slots"], int(metrics["assignor.tasks"])
            assert_each_row_once(spark, f"{folder}/table-{pool}", COUNTS)
        pools, speculative = scheduled(spark)
        told = {"slots": slots, "tasks": tasks, "pools": pools, "speculative": speculative}
        print(json.dumps(told), flush=True)
        spark.stop()


def scheduled(spark: Any) -> tuple[list[str], int]:
    """Give the pools of all stages, and how many attempts were speculative."""
    context, gateway = spark.sparkContext._jsc.sc(), spark.sparkContext._gateway
    context.listenerBus().waitUntilEmpty()
    store, pools, speculative = context.statusStore(), set(), 0
    no_quantiles = gateway.new_array(gateway.jvm.double, 0)
    stages = store.stageList(None, False, False, no_quantiles, gateway.jvm.java.util.ArrayList())
    for stage in (stages.apply(i) for i in range(stages.size())):
        pools.add(str(stage.schedulingPool()))
        tasks = store.taskList(stage.stageId(), stage.attemptId(), 1000)
        speculative += sum(tasks.apply(i).speculative() for i in range(tasks.size()))
    return sorted(pools), speculative


if __name__ == "__main__":
    main()

"""A driver that decommissions a busy executor: run by test_decommissioning.py.

It prints how many executors each batch was planned for, the first before and the others after.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.kafka_topics import Topic
from tests.spark_tools import as_dict, read_topic, start_spark, wait_until


def main() -> None:
    """Run one batch on two executors, decommission one, run another batch."""
    servers, name, folder = sys.argv[1:]
    topic = Topic(servers, name)
    spark = start_spark("local-cluster[2,1,1024]", Path(folder), spark_decommission_enabled="true")
    context = spark.sparkContext
    jvm_context = context._jsc.sc()
    wait_until(lambda: jvm_context.getExecutorMemoryStatus().size() == 3, "two executors", 120)
    topic.fill([20, 20])
    query = (
        read_topic(spark, topic, {"assignor": "lag-aware-sticky", "assignor.onError": "fail"})
        .writeStream.format("noop")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    query.processAllAvailable()

    # Busy, so that it stays for a while: an idle one is gone at once.
    hold = threading.Thread(
        target=lambda: context.parallelize([0], 1).foreach(lambda _: time.sleep(60)), daemon=True
    )
    hold.start()
    busy = wait_until(lambda: busy_executor(jvm_context), "a busy executor", 60)
    gateway: Any = context._gateway
    info = gateway.jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
        "test", gateway.jvm.scala.Option.empty()
    )
    assert jvm_context.schedulerBackend().decommissionExecutor(busy, info, False, False)
    topic.fill([20, 20], first=20)
    query.processAllAvailable()

    read = [p for p in map(as_dict, query.recentProgress) if p["numInputRows"]]
    told = [p["sources"][0]["metrics"]["assignor.executors"] for p in read]
    print("EXECUTORS " + json.dumps(told), flush=True)
    query.stop()
    context.cancelAllJobs()
    spark.stop()


def busy_executor(jvm_context: Any) -> str | None:
    """Give the executor that runs a task now."""
    executors = jvm_context.statusStore().executorList(True)
    for i in range(executors.size()):
        executor = executors.apply(i)
        if executor.id() != "driver" and executor.activeTasks() == 1:
            return str(executor.id())
    return None


if __name__ == "__main__":
    main()

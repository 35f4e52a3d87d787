"""A driver that decommissions one executor and has another removed: run by test_decommissioning.py.

It prints how many executors the batches were planned for: before, after the one, after the other.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.support.kafka_topics import Topic
from tests.support.spark_tools import read_topic, start_spark, to_dict, wait_until


def main() -> None:
    """Run a batch on three executors, one without the one, and one without both."""
    servers, name, folder = sys.argv[1:]
    topic = Topic(servers, name)
    spark = start_spark("local-cluster[3,1,1024]", Path(folder), spark_decommission_enabled="true")
    context = spark.sparkContext
    jvm_context = context._jsc.sc()
    wait_until(lambda: jvm_context.getExecutorMemoryStatus().size() == 4, "three executors", 120)
    query = (
        read_topic(spark, topic, {"assignor": "lag-aware-sticky", "assignor.onError": "fail"})
        .writeStream.format("noop")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(processingTime="200 milliseconds")
        .start()
    )

    def planned_for(first: int) -> set[str]:
        """Numbers of executors that batches with these records were planned for."""
        before = len(query.recentProgress)
        topic.fill([20, 20, 20], first=first)
        query.processAllAvailable()
        read = [p for p in map(to_dict, query.recentProgress[before:]) if p["numInputRows"]]
        return {p["sources"][0]["metrics"]["assignor.executors"] for p in read}

    all_three = planned_for(0)
    # Busy, so that it stays for a while: an idle one is gone at once.
    # The sleep is the task itself: it ends with the jobs that are cancelled below.
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
    without_one = planned_for(20)

    # Stopped, so that it cannot end when it is asked to: its worker waits for ten seconds.
    idle = next(executor for executor in ("0", "1", "2") if executor != busy)
    os.kill(pid_of(idle, context.getConf().get("spark.driver.port")), signal.SIGSTOP)
    assert jvm_context.killExecutor(idle)
    without_both = planned_for(40)

    print("EXECUTORS " + json.dumps([*map(sorted, (all_three, without_one, without_both))]))
    query.stop()
    context.cancelAllJobs()
    spark.stop()


def pid_of(executor: str, driver_port: str | None) -> int:
    """Return the process of an executor of the driver at this port."""
    [pid] = [
        entry.parent.name
        for entry in Path("/proc").glob("[0-9]*/cmdline")
        if f"--executor-id\0{executor}\0" in (line := entry.read_text(errors="replace"))
        and f":{driver_port}\0" in line
    ]
    return int(pid)


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

"""One driver of the dynamic allocation benchmark: a backlog, then a trickle; prints JSON lines."""

from __future__ import annotations

import json
import sys
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.lab.long.allocation_driver import keep_filling, running, say, start_query, watch
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import read_topic, start_spark, to_dict, wait_until

PARTITIONS, EACH, A_BATCH, MOST = 24, 2_666, 8_000, 4
IDLE_S, TRICKLE_S = 20, 60


def main() -> None:
    """Run with the options given as JSON."""
    master, servers, name, folder, options = sys.argv[1:]
    topic = Topic(servers, name).create(PARTITIONS)
    topic.fill([EACH] * PARTITIONS)
    spark = start_spark(
        master, Path(folder),
        spark_dynamicAllocation_enabled="true",
        spark_dynamicAllocation_minExecutors="1",
        spark_dynamicAllocation_maxExecutors=str(MOST),
        spark_dynamicAllocation_executorIdleTimeout=f"{IDLE_S}s",
        spark_executor_cores="1",
        spark_executor_memory="512m",
        spark_locality_wait="3s",
        spark_sql_streaming_numRecentProgressUpdates="5000",
    )  # fmt: skip
    executors, stop_watching = watch(spark)
    wait_until(lambda: executors() == 1, "the first executor", 120)
    given = {"maxOffsetsPerTrigger": str(A_BATCH)} | json.loads(options)
    began, begin = time.time(), time.monotonic()
    query = start_query(read_topic(spark, topic, given), f"{folder}/checkpoint")
    reached: list[float] = []

    def done() -> bool:
        if executors() == MOST and not reached:
            reached.append(time.monotonic() - begin)
        return running(query, PARTITIONS * EACH)

    wait_until(done, "the end of the backlog", 300)
    read_s = time.monotonic() - begin
    enough = threading.Event()
    trickle = threading.Thread(target=keep_filling, args=(topic, PARTITIONS, EACH, enough))
    trickle.start()
    enough.wait(TRICKLE_S)
    left = executors()
    enough.set()
    trickle.join()
    read = [p for p in map(to_dict, query.recentProgress) if p["numInputRows"]]
    batches = [p for p in read if p["numInputRows"] > A_BATCH // 2]
    say(
        reached_s=reached[0] if reached else read_s,
        read_s=read_s,
        left=left,
        batches=[b["durationMs"]["triggerExecution"] / 1000 for b in batches],
        metrics=[b["sources"][0]["metrics"] for b in batches],
        began=began,
        end=time.time() - began,
        newest=[[started(p) - began, p["durationMs"]["triggerExecution"] / 1000] for p in read],
    )
    query.stop()
    stop_watching()
    spark.stop()


def started(progress: dict[str, Any]) -> float:
    """When a batch began, in seconds since 1970."""
    return datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()


if __name__ == "__main__":
    main()

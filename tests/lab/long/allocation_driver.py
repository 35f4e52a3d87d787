"""A driver whose executors come and go: run by test_dynamic_allocation.py and a benchmark.

A record costs 1 ms, modelled by sleeping. Each line that is printed is JSON: the executors that are
there once a second, and what each batch was planned for.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.kafka_topics import Topic
from tests.support.spark_tools import read_topic, start_spark, to_dict, wait_for_end, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS = 8
MOST = 3
WRITING = threading.Lock()


def main() -> None:
    """From no executor to as many as there may be, then to one, then to none."""
    master, servers, name, folder = sys.argv[1:]
    topic = Topic(servers, name).create(PARTITIONS)
    topic.fill([4_000] * PARTITIONS)
    spark = start_spark(
        master, Path(folder),
        spark_dynamicAllocation_enabled="true",
        spark_dynamicAllocation_minExecutors="0",
        spark_dynamicAllocation_maxExecutors=str(MOST),
        spark_dynamicAllocation_executorIdleTimeout="3s",
        spark_executor_cores="1",
        spark_executor_memory="512m",
        spark_sql_streaming_numRecentProgressUpdates="2000",
        spark_locality_wait="3s",
    )  # fmt: skip
    executors, stop_watching = watch(spark)
    query = start_query(
        read_topic(
            spark, topic,
            {
                "assignor": "lag-aware-sticky",
                "assignor.onError": "fail",
                "maxOffsetsPerTrigger": "4000",
            },
        ),
        f"{folder}/checkpoint",
    )  # fmt: skip
    assert executors() == 0
    wait_until(lambda: executors() == MOST, f"{MOST} executors", 120)
    say(reached=MOST)
    wait_until(lambda: running(query, PARTITIONS * 4_000), "the end of the backlog", 180)
    enough = threading.Event()
    trickle = threading.Thread(target=keep_filling, args=(topic, PARTITIONS, 4_000, enough))
    trickle.start()
    try:
        wait_until(lambda: running(query) and executors() == 1, "one executor", 120)
    finally:
        enough.set()
        trickle.join()
    say(reached=1)
    wait_until(lambda: executors() == 0, "no executor", 60)
    say(reached=0)
    for progress in map(to_dict, query.recentProgress):
        if progress["numInputRows"]:
            say(batch=progress["batchId"], metrics=progress["sources"][0]["metrics"])
    query.stop()
    stop_watching()
    spark.stop()
    local_mode(topic, folder)


def local_mode(topic: Topic, folder: str) -> None:
    """Plan in a driver that is its only executor: four cores, two for each task."""
    spark = start_spark(
        "local[4]", Path(f"{folder}/local"),
        spark_default_parallelism="200", spark_task_cpus="2",
        spark_executor_cores="2",  # of no meaning here: the driver has four
    )  # fmt: skip
    stream = read_topic(spark, topic, {"assignor": "lag-aware-sticky", "assignor.onError": "fail"})
    query = (
        stream.writeStream.format("noop")
        .option("checkpointLocation", f"{folder}/local-checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    [progress] = [p for p in wait_for_end(query) if p["numInputRows"]]
    say(local=progress["sources"][0]["metrics"])
    spark.stop()


def start_query(stream: Any, checkpoint: str) -> Any:
    """Read for good; every tenth record sleeps for ten."""
    return (
        stream.selectExpr(
            "CASE WHEN offset % 10 = 9 THEN java_method('java.lang.Thread', 'sleep', 10L) END"
        )
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="200 milliseconds")
        .start()
    )


def running(query: Any, rows: int = 0) -> bool:
    """Whether so many rows are read; a failure of the query is raised."""
    assert query.exception() is None, str(query.exception())
    return sum(p.numInputRows for p in query.recentProgress) >= rows


def watch(spark: Any) -> tuple[Callable[[], int], Callable[[], None]]:
    """Print the number of executors whenever it changes; gives what tells it, and what ends it."""
    context = spark.sparkContext._jsc.sc()

    def count() -> int:
        return int(context.getExecutorMemoryStatus().size()) - 1

    stopped = threading.Event()

    def tell() -> None:
        before = None
        while not stopped.is_set():
            if (now := count()) != before:
                say(executors=now, at=time.time())
                before = now
            stopped.wait(0.1)

    thread = threading.Thread(target=tell)
    thread.start()

    def stop() -> None:
        stopped.set()
        thread.join()

    return count, stop


def keep_filling(topic: Topic, partitions: int, first: int, enough: threading.Event) -> None:
    """Write a few records all the time: a stream that is almost idle, not one without data."""
    while not enough.wait(0.5):
        topic.fill([5] * partitions, first=first)
        first += 5


def say(**what: Any) -> None:
    """One JSON a line, whole: the watching thread and the main one both write."""
    with WRITING:
        print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()

"""A driver that reads topics in zones, loses an executor and gets it back; prints JSON lines.

Run by test_zones.py and a benchmark. A record costs 1 ms, modelled by sleeping. The brokers are
one a rack, number 1 in the first; executors' racks are those of their workers, by host.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from assignor_bridge import ivy
from tests.allocation_driver import start_query
from tests.kafka_topics import Topic
from tests.spark_tools import as_dict, read_topic, start_spark, wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

#: Bytes of a record.
RECORD = 4_000
_RECEIVED = Path(__file__).parent / "java" / "ReceivedByBroker.java"


def main() -> None:
    """Take runs as JSON, a topic and its options each; the driver is the same for all."""
    master, servers, folder, runs = sys.argv[1:]
    spark = start_spark(
        master, Path(folder),
        spark_executor_cores="1",
        spark_executor_memory="512m",
        spark_locality_wait="3s",
        spark_kafka_consumer_cache_capacity="4000",
        spark_sql_streaming_numRecentProgressUpdates="5000",
    )  # fmt: skip
    try:
        for number, run in enumerate(json.loads(runs)):
            run_one(spark, Topic(servers, run["topic"]), number, run, f"{folder}/check{number}")
    finally:
        spark.stop()


def run_one(
    spark: SparkSession, topic: Topic, number: int, run: dict[str, Any], checkpoint: str
) -> None:
    """Read all `rows`, which are there or are written, `each` partition's before each batch.

    With `loses`, an executor goes after so many batches and comes back.
    """
    context: Any = spark.sparkContext._jsc.sc()

    def has_executors(count: int) -> bool:
        return int(context.getExecutorMemoryStatus().size()) - 1 == count

    wait_until(lambda: has_executors(3), "three executors", 120)
    before = received(spark)
    query = start_query(read_topic(spark, topic, run["options"]), checkpoint)
    told = 0

    def batches(phase: str, count: int = 0, rows: int = 0) -> None:
        """Wait for so many more batches, or for so many rows in all; say what they were like."""
        nonlocal told

        def read() -> list[dict[str, Any]]:
            assert query.exception() is None, str(query.exception())
            done = [p for p in map(as_dict, query.recentProgress) if p["numInputRows"]]
            enough = sum(p["numInputRows"] for p in done) >= rows
            return done if enough and len(done) >= told + count else []

        done = wait_until(read, f"batches of {topic.name}, {phase}", 400)
        for batch in done[told:]:
            seconds = batch["durationMs"]["triggerExecution"] / 1000
            [source] = batch["sources"]
            say(run=number, phase=phase, seconds=seconds, rows=batch["numInputRows"],
                start=source["startOffset"], end=source["endOffset"],
                metrics=source["metrics"])  # fmt: skip
        told = len(done)

    each = run.get("each", [])
    for number_of_batch in range(run["rows"] // sum(each) if each else 0):
        write(topic, each)
        batches("all", rows=sum(each) * (number_of_batch + 1))
    if loses := run.get("loses"):
        batches("all", loses)
        lost, (_, host) = min(executors(spark).items(), key=lambda one: one[1][1])
        assert context.killExecutor(lost)
        wait_until(lambda: has_executors(2), "an executor's end")
        batches(f"without {host}", loses)
        assert context.requestExecutors(3)  # Spark has not counted those of the start
        wait_until(lambda: has_executors(3), "an executor's return", 120)
    batches("back" if loses else "all", rows=run["rows"])
    counts: Counter[tuple[str, int]] = Counter()
    for (host, broker, _), count in since(before, received(spark)).items():
        counts[host, broker] += count
    say(run=number, received=[[*key, count] for key, count in sorted(counts.items())])
    query.stop()


def write(topic: Topic, records: Sequence[int]) -> None:
    """Write so many records to each partition."""
    # Brokers send whole batches: who reads a part of one receives it all. The size is Java's.
    settings = {"bootstrap.servers": topic.bootstrap_servers, "acks": "all", "batch.size": 16_384}
    producer = Producer(settings)
    for partition, count in enumerate(records):
        for _ in range(count):
            producer.produce(topic.name, os.urandom(RECORD), partition=partition)
            producer.poll(0)
        assert producer.flush(60) == 0


def executors(spark: SparkSession) -> dict[str, tuple[int, str]]:
    """Give the process and the host of each executor of this driver, by id."""
    port = spark.sparkContext.getConf().get("spark.driver.port")
    found = {}
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_text(errors="replace").split("\0")
        except OSError:  # ended meanwhile
            continue
        if "--executor-id" in words and any(word.endswith(f":{port}") for word in words):
            executor, host = (words[words.index(f"--{w}") + 1] for w in ("executor-id", "hostname"))
            found[executor] = int(entry.parent.name), host
    return found


def received(spark: SparkSession) -> dict[tuple[str, int, str], int]:
    """Bytes that Kafka's consumers have received, by host, id of broker and consumer."""
    hosts = {str(pid): host for pid, host in executors(spark).values()}
    done = subprocess.run(
        [ivy.java_tool("java"), str(_RECEIVED), *hosts],
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    rows = (line.split() for line in done.stdout.splitlines())
    return {(hosts[pid], int(node), f"{pid} {name}"): int(n) for pid, node, name, n in rows}


def since(
    before: dict[tuple[str, int, str], int], now: dict[tuple[str, int, str], int]
) -> dict[tuple[str, int, str], int]:
    """What has come since; consumers that were closed meanwhile are not in it."""
    return {key: count - before.get(key, 0) for key, count in now.items()}


def say(**what: Any) -> None:
    """One JSON a line."""
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()

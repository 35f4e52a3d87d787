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
from tests.lab.long.allocation_driver import start_query
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import read_topic, start_spark, to_dict, wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

#: Bytes of a record.
RECORD = 4_000
#: Batches after a change until costs are learned and consumers are warm.
WARM_UP = 4
#: Bytes of a producer's batch, as Java's producers have them.
USUAL_BATCH = 16_384
_RECEIVED = Path(__file__).with_name("ReceivedByBroker.java")


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
        context: Any = spark.sparkContext._jsc.sc()
        assert context.requestExecutors(3)  # Spark has not counted those of the start
        for number, run in enumerate(json.loads(runs)):
            run_one(spark, Topic(servers, run["topic"]), number, run, f"{folder}/check{number}")
    finally:
        spark.stop()


def run_one(
    spark: SparkSession, topic: Topic, number: int, run: dict[str, Any], checkpoint: str
) -> None:
    """Write `each` partition's records before each of so many `batches`, and read them.

    With `loses`, an executor goes and comes back, and there are as many batches each time. With
    `behind`, so many batches are there from the start, and no others. `producer` is how many bytes
    a producer's batch has at most.
    """
    context: Any = spark.sparkContext._jsc.sc()

    def has_executors(count: int) -> bool:
        return int(context.getExecutorMemoryStatus().size()) - 1 == count

    wait_until(lambda: has_executors(3), "three executors", 120)
    each, behind = run["each"], run.get("behind", 0)
    bytes_of_batch = run.get("producer", USUAL_BATCH)
    for _ in range(behind or 1):
        write(topic, each, bytes_of_batch)
    query = start_query(read_topic(spark, topic, run["options"]), checkpoint)
    told = 0

    def read(phase: str, count: int) -> None:
        """Read so many more batches, and say what they were like."""
        nonlocal told

        def new() -> list[dict[str, Any]]:
            assert query.exception() is None, str(query.exception())
            return [p for p in map(to_dict, query.recentProgress) if p["numInputRows"]][told:]

        goal = told + count
        while told < goal:
            if told and not behind:
                write(topic, each, bytes_of_batch)
            for batch in wait_until(new, f"a batch of {topic.name}, {phase}", 120):
                told += 1
                seconds = batch["durationMs"]["triggerExecution"] / 1000
                [source] = batch["sources"]
                say(run=number, phase=phase, seconds=seconds, rows=batch["numInputRows"],
                    start=source["startOffset"], end=source["endOffset"],
                    metrics=source["metrics"])  # fmt: skip

    def measure(phase: str) -> None:
        """Count what Kafka's consumers receive once they are warm: idle ones receive nothing."""
        read(phase, WARM_UP)
        before = received(spark)
        read(phase, run["batches"])
        counts: Counter[tuple[str, int]] = Counter()
        for (host, broker, _), count in since(before, received(spark)).items():
            counts[host, broker] += count
        say(run=number, of=phase, received=[[*key, count] for key, count in sorted(counts.items())])

    measure("all")
    if run.get("loses"):
        lost, (_, host) = min(executors(spark).items(), key=lambda one: one[1][1])
        assert context.killExecutor(lost)
        wait_until(lambda: has_executors(2), "an executor's end")
        measure(f"without {host}")
        assert context.requestExecutors(1)
        wait_until(lambda: has_executors(3), "an executor's return", 120)
        measure("back")
    query.stop()


def write(topic: Topic, records: Sequence[int], bytes_of_batch: int = USUAL_BATCH) -> None:
    """Write so many records to each partition, in batches of so many bytes at most."""
    producer = Producer(
        {
            "bootstrap.servers": topic.bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "batch.size": bytes_of_batch,
            "linger.ms": 50,
        }
    )
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
        [ivy.find_tool("java"), str(_RECEIVED), *hosts],
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

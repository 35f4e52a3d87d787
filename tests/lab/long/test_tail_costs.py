"""What the shared tail costs: tasks, files, moved heads, sent bytes, and executors.

A user's own append to a Delta table, of 20 batches of 8 x 100 records of 4 KB, on four executors of
one slot. Where times are predictable, each record waits 5 ms. Where they are not, a record's wait
is drawn for each partition and batch, from 1.25 to 20 ms. Spark's best setting of such rows in
docs/losses.md is `minPartitions` with eight tasks per slot.

Kafka's consumers fetch up to 1 MiB, and a range has 0.4 MB. So a cold read, of a tail or of Spark's
many tasks, receives several times what it reads.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from assignor_bridge import ivy
from streaming.kafka.embedded import EmbeddedBroker
from tests.lab.long import tail_allocation_driver
from tests.support import drivers
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import (
    assert_planned,
    read_topic,
    start_spark,
    wait_for_end,
    wait_until,
)
from tests.support.standalone_cluster import standalone_cluster, workers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1800)]

SLOTS, PARTITIONS, RECORDS, BATCHES, VALUE_BYTES = 4, 8, 100, 20, 4096
#: A number from -2 to 2, drawn by partition and batch.
DRAWN = f"(pmod(xxhash64(partition, offset div {RECORDS}), 401) / 100.0 - 2)"
WAIT_MS = {"predictable": "5", "unpredictable": f"5 * pow(2, {DRAWN})"}
OURS = {"assignor": "lag-aware-sticky"}
_SENT = Path(__file__).with_name("SentByBroker.java")
WAYS = {
    "tail": OURS,
    "tail=off": OURS | {"assignor.tail": "off"},
    "spark": {"minPartitions": str(8 * SLOTS)},
}


@pytest.fixture(scope="module")
def backlog(broker: EmbeddedBroker) -> Topic:
    topic = Topic(broker.bootstrap_servers, f"tail-costs-{uuid4().hex[:8]}").create(PARTITIONS)
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers, "linger.ms": 50})
    for partition in range(PARTITIONS):
        for _ in range(BATCHES * RECORDS):
            producer.produce(topic.name, b"v" * VALUE_BYTES, partition=partition)
            producer.poll(0)
    assert producer.flush(60) == 0
    return topic


@pytest.fixture(scope="module")
def four_executors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    session = start_spark(f"local-cluster[{SLOTS},1,1024]", folder, spark_locality_wait="3s")
    executors = session.sparkContext._jsc.sc().getExecutorMemoryStatus
    wait_until(lambda: executors().size() > SLOTS, "all executors", 180)
    yield session
    session.stop()


def read_sent_bytes(broker: EmbeddedBroker, topic: Topic) -> int:
    """Return how many bytes of the topic the broker has sent."""
    command = [ivy.find_tool("java"), str(_SENT), str(broker.pid), topic.name]
    return int(subprocess.check_output(command, text=True, timeout=120))


def append(
    spark: SparkSession, broker: EmbeddedBroker, topic: Topic, way: str, kind: str, folder: Path
) -> dict[str, Any]:
    """Append the topic to a table; return the sums over all batches."""
    sent_before = read_sent_bytes(broker, topic)
    options = WAYS[way] | {"maxOffsetsPerTrigger": str(PARTITIONS * RECORDS)}
    sleep = f"java_method('java.lang.Thread', 'sleep', CAST({WAIT_MS[kind]} AS BIGINT)) AS slept"
    query = (
        read_topic(spark, topic, options)
        .selectExpr("partition", "offset", "length(value) AS bytes", sleep)
        .writeStream.format("delta")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "table"))
    )
    batches = [p for p in wait_for_end(query) if p["numInputRows"]]
    commits = sorted((folder / "table" / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for file in commits for line in file.read_text().splitlines()]
    metrics = [batch["sources"][0]["metrics"] or {} for batch in batches]
    figures = {"way": way, "times": kind, "batches": len(batches)}
    figures |= {"files": sum("add" in line for line in lines)}
    if way != "spark":
        assert_planned(batches)
        for name in ("tasks", "tailTasks", "movedPartitions"):
            figures[name] = sum(int(m.get(f"assignor.{name}", 0)) for m in metrics[1:])
    sent = read_sent_bytes(broker, topic) - sent_before
    figures["sent_times_read"] = round(sent / (PARTITIONS * RECORDS * BATCHES * VALUE_BYTES), 3)
    figures["seconds"] = round(sum(batch["batchDuration"] for batch in batches[5:]) / 1000, 1)
    print(figures, flush=True)
    rows = spark.read.format("delta").load(str(folder / "table"))
    assert rows.count() == rows.select("partition", "offset").distinct().count()
    assert rows.count() == PARTITIONS * RECORDS * BATCHES
    return figures


def test_predictable_times_have_no_tail(
    four_executors: SparkSession, broker: EmbeddedBroker, backlog: Topic, tmp_path: Path
) -> None:
    _, tail, off = (  # the first query finds executors without consumers
        append(four_executors, broker, backlog, way, "predictable", tmp_path / str(number))
        for number, way in enumerate(["tail=off", "tail", "tail=off"])
    )
    assert tail["batches"] == BATCHES
    assert tail["tailTasks"] == 0
    assert tail["movedPartitions"] == off["movedPartitions"]
    assert tail["tasks"] == off["tasks"]
    assert tail["files"] == off["files"]
    assert tail["sent_times_read"] <= 1.02 * off["sent_times_read"]


def test_a_tail_writes_fewer_files_than_spark_and_receives_fewer_bytes(
    four_executors: SparkSession, broker: EmbeddedBroker, backlog: Topic, tmp_path: Path
) -> None:
    tail, off, spark = (
        append(four_executors, broker, backlog, way, "unpredictable", tmp_path / way)
        for way in WAYS
    )
    assert tail["tailTasks"] > 0
    assert tail["movedPartitions"] == off["movedPartitions"]
    assert tail["files"] <= spark["files"]
    assert tail["sent_times_read"] <= spark["sent_times_read"]


@pytest.mark.xfail(reason="25 tasks of 0.1 MB fetch up to 1 MiB each: 6.0 was measured")
def test_a_tail_receives_at_most_a_tenth_more_than_it_reads(
    four_executors: SparkSession, broker: EmbeddedBroker, backlog: Topic, tmp_path: Path
) -> None:
    tail = append(four_executors, broker, backlog, "tail", "unpredictable", tmp_path)
    assert tail["sent_times_read"] <= 1.1


def test_a_tail_requests_no_executors(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """20 batches of unpredictable times, with dynamic allocation from one executor to four."""
    counts = {}
    for tail in ("auto", "off"):
        topic = Topic(broker.bootstrap_servers, f"allocation-{uuid4().hex[:8]}")
        with standalone_cluster(tmp_path / tail / "cluster", workers(2, 2)) as cluster:
            arguments = (cluster.url, topic.bootstrap_servers, topic.name, tmp_path / tail, tail)
            done = drivers.run(tail_allocation_driver, *arguments, limit_s=600)
        lines = drivers.parse_json_lines(done)
        [metrics] = [line["metrics"] for line in lines if "metrics" in line]
        assert {m["assignor.fallbacks"] for m in metrics} == {"0"}
        counts[tail] = [int(m["assignor.executors"]) for m in metrics]
        print(tail, counts[tail], [m.get("assignor.tailTasks") for m in metrics], flush=True)
    assert len(counts["auto"]) == len(counts["off"]) == tail_allocation_driver.BATCHES
    assert max(counts["auto"]) == max(counts["off"])
    assert counts["auto"][-5:] == counts["off"][-5:]

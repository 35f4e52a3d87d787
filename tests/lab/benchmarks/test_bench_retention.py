"""A topic that retention will delete beside a long backlog: what is lost before it is read?

The broker looks for records to delete five times a second. One topic keeps them for an hour; its
two partitions get records with timestamps of an hour ago, less ten seconds for one partition and
twenty for the other: so soon they are deleted. Another topic has a backlog that nobody deletes.
Each second there is a batch of at most 2,000 records, so that all can be saved: 8,000 records are
due after ten seconds and 16,000 more after twenty, which are four batches and eight. Read in
proportion to what waits, or evenly by partition, they come too late. They have 2 KB each, so that
few of them are in the buffers of consumers when the broker deletes them.

Each way starts on the backlog alone, and the records that are due come after its second batch. With
`failOnDataLoss=false` Spark goes on where the log begins now. Once the broker has deleted all of
them, those that no batch has counted are lost. All ways run in one Spark session, one after the
other, into Spark's sink that keeps nothing (`noop`); only options of the source differ.

`ASSIGNOR_BENCH_SCALE=0.5` tries it with half as many records, and writes nothing.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import functions as f

from streaming.kafka.embedded import EmbeddedBroker
from tests.lab.benchmarks.freshness_runs import batches_of
from tests.lab.benchmarks.limited_runs import (
    BEST,
    OURS,
    assert_limited,
    began,
    seconds_of,
    two_executors,
)
from tests.lab.benchmarks.report import write_report
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import read_topic, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

SCALE = float(os.environ.get("ASSIGNOR_BENCH_SCALE", "1"))  # below 1: does it run? writes nothing
LIMIT = int(2_000 * SCALE)
KEPT_S = 3600
#: Of each partition of the topic: seconds until its records are deleted, and how many they are.
DUE = ((10, 4 * LIMIT), (20, 8 * LIMIT))
BACKLOG = (30 * LIMIT, 30 * LIMIT)
VALUE = b"x" * 2048
SPARK = "Spark"
WAYS = (SPARK, "even", "deadline")
#: With these, all is read that could be.
SAVING = ("deadline",)
PROPERTIES = {
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "0",
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = two_executors(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


def test_retention(spark: SparkSession, tmp_path: Path) -> None:
    rows = []
    with EmbeddedBroker(properties=PROPERTIES) as broker:
        for way in WAYS:
            print(f"retention: {way} …", flush=True)
            rows.append({"limit shared by": way} | run(spark, broker, way, tmp_path))
            print(json.dumps(rows[-1]), flush=True)
    if SCALE == 1:
        write_report(
            "retention",
            title="Records that retention deletes before they are read",
            command="make bench",
            rows=rows,
            notes=__doc__ or "",
        )
    lost = {row["limit shared by"]: row["lost in all"] for row in rows}
    assert lost[SPARK] > 0, "nothing was at stake"
    assert all(lost[way] == 0 for way in WAYS if way in SAVING), lost


def run(spark: SparkSession, broker: EmbeddedBroker, way: str, folder: Path) -> dict[str, Any]:
    """Read both topics until all that was due is deleted; give what was lost."""
    servers, mark = broker.bootstrap_servers, uuid4().hex[:8]
    backlog = Topic(servers, f"backlog-{mark}").create(len(BACKLOG))
    due = Topic(servers, f"due-{mark}").create(len(DUE), {"retention.ms": str(KEPT_S * 1000)})
    backlog.fill(BACKLOG)
    options = {
        "subscribe": f"{backlog.name},{due.name}",
        "failOnDataLoss": "false",
        "maxOffsetsPerTrigger": str(LIMIT),
    } | (BEST if way == SPARK else OURS | {"assignor.fairness": way})
    counted = [
        f.count_if((f.col("topic") == due.name) & (f.col("partition") == p)).alias(str(p))
        for p in range(len(DUE))
    ]
    query = (
        read_topic(spark, due, options)
        .select("topic", "partition")
        .observe("read", *counted)
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / mark))
        .trigger(processingTime="1 second")
        .start()
    )
    try:
        wait_until(lambda: len(batches_of(query)) > 1, "two batches", 120)
        from_s = time.time()
        write_due(due)
        with log_of(due) as bounds:
            wait_until(
                lambda: all(low == high > 0 for low, high in bounds()),
                "the deletion of what was due", 2 * DUE[-1][0],
            )  # fmt: skip
        last = len(batches_of(query))
        wait_until(lambda: len(batches_of(query)) > last + 1, "a batch after that", 60)
        batches = batches_of(query)
    finally:
        query.stop()
    assert_limited(batches, options)
    read = [sum(b["observedMetrics"]["read"][str(p)] for b in batches) for p in range(len(DUE))]
    figures: dict[str, Any] = {}
    for (due_s, records), read_of in zip(DUE, read, strict=True):
        figures[f"due in {due_s} s"] = records
        figures[f"lost of these {records}"] = records - read_of
    return figures | {
        "lost in all": sum(records for _, records in DUE) - sum(read),
        "batches": len(since := [batch for batch in batches if began(batch) >= from_s]),
        "batch s, most": max(seconds_of(since)),
    }


def write_due(topic: Topic) -> None:
    """Write the records that the broker will delete soon."""
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers, "linger.ms": 20})
    for partition, (due_s, records) in enumerate(DUE):
        stamp = round((time.time() - KEPT_S + due_s) * 1000)
        for _ in range(records):
            producer.produce(topic.name, VALUE, partition=partition, timestamp=stamp)
            producer.poll(0)
    assert producer.flush(30) == 0


@contextmanager
def log_of(topic: Topic) -> Iterator[Callable[[], list[tuple[int, int]]]]:
    """Give a function that tells where the log of each partition begins and ends."""
    consumer = Consumer({"bootstrap.servers": topic.bootstrap_servers, "group.id": "bounds"})
    parts = [TopicPartition(topic.name, p) for p in range(len(DUE))]
    try:
        yield lambda: [consumer.get_watermark_offsets(part, timeout=30) for part in parts]
    finally:
        consumer.close()

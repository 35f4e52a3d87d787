"""Timed micro-batches for the reader's benchmark: a long-running query, one exact batch a round."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from assignor_bridge import configure_spark
from tests.support.spark_tools import assert_planned, read_topic, to_dict, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

    from tests.support.kafka_topics import Topic


class Batch(Protocol):
    """What is written before each batch."""

    @property
    def records(self) -> int:
        """Records of one batch."""

    def write(self, topic: Topic) -> None:
        """Write one batch's records and wait until the broker has them."""


@dataclass(frozen=True)
class Load:
    """What is written to a topic before each batch."""

    partitions: int
    records_per_partition: int
    record_bytes: int

    @property
    def records(self) -> int:
        """Records of one batch."""
        return self.partitions * self.records_per_partition

    def write(self, topic: Topic, producer: Producer | None = None) -> None:
        """Write one batch's records and wait until the broker has them."""
        producer = producer or producer_of(topic)
        value = b"x" * self.record_bytes
        for number in range(self.records_per_partition):
            for partition in range(self.partitions):
                producer.produce(topic.name, value, partition=partition)
            if number % 1000 == 0:
                producer.poll(0)
        assert producer.flush(300) == 0


def producer_of(topic: Topic) -> Producer:
    """Connect to a topic's brokers, with room for a whole batch."""
    return Producer(
        {
            "bootstrap.servers": topic.bootstrap_servers,
            "linger.ms": 20,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
        }
    )


@dataclass
class Reader:
    """One way to read: a query that waits for whole batches, and the times that they took."""

    name: str
    query: StreamingQuery
    topic: Topic
    load: Batch
    is_planned: bool
    seconds: list[float] = field(default_factory=list)
    add_batch_seconds: list[float] = field(default_factory=list)

    @classmethod
    def start(
        cls,
        spark: SparkSession,
        name: str,
        topic: Topic,
        load: Batch,
        options: Mapping[str, str],
        table: str | None = None,
        shape: Callable[[DataFrame], DataFrame] | None = None,
    ) -> Reader:
        """Start the query; a batch begins only when all records of a round are there.

        The very first batch takes what is there (no trigger came before it), so the records of a
        round are written before it, and it is no round.
        """
        whole = {"minOffsetsPerTrigger": str(load.records), "maxTriggerDelay": "5h"}
        load.write(topic)
        frame = read_topic(spark, topic, {**whole, **options})
        query = started(shape(frame) if shape else frame, table)
        reader = cls(name, query, topic, load, "assignor" in options)
        wait_until(reader._batches, f"the first batch of {name}", 600)
        return reader

    def round(self, *, measured: bool = True, limit_s: float = 600) -> dict[str, Any]:
        """Write one batch's records, wait until they were read as one batch, note its time."""
        last = max((batch["batchId"] for batch in self._batches()), default=-1)
        self.load.write(self.topic)

        def next_batch() -> dict[str, Any] | None:
            if self.query.exception() is not None:
                raise AssertionError(str(self.query.exception()))
            return next((b for b in self._batches() if b["batchId"] > last), None)

        batch = wait_until(next_batch, f"a batch of {self.name}", limit_s)
        assert self.records_of(batch) == self.load.records
        if self.is_planned:
            assert_planned([batch])
        if measured:
            self.seconds.append(batch["durationMs"]["triggerExecution"] / 1000)
            self.add_batch_seconds.append(batch["durationMs"]["addBatch"] / 1000)
        return dict(batch)

    def records_of(self, batch: dict[str, Any]) -> int:
        """Return how many records a batch read."""
        return int(batch["numInputRows"])

    def stop(self) -> None:
        """End the query and wait until it is gone."""
        self.query.stop()

    def _batches(self) -> list[dict[str, Any]]:
        return [to_dict(p) for p in self.query.recentProgress if p.numInputRows]


def started(frame: DataFrame, table: str | None = None) -> StreamingQuery:
    """Start a query into a Delta table, or into nothing."""
    writer = frame.writeStream.format("delta" if table else "noop")
    writer = writer.option("checkpointLocation", tempfile.mkdtemp(prefix="bench-reader-"))
    return writer.trigger(processingTime="500 milliseconds").start(table)


@contextmanager
def session(master: str, **settings: str) -> Iterator[SparkSession]:
    """Start Spark as a user would, with these settings too; stops the one that is there."""
    if (other := SparkSession.getActiveSession()) is not None:
        other.stop()  # of the benchmarks before: one context a process
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.locality.wait", "10s")
    )
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = configure_spark(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def rows_of(workload: str, unit: str, runs: dict[str, list[float]]) -> list[dict[str, Any]]:
    """One row a reader; the last column compares its median with the shared reader's."""
    ours = statistics.median(runs["shared reader"])
    better = 1 if unit.startswith("records") else -1
    return [
        {
            "workload": workload,
            "reader": reader,
            "unit": unit,
            "median": statistics.median(values),
            "min": min(values),
            "max": max(values),
            "runs": len(values),
            "shared reader, times better": round((ours / statistics.median(values)) ** better, 2),
        }
        for reader, values in runs.items()
    ]

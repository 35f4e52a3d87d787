"""Batches with next to nothing to read: what the option costs where it has little to give.

Two executors of one slot. Each way has a topic and a query of its own, all run in the same session
and take turns, one batch a round; a batch begins when all of its records are there. Spark's own
source has fetch.max.wait.ms=1 and a consumer cache for all partitions, with and without
coalesce(2). Ours is compared with the one of lower median; `times_spark` is the median of the
rounds' ratios, with the interval in which the median lies with 95% probability.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.lab.benchmarks.reader_runs import Reader, producer_of
from tests.lab.benchmarks.report import write_report
from tests.lab.benchmarks.tuned_spark import SHORT_WAIT
from tests.lab.benchmarks.turns import (
    OURS,
    SCALE,
    cluster,
    compare_by_rounds,
    find_best_of_spark,
    in_turn,
)
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import read_topic, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

#: Spark's triggers are at multiples of it.
_TRIGGER_S = 0.5
WARM_UP, ROUNDS = 4, max(2, int(15 * SCALE))
WAYS: Mapping[str, Mapping[str, str]] = {
    "ours": OURS,
    "spark": SHORT_WAIT,
    "spark, coalesce(2)": SHORT_WAIT,
}


def _discard(rows: DataFrame, _: Path) -> DataStreamWriter:
    return rows.writeStream.format("noop")


def _two_actions(rows: DataFrame, _: Path) -> DataStreamWriter:
    def act(batch: DataFrame, _: int) -> None:
        batch.count()
        batch.selectExpr("max(offset)").collect()

    return rows.writeStream.foreachBatch(act)


def _limit(rows: DataFrame, _: Path) -> DataStreamWriter:
    return rows.writeStream.foreachBatch(lambda batch, _: batch.limit(5).collect())


def _delta(rows: DataFrame, folder: Path) -> DataStreamWriter:
    return rows.writeStream.format("delta").option("path", str(folder / "table"))


@dataclass(frozen=True)
class Shape:
    """A batch: the records of each partition, in how many topics, and what is done with them."""

    counts: Sequence[int]
    topics: int = 1
    rows: str = "offset >= 0"
    sink: Callable[[DataFrame, Path], DataStreamWriter] = _discard

    @property
    def records(self) -> int:
        """Records of one batch."""
        return sum(self.counts) * self.topics


SHAPES = {
    "1 record": Shape([1]),
    "2 records in 2 partitions": Shape([1, 1]),
    "50 records in 1 partition": Shape([50]),
    "24 records in 24 partitions": Shape([1] * 24),
    "1,000 records in 1 of 24 partitions": Shape([1_000] + [0] * 23),
    "1 record in 1 of 1,000 partitions": Shape([1] + [0] * 999),
    "200 partitions of 7 records": Shape([7] * 200),
    "2 sources of 8 partitions of 5 records": Shape([5] * 8, topics=2),
    "foreachBatch with 2 actions, 8 partitions of 5": Shape([5] * 8, sink=_two_actions),
    "foreachBatch with limit, 8 partitions of 5": Shape([5] * 8, sink=_limit),
    "a writeStream into Delta, 8 partitions of 5": Shape([5] * 8, sink=_delta),
    "no row after a filter, 8 partitions of 5": Shape([5] * 8, rows="offset < 0"),
}


@dataclass(frozen=True)
class Written:
    """Writes the records of one batch to all topics of a way."""

    shape: Shape
    topics: Sequence[Topic]

    @property
    def records(self) -> int:
        """Records of one batch."""
        return self.shape.records

    def write(self, _: Topic) -> None:
        """Write one batch's records; those of several topics between two triggers of the query."""
        if len(self.topics) > 1:
            time.sleep(1.2 * _TRIGGER_S - time.time() % _TRIGGER_S)
        producer = producer_of(self.topics[0])
        for topic in self.topics:
            for partition, count in enumerate(self.shape.counts):
                for _ in range(count):
                    producer.produce(topic.name, b"x" * 100, partition=partition)
        assert producer.flush(60) == 0


class ByOffsets(Reader):
    """A query whose rows Spark counts once for each action, up to a limit."""

    def records_of(self, batch: dict[str, Any]) -> int:
        """Return how far the batch moved the offsets."""
        return sum(
            end - source["startOffset"][topic][partition]
            for source in batch["sources"]
            for topic, ends in source["endOffset"].items()
            for partition, end in ends.items()
        )


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = cluster(tmp_path_factory.mktemp("spark"), 2, spark_locality_wait="10s")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def found() -> Iterator[list[dict[str, Any]]]:
    """Collects the figures and writes them when all shapes are measured."""
    rows: list[dict[str, Any]] = []
    yield rows
    print(*rows, sep="\n")
    if SCALE == 1 and len(rows) == len(SHAPES):
        write_report(
            "tiny_batches", title="Tiny batches", command="make bench", rows=rows,
            notes=__doc__ or "",
        )  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_a_tiny_batch(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, name: str,
    found: list[dict[str, Any]],
) -> None:  # fmt: skip
    shape = SHAPES[name]
    servers = broker.bootstrap_servers
    readers = [_start(spark, servers, way, shape, tmp_path / way) for way in WAYS]
    for number in range(WARM_UP + ROUNDS):
        for reader in in_turn(readers, number):
            reader.round(measured=number >= WARM_UP)
    for reader in readers:
        reader.stop()
    seconds = {reader.name: reader.seconds for reader in readers}
    ours, best = seconds["ours"], find_best_of_spark(seconds)
    times_spark, interval = compare_by_rounds(ours, seconds[best])
    found.append({
        "shape": name,
        "ours_s": statistics.median(ours),
        "spark_s": statistics.median(seconds[best]),
        "best_of_spark": best,
        "times_spark": times_spark,
        "interval": interval,
        "rounds": ROUNDS,
    })  # fmt: skip


def _start(spark: SparkSession, servers: str, way: str, shape: Shape, folder: Path) -> Reader:
    topics = [
        Topic(servers, f"tiny-{uuid4().hex[:8]}").create(len(shape.counts))
        for _ in range(shape.topics)
    ]
    written = Written(shape, topics)
    options = {
        "minOffsetsPerTrigger": str(sum(shape.counts)), "maxTriggerDelay": "5h", **WAYS[way]
    }  # fmt: skip
    written.write(topics[0])  # the first batch takes what is there
    frames = [read_topic(spark, topic, options) for topic in topics]
    rows = frames[0] if len(frames) == 1 else frames[0].union(frames[1])
    rows = rows.where(shape.rows).select("partition", "offset", "value")
    if "coalesce" in way:
        rows = rows.coalesce(2)
    writer = shape.sink(rows, folder).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(processingTime=f"{_TRIGGER_S * 1000:.0f} milliseconds").start()
    reader = ByOffsets(way, query, topics[0], written, way == "ours")
    wait_until(reader._batches, f"the first batch of {way}", 300)
    return reader

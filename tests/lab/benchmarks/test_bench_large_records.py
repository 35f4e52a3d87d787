"""Records of 1 MB: eight partitions with lags by Zipf's law (1.2), 64 records a batch.

Two executors of one slot and 1 GB, which share two cores with the broker; not compressed. All ways
run side by side and take turns, after two rounds that do not count; `times_ours` is a way's batch
over ours in the same round, the median. Spark's ways but the default have `fetch.max.wait.ms=1`.

`ASSIGNOR_BENCH_SCALE=0.1` tries it with two rounds, and writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.lab.benchmarks.report import write_report
from tests.lab.benchmarks.turns import NO_WAIT, OURS, SCALE, Work, cluster, rows_of, take_turns
from tests.support.strategies_snapshots import generate_lags

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from streaming.kafka.embedded import EmbeddedBroker
    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

COUNTS = generate_lags("zipf-1.2", 8, 64)
SIZE, ROUNDS = 1_000_000, max(2, int(12 * SCALE))
WAYS = {
    "Spark: default": {},
    "Spark: no wait": NO_WAIT,
    "Spark: minPartitions=16": {"minPartitions": "16"} | NO_WAIT,
    "lag-aware-sticky": OURS,
}


def write(topic: Topic) -> None:
    """Write a batch's records."""
    limits = {"message.max.bytes": 2 * SIZE, "queue.buffering.max.kbytes": 1_000_000}
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers, **limits})
    value = b"x" * SIZE
    for partition, count in enumerate(COUNTS):
        for _ in range(count):
            producer.produce(topic.name, value, partition=partition)
        producer.poll(0)
    assert producer.flush(120) == 0


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = cluster(tmp_path_factory.mktemp("spark"), 2)
    yield session
    session.stop()


def test_large_records(spark: SparkSession, broker: EmbeddedBroker) -> None:
    config = {"max.message.bytes": str(2 * SIZE), "segment.index.bytes": "65536"}
    work = Work(
        len(COUNTS), sum(COUNTS), write, lambda frame: frame.selectExpr("length(value)"), config
    )
    took = take_turns(spark, broker.bootstrap_servers, work, WAYS, ROUNDS)
    rows = rows_of("64 records of 1 MB, 8 partitions, Zipf 1.2", work, took, "lag-aware-sticky")
    print(*rows, sep="\n", flush=True)
    if SCALE == 1:
        write_report(
            "large_records", title="Records of 1 MB", rows=rows, notes=__doc__ or "",
            command="make bench (tests/lab/benchmarks/test_bench_large_records.py)",
        )  # fmt: skip

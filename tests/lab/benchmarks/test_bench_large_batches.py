"""Many partitions with producers' batches of 512 KiB: how many come in one answer of a broker."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from tests.lab.benchmarks.far_broker import far_broker
from tests.lab.benchmarks.reader_runs import Load, Reader, rows_of, session
from tests.lab.benchmarks.report import write_report
from tests.lab.benchmarks.turns import in_turn
from tests.support.kafka_topics import Topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

REPEATS = int(os.environ.get("ASSIGNOR_BENCH_REPEATS", "5"))
SCALE = float(os.environ.get("ASSIGNOR_BENCH_SCALE", "1"))  # below 1: does it run? writes nothing
ROUND_TRIP_S = 0.02
NOTES = """
500 partitions get one batch of 512 KiB each (8 records of 64 KiB, not compressed), which two slots
of executors with 1 GB read as one micro-batch; both readers are warm and take turns. Seconds are
Spark's triggerExecution. "128 KiB a partition" is the same reader with the setting
kafka.max.partition.fetch.bytes=131072: what it asked for until it learned to fit its fetches to
the batches (buffer / partitions). A broker puts a batch that is larger than what is asked for alone
into an answer. The round trip of 20 ms is added by a proxy in the benchmark's own process.
"""
OURS = {"assignor": "lag-aware-sticky", "assignor.onError": "fail"}
AS_BEFORE = {"kafka.max.partition.fetch.bytes": str(128 * 1024)}


@dataclass(frozen=True)
class LargeBatches(Load):
    """A load of which each partition gets one batch."""

    def write(self, topic: Topic) -> None:
        """Write one batch to each partition and wait until the broker has them."""
        producer = Producer(
            {
                "bootstrap.servers": topic.bootstrap_servers,
                "linger.ms": 5_000,  # until the batch is full
                "batch.num.messages": self.records_per_partition,
                "queue.buffering.max.kbytes": 1_000_000,
            }
        )
        value = b"x" * self.record_bytes
        for partition in range(self.partitions):
            for _ in range(self.records_per_partition):
                producer.produce(topic.name, value, partition=partition)
            producer.poll(0)
        assert producer.flush(300) == 0


LOAD = LargeBatches(int(500 * SCALE), records_per_partition=8, record_bytes=64 * 1024 - 100)


@pytest.fixture(scope="module")
def results() -> Iterator[list[dict[str, Any]]]:
    """Collects the figures and writes them when all measurements are done."""
    collected: list[dict[str, Any]] = []
    yield collected
    print(json.dumps(collected, indent=1))
    if SCALE == 1 and collected:
        write_report(
            "large_batches",
            title="Large producer batches over many partitions",
            command="pytest -m benchmark -p no:randomly -s"
            " tests/lab/benchmarks/test_bench_large_batches.py",
            rows=collected,
            notes=NOTES,
        )


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[EmbeddedBroker, str]]:
    """One broker, and the way to it that takes longer."""
    with far_broker(ROUND_TRIP_S) as found:
        yield found


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
def test_large_batches(
    brokers: tuple[EmbeddedBroker, str], results: list[dict[str, Any]], far: bool
) -> None:
    broker, far_address = brokers
    address = {"kafka.bootstrap.servers": far_address} if far else {}
    with session("local-cluster[2,1,1024]") as spark:
        readers = [
            Reader.start(
                spark,
                name,
                Topic(broker.bootstrap_servers, f"bench-{uuid.uuid4().hex[:8]}").create(
                    LOAD.partitions, {"segment.index.bytes": "65536"}
                ),
                LOAD,
                {**OURS, **address, **options},
            )
            for name, options in (
                ("shared reader", {}),
                ("shared reader, 128 KiB a partition", AS_BEFORE),
            )
        ]
        for reader in readers:
            reader.round(measured=False)
        for number in range(REPEATS):
            for reader in in_turn(readers, number):
                reader.round()
        for reader in readers:
            reader.stop()
    results += rows_of(
        "500 partitions x 8 new records of 64 KiB, two slots"
        + (f", a round trip of {ROUND_TRIP_S * 1000:g} ms" if far else ""),
        "seconds a batch",
        {reader.name: reader.seconds for reader in readers},
    )

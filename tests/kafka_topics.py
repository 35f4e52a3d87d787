"""Topics of the embedded broker for tests: create, fill with known records, count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from streaming.topics import create_topic

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Topic:
    """One topic; its records are numbered text values, `<partition>/<number>`."""

    bootstrap_servers: str
    name: str

    def create(self, partitions: int, config: dict[str, str] | None = None) -> Topic:
        """Make the topic and wait until each partition has a leader."""
        create_topic(self.bootstrap_servers, self.name, partitions, config)
        return self

    def fill(self, counts: Sequence[int], first: int = 0) -> None:
        """Write `counts[p]` records to each partition p, numbered from `first`."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "linger.ms": 50,
                "queue.buffering.max.messages": 2_000_000,
            }
        )
        for partition, count in enumerate(counts):
            for number in range(first, first + count):
                producer.produce(self.name, f"{partition}/{number}".encode(), partition=partition)
                if number % 10_000 == 0:
                    producer.poll(0)
        left = producer.flush(60)
        assert left == 0, f"{left} records were not delivered"

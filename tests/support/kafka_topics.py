"""Create topics on the embedded broker, fill them with known records, and commit offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from streaming.kafka import groups
from streaming.kafka.brokers import Brokers
from streaming.kafka.topics import create_topic
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Topic:
    """A topic whose records are numbered texts, `<partition>/<number>`."""

    bootstrap_servers: str
    name: str

    def create(self, partitions: int, config: dict[str, str] | None = None) -> Topic:
        """Create the topic, and wait until each partition has a leader."""
        create_topic(self.bootstrap_servers, self.name, partitions, config)
        return self

    def fill(self, counts: Sequence[int], first: int = 0) -> None:
        """Write `counts[p]` records to each partition p, numbered from `first`."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "linger.ms": 50,
                "queue.buffering.max.messages": 2_000_000,
                # Retries keep the order, so that offsets are equal to the numbers in the values.
                "enable.idempotence": True,
            }
        )
        for partition, count in enumerate(counts):
            for number in range(first, first + count):
                producer.produce(self.name, f"{partition}/{number}".encode(), partition=partition)
                if number % 10_000 == 0:
                    producer.poll(0)
        undelivered = producer.flush(60)
        assert undelivered == 0, f"{undelivered} records were not delivered"

    def commit(self, group: str, offsets: Mapping[int, int]) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        positions = [TopicPartition(self.name, number, at) for number, at in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, positions)]

        def try_to_commit() -> bool:  # a new broker may not have a group coordinator yet
            [answer] = admin.alter_consumer_group_offsets(request, request_timeout=10).values()
            try:
                return not any(p.error for p in answer.result(20).topic_partitions)
            except KafkaException:
                return False

        wait_until(try_to_commit, "a commit", timeout_s=120)


def fetch_committed(bootstrap_servers: str, group: str) -> dict[tuple[str, int], int]:
    """Return a group's committed offsets; the request of an admin client may crash the tests."""
    return groups.fetch_group_offsets(
        Brokers({"bootstrap.servers": bootstrap_servers}, 30.0), group
    )

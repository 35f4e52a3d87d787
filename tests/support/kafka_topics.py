"""Topics of the embedded broker for tests: create, fill with known records, commit to a group."""

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
                # A batch that is sent again keeps its place: offsets are the numbers of the values.
                "enable.idempotence": True,
            }
        )
        for partition, count in enumerate(counts):
            for number in range(first, first + count):
                producer.produce(self.name, f"{partition}/{number}".encode(), partition=partition)
                if number % 10_000 == 0:
                    producer.poll(0)
        left = producer.flush(60)
        assert left == 0, f"{left} records were not delivered"

    def commit(self, group: str, offsets: Mapping[int, int]) -> None:
        """Commit the offsets of partitions to a group that nobody is in."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        wanted = [TopicPartition(self.name, number, offset) for number, offset in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, wanted)]

        def done() -> bool:  # a new broker's group coordinator takes a moment to be there
            [answer] = admin.alter_consumer_group_offsets(request, request_timeout=10).values()
            try:
                return not any(p.error for p in answer.result(20).topic_partitions)
            except KafkaException:
                return False

        wait_until(done, "a commit", timeout_s=120)


def committed(bootstrap_servers: str, group: str) -> dict[tuple[str, int], int]:
    """Give what was committed to a group; an admin client's request for it may crash the tests."""
    return groups.fetch_group_offsets(
        Brokers({"bootstrap.servers": bootstrap_servers}, 30.0), group
    )

"""Request the racks of replicas from the brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

from assignor_bridge.model import Partition
from streaming.kafka.brokers import DESCRIBE
from streaming.kafka.utf8 import is_utf8

if TYPE_CHECKING:
    from collections.abc import Collection

    from streaming.kafka.brokers import Brokers, Failures

#: Broker setting for the class that selects which replica a consumer reads (KIP-392).
_SELECTOR = "replica.selector.class"
#: Class that selects a replica in the consumer's rack.
_RACK_AWARE_SELECTOR = "RackAwareReplicaSelector"


def fetch_replica_racks(
    brokers: Brokers, topics: Collection[str]
) -> tuple[dict[Partition, tuple[str, ...]], bool | None]:
    """Return each partition's replica racks, leader first, and whether followers can be read.

    A partition is omitted if it has no leader or one of its brokers has no rack. Failed requests
    are noted. The second value is None if it is unknown.
    """
    topics = list(filter(is_utf8, topics))  # librdkafka crashes on other names
    if not topics:
        return {}, None
    racks_by_tp: dict[Partition, tuple[str, ...]] = {}
    failures: Failures = {}
    broker_id = None
    names = TopicCollection(sorted(topics))
    futures = brokers.admin.describe_topics(names, request_timeout=brokers.limit_s)
    for name, future in futures.items():
        try:
            topic = brokers.await_answer(future)
        except KafkaException as error:
            brokers.add_failure(failures, error.args[0], DESCRIBE, name)
            continue
        for partition in topic.partitions:
            leader = partition.leader
            if leader is None:
                continue
            broker_id = leader.id
            nodes = [leader, *(node for node in partition.replicas if node.id != leader.id)]
            node_racks = tuple(node.rack for node in nodes if node.rack)
            if len(node_racks) == len(nodes):
                racks_by_tp[Partition(name, partition.id)] = node_racks
    brokers.note_failures("set of replica racks", failures, len(topics))
    return racks_by_tp, None if broker_id is None else _has_rack_aware_selector(brokers, broker_id)


def _has_rack_aware_selector(brokers: Brokers, broker_id: int) -> bool | None:
    """Return whether a broker has a rack-aware replica selector; None if the request fails."""
    resource = ConfigResource(ResourceType.BROKER, str(broker_id))
    failures: Failures = {}
    try:
        future = brokers.admin.describe_configs([resource], request_timeout=brokers.limit_s)
        entry = brokers.await_answer(future[resource]).get(_SELECTOR)
    except KafkaException as error:
        brokers.add_failure(failures, error.args[0], "DescribeConfigs", f"broker {broker_id}")
        brokers.note_failures("replica selector", failures, 1)
        return None
    selector = entry.value if entry is not None else None
    return (selector or "").strip().endswith(_RACK_AWARE_SELECTOR)

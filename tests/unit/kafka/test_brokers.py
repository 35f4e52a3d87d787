"""Names that no topic has are not asked for: librdkafka would raise, or end the process."""

from __future__ import annotations

from types import SimpleNamespace

from confluent_kafka import Consumer

from streaming.kafka.brokers import Brokers
from streaming.kafka.replicas import fetch_replica_racks

HALF = "or\ud800ders"


def test_a_topic_whose_name_is_not_utf8_does_not_exist():
    brokers = object.__new__(Brokers)
    brokers.limit_s, brokers.notes, brokers.gone = 0.1, [], set()
    brokers._consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"})
    assert brokers.list_partitions([HALF]) == {}
    assert (brokers.gone, brokers.notes) == ({HALF}, [])


def test_nor_are_its_racks_asked_for():
    asked = []

    def describe_topics(topics, **_):
        asked.extend(topics.topic_names)
        return {}

    admin = SimpleNamespace(describe_topics=describe_topics)
    brokers = SimpleNamespace(admin=admin, limit_s=1.0, note_failures=lambda *_: None)
    assert fetch_replica_racks(brokers, {HALF}) == ({}, None)
    assert fetch_replica_racks(brokers, {"t", HALF}) == ({}, None)
    assert asked == ["t"]

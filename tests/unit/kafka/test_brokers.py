"""Names that no topic can have are never requested: librdkafka would raise or abort."""

from __future__ import annotations

from types import SimpleNamespace

from confluent_kafka import Consumer

from streaming.kafka.brokers import Brokers
from streaming.kafka.replicas import fetch_replica_racks

NOT_UTF8 = "or\ud800ders"


def test_a_topic_whose_name_is_not_utf8_does_not_exist():
    brokers = object.__new__(Brokers)
    brokers.limit_s, brokers.notes, brokers.missing_topics = 0.1, [], set()
    brokers._consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"})
    assert brokers.list_partitions([NOT_UTF8]) == {}
    assert (brokers.missing_topics, brokers.notes) == ({NOT_UTF8}, [])


def test_no_racks_are_requested_for_names_that_are_not_utf8():
    requested = []

    def describe_topics(topics, **_):
        requested.extend(topics.topic_names)
        return {}

    admin = SimpleNamespace(describe_topics=describe_topics)
    brokers = SimpleNamespace(admin=admin, limit_s=1.0, note_failures=lambda *_: None)
    assert fetch_replica_racks(brokers, {NOT_UTF8}) == ({}, None)
    assert fetch_replica_racks(brokers, {"t", NOT_UTF8}) == ({}, None)
    assert requested == ["t"]

"""The shared reader and a remote tier whose broker answers a fetch with one remote partition."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from streaming.kafka.embedded import EmbeddedBroker
from tests.support import tiered_storage
from tests.support.java_program import compile_programs, run_java
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.long]

PARTITIONS, RECORDS, BYTES = 40, 128, 8192  # a mebibyte of each
FIXED, SPARKS = "32768", "1048576"


def test_many_partitions_take_about_as_many_answers_as_fetches_of_sparks_size(
    tmp_path: Path,
) -> None:
    """Fetches stayed at 32 KiB: 32 times as many answers, each a read of the remote tier."""
    with EmbeddedBroker(properties=tiered_storage.settings(tmp_path / "tier")) as broker:
        topic = Topic(broker.bootstrap_servers, "kept").create(PARTITIONS, tiered_storage.TOPIC)
        _fill(topic, broker.folder / "log")
        classes = compile_programs(tmp_path / "classes", "TierReads", "FakeKafka", connector=True)
        done = run_java(
            classes, "reader.TierReads", topic.bootstrap_servers, topic.name, str(PARTITIONS),
            str(RECORDS), "-", FIXED, SPARKS,
        )  # fmt: skip
    print(done.stdout)
    lines = [line.split() for line in done.stdout.splitlines()]
    answers = {line[0]: int(line[1]) for line in lines if line[0] in ("-", FIXED, SPARKS)}
    assert answers["-"] <= 2 * answers[SPARKS]
    assert answers[FIXED] >= 5 * answers["-"]


def _fill(topic: Topic, logs: Path) -> None:
    """Write the records, and later ones, by which a segment ends, until the first have left."""
    producer = Producer(
        {"bootstrap.servers": topic.bootstrap_servers, "enable.idempotence": True,
         "batch.size": 16384}  # as of Java's producer; a batch of more comes whole anyway
    )  # fmt: skip
    for partition in range(PARTITIONS):
        for _ in range(RECORDS):
            producer.produce(topic.name, os.urandom(BYTES), partition=partition)
        assert producer.flush(30) == 0

    def have_left() -> bool:
        local = [p for p in range(PARTITIONS) if _local_start(logs, topic, p) < RECORDS]
        for partition in local:
            producer.produce(topic.name, b"later", partition=partition)
        assert producer.flush(30) == 0
        return not local

    wait_until(have_left, "the records to leave the broker's disk", 120)


def _local_start(logs: Path, topic: Topic, partition: int) -> int:
    """The first offset that the broker has on its own disk."""
    segments = (logs / f"{topic.name}-{partition}").glob("*.log")
    return min((int(path.stem) for path in segments), default=0)

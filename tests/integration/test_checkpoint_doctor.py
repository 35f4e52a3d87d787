"""`assignor doctor --checkpoint` on a real broker: topics that are not what the query read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer, TopicPartition

from streaming.cli import main
from streaming.kafka.topics import delete_topics
from tests.support.spark_tools import wait_until
from tests.unit.lag.checkpoint_files import write_query

if TYPE_CHECKING:
    from pathlib import Path

    from streaming.kafka.embedded import EmbeddedBroker
    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.integration


def doctor(
    capsys: pytest.CaptureFixture[str], broker: EmbeddedBroker, query: str
) -> tuple[int, list[str]]:
    address = broker.bootstrap_servers
    code = main.run(["doctor", "--checkpoint", query, "--bootstrap-server", address])
    out, err = capsys.readouterr()
    assert err == ""
    return code, out.splitlines()[1:]  # the first is about the batches


def make_again(broker: EmbeddedBroker, topic: Topic, partitions: int) -> None:
    delete_topics(broker.bootstrap_servers, [topic.name])
    admin = broker.admin()
    wait_until(lambda: topic.name not in admin.list_topics(timeout=10).topics, "the deletion")
    topic.create(partitions)


def produce(topic: Topic, partition: int, count: int, age_s: float = 0) -> None:
    """Write records that say they were written `age_s` ago."""
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers})
    at_ms = int((time.time() - age_s) * 1000)
    for _ in range(count):
        producer.produce(topic.name, b"x", partition=partition, timestamp=at_ms)
    assert producer.flush(30) == 0


def test_topics_that_are_as_the_query_left_them(
    broker: EmbeddedBroker, topic: Topic, tmp_path: Path, capsys
):
    topic.create(2)
    produce(topic, 0, 5, age_s=7200)
    produce(topic, 1, 5, age_s=7200)
    query = write_query(tmp_path / "c", {topic.name: {0: 5, 1: 3}}, age_s=3600)
    code, lines = doctor(capsys, broker, query)
    assert code == 0
    assert lines == [
        f"ok     topic {topic.name!r} (sources/0): the checkpoint's offsets exist; partitions: 2"
    ]


def test_a_topic_that_is_gone(broker: EmbeddedBroker, topic: Topic, tmp_path: Path, capsys):
    code, lines = doctor(capsys, broker, write_query(tmp_path / "c", {topic.name: {0: 5}}))
    assert code == 1
    assert len(lines) == 1
    assert f"FAILED topic {topic.name!r} (sources/0): it is not on the brokers" in lines[0]


def test_a_topic_that_was_made_again_with_fewer_partitions(
    broker: EmbeddedBroker, topic: Topic, tmp_path: Path, capsys
):
    topic.create(3).fill([5, 5, 5])
    query = write_query(tmp_path / "c", {topic.name: {0: 5, 1: 5, 2: 5}})
    make_again(broker, topic, 1)
    produce(topic, 0, 5)
    code, lines = doctor(capsys, broker, query)
    assert code == 1
    assert len(lines) == 1
    known = f"{topic.name}-1, {topic.name}-2"
    assert f"it has 1 partition, but the checkpoint also has {known}" in lines[0]
    assert "new checkpoint" in lines[0]


def test_a_topic_that_was_made_again_and_is_shorter(
    broker: EmbeddedBroker, topic: Topic, tmp_path: Path, capsys
):
    topic.create(2).fill([2, 0])
    query = write_query(tmp_path / "c", {topic.name: {0: 5, 1: 0}})
    code, lines = doctor(capsys, broker, query)
    assert code == 1
    assert len(lines) == 1
    assert "it was deleted and re-created: the checkpoint is ahead of the log end" in lines[0]
    assert f"{topic.name}-0 is read up to 5 and its log ends at 2" in lines[0]


def test_a_topic_that_was_made_again_and_has_grown_beyond(
    broker: EmbeddedBroker, topic: Topic, tmp_path: Path, capsys
):
    topic.create(1)
    produce(topic, 0, 9)
    query = write_query(tmp_path / "c", {topic.name: {0: 5}}, age_s=3600)
    code, lines = doctor(capsys, broker, query)
    assert code == 1
    assert len(lines) == 1
    assert (
        f"it was deleted and re-created: the first records of {topic.name}-0 are from 20"
        in lines[0]
    )


@pytest.mark.parametrize("ahead_s", [7200, 1.7e12], ids=["two hours", "microseconds"])
def test_a_record_of_the_future_proves_nothing(
    broker: EmbeddedBroker, topic: Topic, tmp_path: Path, capsys, ahead_s: float
):
    topic.create(1, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    produce(topic, 0, 9, age_s=-ahead_s)
    query = write_query(tmp_path / "c", {topic.name: {0: 5}}, age_s=3600)
    code, lines = doctor(capsys, broker, query)
    assert lines == [
        f"ok     topic {topic.name!r} (sources/0): the checkpoint's offsets exist; partitions: 1"
    ]
    assert code == 0


def test_offsets_that_the_log_does_not_hold(
    broker: EmbeddedBroker, topic: Topic, tmp_path: Path, capsys
):
    topic.create(3)
    for partition in range(3):
        produce(topic, partition, 9, age_s=7200)
    admin = broker.admin()
    [deleted] = admin.delete_records([TopicPartition(topic.name, 1, 6)]).values()
    deleted.result(30)
    ends = {topic.name: {0: 5, 1: 2, 2: 12}}
    code, lines = doctor(capsys, broker, write_query(tmp_path / "c", ends, age_s=3600))
    assert code == 1
    assert [line.partition(": ")[2].partition(": ")[0] for line in lines] == [
        "the checkpoint is ahead of the log end", "records were deleted before they were read",
    ]  # fmt: skip
    assert f"{topic.name}-2 is read up to 12 and its log ends at 9" in lines[0]
    assert f"{topic.name}-1 is read up to 2 and its log begins at 6" in lines[1]

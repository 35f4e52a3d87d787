"""Commits of completed batches on a real broker, through the planner process as Java drives it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from streaming.kafka.embedded import EmbeddedBroker
from tests.kafka_topics import committed
from tests.secured_broker import LOGIN, PASSWORD
from tests.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kafka_topics import Topic

pytestmark = pytest.mark.integration


class Worker:
    """A planner process: lines in, lines out."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "assignor_bridge.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def commit(self, group: str, batch: int, offsets: dict, kafka: dict | None = None) -> dict:
        request = {"group": group, "batchId": batch, "offsets": offsets}
        return self.ask({"commit": request | ({"kafka": kafka} if kafka else {})})["commits"]

    def flush(self) -> dict[str, Any]:
        return self.ask({"flush": True})["commits"]

    def end(self) -> int:
        self._process.communicate(timeout=30)
        return self._process.returncode


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    assert worker.end() == 0


def new_group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


def test_the_newest_batch_is_committed_and_a_group_never_goes_back(topic: Topic, worker: Worker):
    topic.create(2).fill([30, 30])
    group = new_group()
    kafka = {"bootstrap.servers": topic.bootstrap_servers, "key.deserializer": "x"}
    first = worker.commit(group, 1, {topic.name: {"0": 1, "1": 2}}, kafka)
    assert first == {"committed": 0, "failed": 0, "batchId": None, "error": None}
    for batch in range(2, 20):
        worker.commit(group, batch, {topic.name: {"0": batch, "1": batch + 1}})
    worker.commit(group, 7, {topic.name: {"0": 7, "1": 8}})
    done = worker.flush()
    assert (done["failed"], done["batchId"], done["error"]) == (0, 19, None)
    assert 1 <= done["committed"] <= 19
    expected = {(topic.name, 0): 19, (topic.name, 1): 20}
    assert committed(topic.bootstrap_servers, group) == expected
    worker.commit(group, 19, {topic.name: {"0": 19, "1": 20}})  # an idle query says it again
    assert worker.flush()["committed"] == done["committed"] + 1


def test_a_group_with_a_live_member_is_not_taken_from_it(topic: Topic, worker: Worker):
    topic.create(1).fill([5])
    group = new_group()
    member = Consumer(
        {"bootstrap.servers": topic.bootstrap_servers, "group.id": group,
         "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )  # fmt: skip
    try:
        member.subscribe([topic.name])
        wait_until(lambda: member.poll(0.1) is not None, "a record for the member")
        member.commit(offsets=[TopicPartition(topic.name, 0, 2)], asynchronous=False)
        kafka = {"bootstrap.servers": topic.bootstrap_servers}
        worker.commit(group, 3, {topic.name: {"0": 5}}, kafka)
        refused = worker.flush()
        assert (refused["committed"], refused["failed"], refused["batchId"]) == (0, 1, None)
        assert f"commit of batch 3 to group {group!r} failed" in refused["error"]
        assert "the group has live members" in refused["error"]
        assert committed(topic.bootstrap_servers, group) == {(topic.name, 0): 2}
    finally:
        member.close()
    worker.commit(group, 4, {topic.name: {"0": 5}})  # the member has left
    assert worker.flush() == {"committed": 1, "failed": 1, "batchId": 4, "error": None}


def test_the_first_commit_to_a_new_cluster_waits_for_its_coordinator(worker: Worker):
    with EmbeddedBroker() as fresh:
        fresh.create_topic("t", 1)
        kafka = {"bootstrap.servers": fresh.bootstrap_servers}
        worker.commit("g", 0, {"t": {"0": 0}}, kafka)
        assert worker.flush() == {"committed": 1, "failed": 0, "batchId": 0, "error": None}


def test_a_topic_that_is_gone_fails_alone(topic: Topic, worker: Worker):
    topic.create(1)
    group, gone = new_group(), f"{topic.name}-gone"
    kafka = {"bootstrap.servers": topic.bootstrap_servers}
    worker.commit(group, 0, {topic.name: {"0": 0}, gone: {"0": 1, "1": 1}}, kafka)
    done = worker.flush()
    assert f"failed for 2 of 3 partitions ({gone}-0, {gone}-1): " in done["error"]
    assert "the topic or the partition is not there" in done["error"]
    assert committed(topic.bootstrap_servers, group) == {(topic.name, 0): 0}


def test_without_a_broker_answers_come_at_once_and_the_flush_is_bounded(worker: Worker):
    """Java waits for the answer to a commit: it must not take as long as a commit may."""
    kafka = {"bootstrap.servers": "127.0.0.1:1"}
    answers = [worker.commit("g", batch, {"t": {"0": batch}}, kafka) for batch in range(3)]
    assert all(answer["error"] is None for answer in answers)
    started = time.monotonic()
    done = worker.flush()
    assert time.monotonic() - started < 60
    assert done["committed"] == 0
    assert "commit of batch" in done["error"]


def test_settings_without_a_counterpart_are_told_and_not_repeated(worker: Worker):
    kafka = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL",
             "ssl.truststore.location": "/secret/place.jks"}  # fmt: skip
    worker.commit("g", 0, {"t": {"0": 1}}, kafka)
    done = worker.flush()
    assert done["failed"] == 1
    assert "'ssl.truststore.location' is a JKS or PKCS12 file" in done["error"]
    assert "/secret" not in done["error"]


def allow(broker: EmbeddedBroker, kind: ResourceType, name: str, what: AclOperation) -> None:
    pattern, permission = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    binding = AclBinding(kind, name, pattern, "User:ann", "*", what, permission)
    admin = broker.admin()
    for answer in admin.create_acls([binding]).values():
        answer.result(30)


def test_a_login_by_the_streams_own_settings_and_rights_that_are_missing(
    secured: tuple[EmbeddedBroker, str], worker: Worker
):
    broker, address = secured
    broker.create_topic("orders", 1)
    kafka = {"bootstrap.servers": address, "security.protocol": "SASL_PLAINTEXT",
             "sasl.mechanism": "PLAIN",
             "sasl.jaas.config": LOGIN.format(user="ann", password=PASSWORD)}  # fmt: skip
    offsets = {"orders": {"0": 0}}
    worker.commit("team", 0, offsets, kafka)

    def told_after_another(expected: str) -> bool:  # rights take a moment to be everywhere
        worker.commit("team", 1, offsets)
        return expected in str(worker.flush()["error"])

    assert "needs Read on this group" in worker.flush()["error"]
    allow(broker, ResourceType.GROUP, "team", AclOperation.READ)
    wait_until(lambda: told_after_another("needs Read on this topic"), "the right to the group")
    allow(broker, ResourceType.TOPIC, "orders", AclOperation.READ)
    wait_until(lambda: told_after_another("None"), "the right to the topic")
    assert worker.flush()["batchId"] == 1
    assert committed(broker.bootstrap_servers, "team") == {("orders", 0): 0}
    wrong = LOGIN.format(**{"user": "ann", "password": "not-the-password"})
    worker.commit("team", 3, offsets, {**kafka, "sasl.jaas.config": wrong})
    failed = worker.flush()
    assert failed["error"] is not None
    assert "not-the-password" not in json.dumps(failed)

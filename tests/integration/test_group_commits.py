"""Commits of completed batches on a real broker, by the class that the driver has for them."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import ResourceType

from streaming.kafka.embedded import EmbeddedBroker
from tests.support.java_program import compile_programs, java_command
from tests.support.kafka_topics import fetch_committed
from tests.support.secured_broker import BOB, LOGIN, PASSWORD, STORE_PASSWORD, allow
from tests.support.spark_tools import DriverLog, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.kafka_topics import Topic
    from tests.support.secured_broker import Secured

pytestmark = pytest.mark.integration

TESTS = Path(__file__).parents[1]


class Driver:
    """A JVM that commits as Spark's driver does: queries in, their metrics out."""

    def __init__(self, folder: Path) -> None:
        class_path = compile_programs(folder, "Commits", connector=True)
        self.log = folder / "driver.log"
        self.log.touch()
        logging = (TESTS / "support" / "log4j2.properties").as_uri()
        options = (
            f"-Dlog4j2.configurationFile={logging}",
            f"-Dassignor.test.log={self.log}",
            "-Dassignor.test.level=info",
        )
        self._process = subprocess.Popen(
            java_command(class_path, "kafka.Commits", options=options),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, group: str, kafka: dict[str, str], *ends: dict[str, Any]) -> tuple[int, int]:
        """Run a query whose batches end there; how many commits were taken and how many failed."""
        answer = self.ask(group, kafka, *ends)
        return int(answer["assignor.commits"]), int(answer["assignor.commitFailures"])

    def ask(
        self, group: str, kafka: dict[str, str], *ends: dict[str, Any], errors: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """Run a query, alike, of which further commits fail; all that it answers."""
        assert self._process.stdin
        assert self._process.stdout
        query = {"group": group, "kafka": kafka, "ends": ends, "errors": errors}
        self._process.stdin.write(json.dumps(query) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert answer["assignor.commitGroup"] == group
        assert answer["threads"] == 0
        return answer

    def end(self) -> int:
        self._process.communicate(timeout=30)
        return self._process.returncode


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(tmp_path_factory.mktemp("commits"))
    yield driver
    assert driver.end() == 0


@pytest.fixture
def log(driver: Driver) -> Iterator[DriverLog]:
    """What the driver logs from here on; no password is in it, whatever happens."""
    log = DriverLog(driver.log)
    yield log
    assert not log.lines("s3cret")


def new_group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


def test_the_newest_batch_is_committed(topic: Topic, driver: Driver, log: DriverLog):
    topic.create(2).fill([30, 30])
    group = new_group()
    kafka = {"bootstrap.servers": topic.bootstrap_servers, "max.poll.records": "5"}
    taken, failed = driver.run(
        group, kafka, *({topic.name: {"0": n, "1": n + 1}} for n in range(1, 20))
    )
    assert 1 <= taken <= 19  # those that another overtook are left out
    assert failed == 0
    assert fetch_committed(topic.bootstrap_servers, group) == {
        (topic.name, 0): 19,
        (topic.name, 1): 20,
    }
    same = {topic.name: {"0": 19, "1": 20}}
    assert driver.run(group, kafka, same, same) == (1, 0)  # within 5 s an idle query is silent
    assert not log.lines("could not commit")


def test_a_group_with_a_live_member_is_not_taken_from_it(
    topic: Topic, driver: Driver, log: DriverLog
):
    topic.create(1).fill([5])
    group = new_group()
    kafka = {"bootstrap.servers": topic.bootstrap_servers}
    member = Consumer(
        {"bootstrap.servers": topic.bootstrap_servers, "group.id": group,
         "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )  # fmt: skip
    try:
        member.subscribe([topic.name])
        wait_until(lambda: member.poll(0.1) is not None, "a record for the member")
        member.commit(offsets=[TopicPartition(topic.name, 0, 2)], asynchronous=False)
        assert driver.run(group, kafka, {topic.name: {"0": 5}}) == (0, 1)
        [warning] = log.lines(f"could not commit to group '{group}' (the query continues)")
        assert "the group has live members" in warning
        assert fetch_committed(topic.bootstrap_servers, group) == {(topic.name, 0): 2}
    finally:
        member.close()
    assert driver.run(group, kafka, {topic.name: {"0": 5}}) == (1, 0)  # the member has left


def test_the_first_commit_to_a_new_cluster_waits_for_its_coordinator(driver: Driver):
    with EmbeddedBroker() as fresh:
        fresh.create_topic("t", 1)
        assert driver.run("g", {"bootstrap.servers": fresh.bootstrap_servers}, {"t": {"0": 0}}) == (
            1, 0,
        )  # fmt: skip


def test_a_topic_that_is_gone_fails_alone(topic: Topic, driver: Driver, log: DriverLog):
    topic.create(1)
    group, gone = new_group(), f"{topic.name}-gone"
    kafka = {"bootstrap.servers": topic.bootstrap_servers}
    assert driver.run(group, kafka, {topic.name: {"0": 0}, gone: {"0": 1}}) == (0, 1)
    [warning] = log.lines("could not commit")
    assert f"for the following partitions: [{gone}-0]" in warning
    assert "the topic or the partition does not exist" in warning
    assert fetch_committed(topic.bootstrap_servers, group) == {(topic.name, 0): 0}


@pytest.mark.long
def test_without_a_broker_the_end_of_the_query_is_bounded(driver: Driver, log: DriverLog):
    started = time.monotonic()
    taken, failed = driver.run(
        "g", {"bootstrap.servers": "127.0.0.1:1"}, *({"t": {"0": n}} for n in range(3))
    )
    assert time.monotonic() - started < 60
    assert (taken, failed > 0) == (0, True)
    assert log.lines("could not commit")


def test_a_reason_is_logged_once_whatever_kafka_counts_in_it(driver: Driver, log: DriverLog):
    late = "Call(callName=offsetCommit, deadlineMs={0}, tries={0}) timed out after {0} attempt(s)"
    answer = driver.ask("g", {}, errors=(late.format(17), late.format(18), "another"))
    assert answer["assignor.commitFailures"] == "3"
    assert len(log.lines("could not commit")) == 2


@pytest.mark.long
def test_a_login_that_hangs_does_not_hold_up_the_end_of_the_query(driver: Driver):
    login = "io.assignorbridge.kafka.Commits$SlowLogin required username=x password=x;"
    kafka = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT",
             "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}  # fmt: skip
    assert driver.ask("g", kafka, {"t": {"0": 1}})["closedMs"] < 12_000


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        pytest.param({}, None, id="as they are"),
        pytest.param({"ssl.keystore.password": "s3cret-but-wrong"}, "password was incorrect",
                     id="wrong password"),
        pytest.param({"ssl.keystore.location": "/nowhere.jks"}, "/nowhere.jks", id="no such file"),
    ],
)  # fmt: skip
def test_a_commit_over_tls_with_stores_of_java(
    secured: Secured, driver: Driver, log: DriverLog, wrong: dict[str, str], reason: str | None
):
    group, topic = new_group(), f"t-{uuid.uuid4().hex[:6]}"
    secured.broker.create_topic(topic, 1)
    allow(secured.broker, ResourceType.TOPIC, topic, "READ", user=BOB)
    allow(secured.broker, ResourceType.GROUP, group, "READ", user=BOB)
    outcome = driver.run(group, secured.tls | wrong, {topic: {"0": 0}})
    assert log.lines("ssl.keystore.password = [hidden]")  # Kafka logs its settings
    if reason is None:
        assert outcome == (1, 0)
        assert fetch_committed(secured.broker.bootstrap_servers, group) == {(topic, 0): 0}
    else:
        assert outcome == (0, 1)
        [warning] = log.lines("could not commit")
        assert reason in warning
    assert not log.lines(STORE_PASSWORD)


def test_a_login_by_the_streams_own_settings_and_rights_that_are_missing(
    secured: Secured, driver: Driver, log: DriverLog
):
    broker, address, *_ = secured
    broker.create_topic("orders", 1)
    kafka = {"bootstrap.servers": address, "security.protocol": "SASL_PLAINTEXT",
             "sasl.mechanism": "PLAIN",
             "sasl.jaas.config": LOGIN.format(user="ann", password=PASSWORD)}  # fmt: skip
    end = {"orders": {"0": 0}}
    assert driver.run("team", kafka, end) == (0, 1)
    assert log.lines("needs Read on this group")
    allow(broker, ResourceType.GROUP, "team", "READ")

    def logged_after_another(expected: str) -> bool:  # rights take a moment to be everywhere
        driver.run("team", kafka, end)
        return bool(log.lines(expected))

    wait_until(lambda: logged_after_another("needs Read on this topic"), "the right to the group")
    allow(broker, ResourceType.TOPIC, "orders", "READ")
    wait_until(lambda: driver.run("team", kafka, end) == (1, 0), "the right to the topic")
    assert fetch_committed(broker.bootstrap_servers, "team") == {("orders", 0): 0}


@pytest.mark.parametrize(
    ("login", "reason"),
    [
        pytest.param(LOGIN.format(**{"user": "ann", "password": "s3cret-but-wrong"}),
                     "Invalid username or password", id="wrong password"),
        pytest.param('a.B required password= " s3cret-word";', "LoginException", id="no class"),
        pytest.param("a.B required password=x s3cret-word@;", "Value not specified for key '***'",
                     id="misspelt"),
        pytest.param("s3cret-word s3cret-word2;", "control flag '***'", id="all wrong"),
        pytest.param('a.B "s3 @cret";', "control flag '***'", id="a phrase"),
    ],
)  # fmt: skip
def test_a_login_that_is_refused_is_logged_without_its_secrets(
    secured: Secured, driver: Driver, log: DriverLog, login: str, reason: str
):
    kafka = {"bootstrap.servers": secured.address, "security.protocol": "SASL_PLAINTEXT",
             "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}  # fmt: skip
    assert driver.run("team", kafka, {"orders": {"0": 0}}) == (0, 1)
    [warning] = log.lines("could not commit")
    assert reason in warning

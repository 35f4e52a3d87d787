"""The least rights for each command, by a broker that heeds ACLs: enough, and none too many."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from pyspark.errors import StreamingQueryException

from assignor_bridge.errors import AssignorError
from assignor_bridge.model import Partition
from streaming import run_job
from streaming.audit.row_sources import Columns, audit_rows
from streaming.cli import main
from streaming.kafka.brokers import Brokers
from tests.kafka_topics import Topic, committed
from tests.secured_broker import LOGIN, PASSWORD, start_secured
from tests.spark_tools import assert_planned, run_to_delta, wait_until
from tests.support.rights import AUDIT, COMMITS, JOB, NEEDS, STREAM, Needs, Right
from tests.unit.lag.checkpoint_files import write_query

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.secured_broker import Secured

pytestmark = [pytest.mark.integration, pytest.mark.long]

COUNTS = [30, 20, 10]
RAW = Columns("topic", "partition", "offset")
_OPERATIONS = {
    "Read": "READ", "Write": "WRITE", "Describe": "DESCRIBE",
    "DescribeConfigs": "DESCRIBE_CONFIGS",
}  # fmt: skip
#: As Kafka's client for Python calls them.
_RESOURCES = {"Topic": "TOPIC", "Group": "GROUP", "Cluster": "BROKER"}


class Case(NamedTuple):
    """A user who lacks one of the rights; None for who has all."""

    needs: Needs
    lacks: Right | None
    user: str


CASES = [
    Case(needs, lacks, f"u{number}-{lacked}")
    for number, needs in enumerate(NEEDS)
    for lacked, lacks in enumerate([None, *needs.rights])
]


class Place(NamedTuple):
    """A broker with a topic and a group that has offsets, whose users have their rights."""

    secured: Secured
    topic: Topic


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with start_secured(users=[case.user for case in CASES]) as secured:
        topic = Topic(secured.broker.bootstrap_servers, "read").create(3)
        topic.fill(COUNTS)
        topic.commit("team", {0: 30, 1: 20, 2: 5})  # what is unread has a time
        Topic(secured.broker.bootstrap_servers, "written").create(1)
        rules = [
            AclBinding(
                ResourceType[_RESOURCES[right.kind]], _of(case, right),
                ResourcePatternType.LITERAL, f"User:{case.user}", "*",
                AclOperation[_OPERATIONS[right.operation]], AclPermissionType.ALLOW,
            )
            for case in CASES
            for right in case.needs.rights
            if right != case.lacks
        ]  # fmt: skip
        admin = secured.broker.admin()
        for done in admin.create_acls(rules).values():
            done.result(30)
        yield Place(secured, topic)


def _of(case: Case, right: Right) -> str:
    """The resource's name; of the group, too: what is committed must not be what lag looks at."""
    if right.kind == "Topic":
        return "written" if right.whose else "read"
    if right.kind == "Cluster":
        return "kafka-cluster"
    return f"of-{case.user}" if case.needs.what == COMMITS else "team"


def _name(case: Case) -> str:
    return f"{case.needs.what}: {f'without {case.lacks}' if case.lacks else 'all'}"


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_these_rights_are_enough_and_each_is_needed(
    case: Case, place: Place, spark: SparkSession, tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    if case.needs.what == AUDIT:
        written = [(place.topic.name, p, at) for p, n in enumerate(COUNTS) for at in range(n)]
        frame = spark.createDataFrame(written, "topic STRING, partition INT, offset BIGINT")
        frame.write.format("delta").save(str(tmp_path / "table"))

    def goes_well() -> bool:
        if case.needs.what in (STREAM, COMMITS):
            return stream_goes_well(spark, place, case, tmp_path)
        if case.needs.what == JOB:
            return job_goes_well(spark, place, case, tmp_path)
        if case.needs.what == AUDIT:
            return audit_goes_well(spark, place, case, str(tmp_path / "table"))
        return command_goes_well(place, case, tmp_path, capfd)

    if case.lacks is None:
        wait_until(goes_well, _name(case), 90)  # brokers learn of rights a moment later
    else:
        assert not goes_well()


def stream_goes_well(spark: SparkSession, place: Place, case: Case, folder: Path) -> bool:
    options = {
        "assignor": "lag-aware-sticky",
        **{f"kafka.{name}": value for name, value in login(case).items()},
        **({"assignor.commitGroup": f"of-{case.user}"} if case.needs.what == COMMITS else {}),
    }
    topic = Topic(place.secured.address, place.topic.name)
    run = folder / f"run-{time.monotonic_ns()}"
    try:
        progresses = run_to_delta(spark, topic, f"{run}/checkpoint", f"{run}/table", **options)
    except StreamingQueryException:
        return False
    assert_planned(progresses)
    if case.needs.what == STREAM:
        return True
    group = committed(place.topic.bootstrap_servers, f"of-{case.user}")
    return group == {(topic.name, p): count for p, count in enumerate(COUNTS)}


def job_goes_well(spark: SparkSession, place: Place, case: Case, folder: Path) -> bool:
    """Whether all records are written, too."""
    settings = {"bootstrap.servers": place.secured.address, **login(case)}
    kafka = {f"kafka.{name}": value for name, value in settings.items()}
    config = {
        "name": "copy",
        "source": {**kafka, "subscribe": place.topic.name},
        "sink": {"type": "kafka", "topic": "written", **kafka},
        "checkpoint": str(folder / f"job-{time.monotonic_ns()}"),
    }
    brokers = Brokers({"bootstrap.servers": place.topic.bootstrap_servers}, 30.0)
    written = Partition("written", 0)
    before = brokers.log_ranges([written])[1][written]
    try:
        run_job(spark, config)
    except AssignorError:
        return False
    return brokers.log_ranges([written])[1][written] == before + sum(COUNTS)


def audit_goes_well(spark: SparkSession, place: Place, case: Case, table: str) -> bool:
    """Whether all is compared; the command would start another Spark for the same."""
    brokers = Brokers({"bootstrap.servers": place.secured.address, **login(case)}, 10.0)
    try:
        rows, findings = audit_rows(spark, table, RAW, {}, brokers)
    except AssignorError:
        return False
    return rows.compared == sum(COUNTS) and not findings and not brokers.notes


def login(case: Case) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": LOGIN.format(user=case.user, password=PASSWORD),
    }


def command_goes_well(
    place: Place, case: Case, folder: Path, capfd: pytest.CaptureFixture[str]
) -> bool:
    """Whether it succeeds, and says nothing about what it could not learn."""
    file = folder / "client.properties"
    settings = {"bootstrap.servers": place.secured.address, **login(case)}
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    racks = folder / "racks"
    racks.write_text("h1=s\n")
    query = folder / "query"
    if not query.exists():
        write_query(query, {place.topic.name: {0: 30, 1: 20, 2: 5}})
    words = case.needs.what.strip("`").split()[1:]
    given = {"--checkpoint": [str(query)], "--group": ["team"], "--racks": [str(racks)]}
    words = [part for word in words for part in (word, *given.get(word, ()))]
    capfd.readouterr()
    code = main.run([*words, "--command-config", str(file)])
    _, err = capfd.readouterr()
    return code == 0 and err == ""

"""The least rights for each command, by a broker that heeds ACLs: enough, and none too many.

What lacks one ends, or says something, for want of that right; the rules are in force by then.
Each run of the tests tries a stream and `assignor lag`; all others are long.
"""

from __future__ import annotations

import re
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import ResourceType
from pyspark.errors import StreamingQueryException

from assignor_bridge.errors import AssignorError
from assignor_bridge.model import Partition
from streaming import run_job
from streaming.audit.row_sources import Columns, audit_rows
from streaming.cli import main
from streaming.kafka.brokers import Brokers
from tests.support.kafka_topics import Topic, fetch_committed
from tests.support.rights import (
    AUDIT,
    COMMITS,
    INTO_DELTA,
    JOB,
    NEEDS,
    PLAN,
    STREAM,
    Needs,
    Right,
)
from tests.support.secured_broker import LOGIN, PASSWORD, create_rule, grant, start_secured
from tests.support.shared_reader_tools import find_root_cause
from tests.support.spark_tools import assert_planned, run_to_table, wait_until
from tests.unit.lag.checkpoint_files import write_query

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from _pytest.mark import ParameterSet
    from pyspark.sql import SparkSession

    from tests.support.secured_broker import Secured
    from tests.support.spark_tools import DriverLog

pytestmark = pytest.mark.integration

COUNTS = [30, 20, 10]
RAW = Columns("topic", "partition", "offset")
_OPERATIONS = {
    "Read": "READ", "Write": "WRITE", "Describe": "DESCRIBE",
    "DescribeConfigs": "DESCRIBE_CONFIGS",
}  # fmt: skip
#: As Kafka's client for Python calls them.
_RESOURCES = {"Topic": "TOPIC", "Group": "GROUP", "Cluster": "BROKER"}

_IN_EACH_RUN = (STREAM, "`assignor lag --group`")
_REFUSED = re.compile(
    "the user lacks|[Nn]ot authorized|authorization failed|needs Read on this (group|topic)"
)


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


class Outcome(NamedTuple):
    """The exit code, 1 for a query or a job that fails; and what was said but the result."""

    code: int
    lines: list[str]


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
            create_rule(
                case.user, ResourceType[_RESOURCES[wanted.kind]], _of(case, wanted),
                _OPERATIONS[wanted.operation],
            )
            for case in CASES
            for wanted in case.needs.rights
            if wanted != case.lacks
        ]  # fmt: skip
        grant(secured.broker, rules)
        yield Place(secured, topic)


def _of(case: Case, wanted: Right) -> str:
    """The resource's name; of the group, too: what is committed must not be what lag looks at."""
    if wanted.kind == "Topic":
        return "written" if wanted.whose else "read"
    if wanted.kind == "Cluster":
        return "kafka-cluster"
    return f"of-{case.user}" if case.needs.what == COMMITS else "team"


def _parameter(case: Case) -> ParameterSet:
    name = f"{case.needs.what}: {f'without {case.lacks}' if case.lacks else 'all'}"
    is_long = case.needs.what not in _IN_EACH_RUN
    return pytest.param(case, id=name, marks=[pytest.mark.long] * is_long)


@pytest.mark.parametrize("case", [_parameter(case) for case in CASES])
def test_these_rights_are_enough_and_each_is_needed(
    case: Case, place: Place, spark: SparkSession, tmp_path: Path,
    capfd: pytest.CaptureFixture[str], driver_log: DriverLog,
) -> None:  # fmt: skip
    needs = case.needs
    if needs.what in (STREAM, COMMITS):
        outcome = stream(spark, place, case, tmp_path / "ours")
        outcome.lines.extend(driver_log.lines("could not commit"))
    elif needs.what in (INTO_DELTA, JOB):
        outcome = job(spark, place, case, tmp_path)
    elif needs.what == AUDIT:
        outcome = audit(spark, place, case, str(tmp_path / "table"))
    else:
        outcome = command(place, case, tmp_path, capfd)

    if case.lacks is None:
        assert outcome == (0, [])
        if needs.what == COMMITS:
            group = fetch_committed(place.topic.bootstrap_servers, f"of-{case.user}")
            assert group == {(place.topic.name, p): count for p, count in enumerate(COUNTS)}
        return
    assert any(_REFUSED.search(line) for line in outcome.lines), outcome
    if case.lacks == needs.rights[-1]:
        assert (outcome.code, len(outcome.lines)) == (needs.code, 1), outcome
        assert re.search(needs.message, outcome.lines[0]), outcome
    if needs.what == STREAM:
        assert outcome == stream(spark, place, case, tmp_path / "sparks", "none")


def stream(
    spark: SparkSession, place: Place, case: Case, run: Path, assignor: str = "lag-aware-sticky"
) -> Outcome:
    options = {
        "assignor": assignor,
        **{f"kafka.{name}": value for name, value in login(case).items()},
        **({"assignor.commitGroup": f"of-{case.user}"} if case.needs.what == COMMITS else {}),
    }
    topic = Topic(place.secured.address, place.topic.name)
    try:
        progresses = run_to_table(spark, topic, f"{run}/checkpoint", f"{run}/table", **options)
    except StreamingQueryException as error:
        return Outcome(1, [find_root_cause(error)])
    assert_planned(progresses)
    return Outcome(0, [])


def job(spark: SparkSession, place: Place, case: Case, folder: Path) -> Outcome:
    settings = {"bootstrap.servers": place.secured.address, **login(case)}
    kafka = {f"kafka.{name}": value for name, value in settings.items()}
    table = str(folder / "table")
    into_delta = case.needs.what == INTO_DELTA
    config = {
        "name": "copy",
        "source": {**kafka, "subscribe": place.topic.name},
        "sink": {"type": "delta", "path": table}
        if into_delta
        else {"type": "kafka", "topic": "written", **kafka},
        "checkpoint": str(folder / "job"),
    }
    brokers = Brokers({"bootstrap.servers": place.topic.bootstrap_servers}, 30.0)
    written = Partition("written", 0)
    before = brokers.fetch_log_ranges([written])[1][written]
    try:
        run_job(spark, config)
    except AssignorError as error:
        return Outcome(1, str(error).splitlines())
    if into_delta:
        assert spark.read.format("delta").load(table).count() == sum(COUNTS)
    else:
        assert brokers.fetch_log_ranges([written])[1][written] == before + sum(COUNTS)
    return Outcome(0, [])


def audit(spark: SparkSession, place: Place, case: Case, table: str) -> Outcome:
    """Compare all rows of a table; the command would start another Spark for the same."""
    written = [(place.topic.name, p, at) for p, n in enumerate(COUNTS) for at in range(n)]
    frame = spark.createDataFrame(written, "topic STRING, partition INT, offset BIGINT")
    frame.write.format("delta").save(table)
    brokers = Brokers({"bootstrap.servers": place.secured.address, **login(case)}, 10.0)
    try:
        rows, findings = audit_rows(spark, table, RAW, {}, brokers)
    except AssignorError as error:
        return Outcome(1, str(error).splitlines())
    if not brokers.notes:
        assert (rows.records_compared, findings) == (sum(COUNTS), [])
    return Outcome(0, list(brokers.notes))


def login(case: Case) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": LOGIN.format(user=case.user, password=PASSWORD),
    }


def command(place: Place, case: Case, folder: Path, capfd: pytest.CaptureFixture[str]) -> Outcome:
    file = folder / "client.properties"
    settings = {"bootstrap.servers": place.secured.address, **login(case)}
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    racks = folder / "racks"
    racks.write_text("h1=s\n")
    query = folder / "query"
    write_query(query, {place.topic.name: {0: 30, 1: 20, 2: 5}})
    words = case.needs.what.strip("`").split()[1:]
    given = {
        "CHECKPOINT": [str(query)],
        "--checkpoint": ["--checkpoint", str(query)],
        "--group": ["--group", "team"],
        "--plan": ["--plan", "range"],
        "--racks": ["--racks", str(racks)],
    }
    words = [part for word in words for part in given.get(word, [word])]
    with join_group(place.topic) if case.needs.what == PLAN else nullcontext():
        capfd.readouterr()
        code = main.run([*words, "--command-config", str(file)])
        _, err = capfd.readouterr()
    return Outcome(code, err.splitlines())


@contextmanager
def join_group(topic: Topic) -> Iterator[None]:
    """Have one member in the group, which is left as it was."""
    settings = {"bootstrap.servers": topic.bootstrap_servers, "enable.auto.commit": False}
    consumer = Consumer({**settings, "group.id": "team"})
    consumer.subscribe([topic.name])
    try:
        wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), "the group's member")
        yield
    finally:
        consumer.close()

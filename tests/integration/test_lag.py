"""`assignor lag` beside Kafka's own tool, on a real broker and a real query's checkpoint."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from assignor_bridge import ivy
from assignor_bridge.errors import OptionError
from streaming.cli import main
from streaming.kafka import embedded_setup
from streaming.kafka.brokers import Brokers
from streaming.kafka.embedded import EmbeddedBroker
from streaming.kafka.groups import GroupError, fetch_group_offsets
from streaming.kafka.topics import delete_topics
from streaming.observe.checkpoint_files import DamagedCheckpointError, read_checkpoint
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import run_to_table, wait_until
from tests.unit.lag.checkpoint_files import write_query

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration

KAFKA_COLUMNS = 9


def new_group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


def described_by_kafka(broker: EmbeddedBroker, *groups: str) -> list[list[str]]:
    """Rows of kafka-consumer-groups.sh, which is this class."""
    jars = [
        *embedded_setup.fetch_jars(None),
        *ivy.fetch("org.apache.kafka:kafka-tools:4.1.0", transitive=False),
    ]
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    command = [
        ivy.find_tool("java"), "-cp", os.pathsep.join(map(str, jars)),
        tool, "--bootstrap-server", broker.bootstrap_servers, "--describe",
        *(word for group in groups for word in ("--group", group)),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()]
    return sorted(row for row in rows if row[0] in groups)


def lag(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[str, str]:
    assert main.run(["lag", *words]) == code
    out, err = capsys.readouterr()
    return out, err


def rows_of(text: str) -> list[list[str]]:
    table, _, _ = text.partition("\n\n")
    return sorted(line.split() for line in table.splitlines()[1:])


def as_json(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lag(capsys, *words, "--json", code=code)[0])
    return found


@dataclass(frozen=True)
class Ran:
    """A query that ran over a topic, in two batches or more."""

    topic: Topic
    checkpoint: str
    table: str
    #: To which the query committed its progress.
    group: str


@pytest.fixture(scope="module")
def ran(
    broker: EmbeddedBroker, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Ran:
    topic = Topic(broker.bootstrap_servers, f"lag-{uuid.uuid4().hex[:6]}").create(3)
    topic.fill([60, 50, 0])
    folder = tmp_path_factory.mktemp("lag")
    done = Ran(topic, str(folder / "checkpoint"), str(folder / "table"), new_group())
    run_to_table(
        spark, topic, done.checkpoint, done.table,
        sink="delta", assignor="lag-aware-sticky", assignor_commitGroup=done.group,
        maxOffsetsPerTrigger="60",
    )  # fmt: skip
    return done


@pytest.mark.long
def test_groups_and_a_query_stand_where_kafkas_own_tool_says(
    broker: EmbeddedBroker, ran: Ran, capsys
):
    topic, address = ran.topic, broker.bootstrap_servers
    rows = as_json(capsys, "--checkpoint", ran.checkpoint, "--bootstrap-server", address)[
        "partitions"
    ]
    ends = {row["partition"]: row["current_offset"] for row in rows}
    assert ends == {0: 60, 1: 50, 2: 0}
    readers = {row["partition"]: (row["executor"], row["host"]) for row in rows}
    assert all(executor.isdigit() and host for executor, host in (readers[0], readers[1]))
    query, live = ran.group, new_group()
    topic.commit(live, {0: 7, 2: 0})
    topic.fill([5, 0, 0], first=60)
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": live, "client.id": "me",
         "enable.auto.commit": False}
    )  # fmt: skip
    try:
        consumer.subscribe([topic.name])
        wait_until(lambda: consumer.poll(0.1) is not None, "a record for the member")
        told = described_by_kafka(broker, query, live)
        ours = [
            row
            for group in (query, live)
            for row in rows_of(lag(capsys, "--group", group, "--bootstrap-server", address)[0])
        ]
    finally:
        consumer.close()
    assert sorted(row[:KAFKA_COLUMNS] for row in ours) == told
    assert {tuple(row[2:6]) for row in told if row[0] == query} == {
        ("0", "60", "65", "5"), ("1", "50", "50", "0"), ("2", "0", "0", "0"),
    }  # fmt: skip
    assert {(row[2], row[3], row[8]) for row in told if row[0] == live} == {
        ("0", "7", "me"), ("1", "-", "me"), ("2", "0", "me"),
    }  # fmt: skip
    out, err = lag(capsys, "--checkpoint", ran.checkpoint, "--bootstrap-server", address)
    of_query = [row for row in told if row[0] == query]
    assert [row[1:6] for row in rows_of(out)] == [row[1:6] for row in of_query]
    assert {row[0] for row in rows_of(out)} == {"sources/0"}
    assert "3 partitions, 1 with lag: 5 offsets behind" in out
    assert err == ""


def test_a_checkpoint_reads_the_same_through_sparks_file_systems(spark: SparkSession, ran: Ran):
    by_spark, by_files = read_checkpoint(ran.checkpoint, spark), read_checkpoint(ran.checkpoint)
    assert replace(by_spark, kept_states={}) == replace(by_files, kept_states={})
    assert by_spark.states["0"].generation == by_files.states["0"].generation
    with pytest.raises(OptionError, match="is not a streaming checkpoint"):
        read_checkpoint(f"{ran.checkpoint}/none", spark)
    above = read_checkpoint(ran.checkpoint.rpartition("/")[0], spark)
    assert (above.name, above.batches) == (ran.checkpoint, by_files.batches)
    with pytest.raises(DamagedCheckpointError, match=r"cannot be read: .*No FileSystem"):
        read_checkpoint("nosuch://bucket/checkpoint", spark)


def test_a_checkpoint_that_was_restored_from_a_copy_is_behind_delta(
    broker: EmbeddedBroker, ran: Ran, tmp_path: Path, capsys
):
    words = ["--bootstrap-server", broker.bootstrap_servers, "--table", ran.table]
    assert main.run(["doctor", "--checkpoint", ran.checkpoint, *words]) == 0
    assert "FAILED" not in capsys.readouterr().out
    copy = shutil.copytree(ran.checkpoint, tmp_path / "copy")
    last = max(int(path.name) for path in (copy / "offsets").iterdir() if path.name.isdigit())
    (copy / "offsets" / str(last)).unlink()
    (copy / "commits" / str(last)).unlink()
    assert main.run(["doctor", "--checkpoint", str(copy), *words]) == 1
    [line] = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("FAILED Delta")
    ]
    assert f"it has batch {last} of the query, but the query's checkpoint {str(copy)!r}" in line
    assert f"ends at {last - 1}" in line


def test_spark_begins_where_a_group_stands(
    broker: EmbeddedBroker, topic: Topic, spark: SparkSession, capsys
):
    topic.create(3).fill([10, 10, 10])
    group, address = new_group(), broker.bootstrap_servers
    topic.commit(group, {0: 4, 2: 10})
    assert main.run(["offsets", "--group", group, "--bootstrap-server", address]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {topic.name: {"0": 4, "1": -2, "2": 10}}
    assert err == (
        f"assignor: partitions without an offset start at earliest: 1 of 3 ({topic.name}-1)\n"
    )
    options = {"kafka.bootstrap.servers": address, "subscribe": topic.name}
    read = spark.read.format("kafka").options(**options, startingOffsets=out).load()
    assert read.count() == 6 + 10
    words = ["offsets", "--group", group, "--bootstrap-server", address, "--missing", "latest"]
    assert main.run(words) == 0
    assert json.loads(capsys.readouterr().out)[topic.name]["1"] == -1


@pytest.mark.parametrize(
    "a_request", [pytest.param(250, id="one request"), pytest.param(2, id="several requests")]
)
def test_seconds_behind_and_the_time_until_records_are_lost(
    a_request, broker: EmbeddedBroker, topic: Topic, monkeypatch, capsys
):
    monkeypatch.setattr("streaming.kafka.brokers._PARTITIONS_PER_REQUEST", a_request)
    topic.create(3, {"retention.ms": "7200000"})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    now_ms = int(time.time() * 1000)
    for partition, age_s in [(0, 3600), (0, 60), (1, 3600), (1, 900), (1, 60), (2, 3600)]:
        producer.produce(topic.name, b"x", partition=partition, timestamp=now_ms - age_s * 1000)
        producer.flush(30)
    admin = broker.admin()
    [deleted] = admin.delete_records([TopicPartition(topic.name, 1, 1)]).values()
    deleted.result(30)
    group = new_group()
    topic.commit(group, {0: 1, 1: 0, 2: 0})
    found = as_json(
        capsys, "--group", group, "--bootstrap-server", broker.bootstrap_servers, code=1
    )
    near = {row["partition"]: row for row in found["partitions"]}
    assert {p: (row["lag"], row["lost"], row["at_risk"]) for p, row in near.items()} == {
        0: (1, 0, True), 1: (3, 1, True), 2: (1, 0, True),
    }  # fmt: skip
    for partition, age_s, to_loss_s in [(0, 60, 7140), (1, 900, 0), (2, 3600, 3600)]:
        assert 0 <= near[partition]["seconds_behind"] - age_s < 120
        assert -120 < near[partition]["seconds_to_loss"] - to_loss_s <= 0
    out, err = lag(
        capsys, "--group", group, "--bootstrap-server", broker.bootstrap_servers,
        "--sort", "loss", "--seconds-limit", "0", code=1,
    )  # fmt: skip
    assert err == (
        f"assignor: records were deleted unread: {topic.name}-1 at 0 (log begins at 1); "
        "raise the retention or read faster\n"
    )
    table = [line.split() for line in out.partition("\n\n")[0].splitlines()[1:]]
    assert [(row[2], row[10], row[11]) for row in table] == [
        ("1", "-", "lost"), ("0", "-", "-"), ("2", "-", "-"),
    ]  # fmt: skip


def test_a_record_with_a_time_of_minus_one_is_of_unknown_age(
    broker: EmbeddedBroker, topic: Topic, capsys
):
    """It was 56 years old, and the first to be lost."""
    topic.create(1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic.name, b"x", partition=0, timestamp=-1)
    producer.flush(30)
    group = new_group()
    topic.commit(group, {0: 0})
    [row] = as_json(capsys, "--group", group, "--bootstrap-server", broker.bootstrap_servers)[
        "partitions"
    ]
    assert (row["lag"], row["seconds_behind"], row["seconds_to_loss"]) == (1, None, None)


def test_a_group_at_the_last_marker_of_a_transaction_is_0_seconds_behind(
    broker: EmbeddedBroker, topic: Topic, capsys
):
    topic.create(1)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic.name}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic.name, b"x", partition=0)
    producer.commit_transaction(60)
    group = new_group()
    topic.commit(group, {0: 1})
    [row] = as_json(capsys, "--group", group, "--bootstrap-server", broker.bootstrap_servers)[
        "partitions"
    ]
    assert (row["lag"], row["seconds_behind"]) == (1, 0.0)
    assert (row["state"], row["at_risk"], row["seconds_to_loss"]) == ("markers", False, None)


def test_a_topic_that_was_made_again_wakes_a_monitor(
    broker: EmbeddedBroker, topic: Topic, tmp_path: Path, capsys
):
    """By a group that Kafka made forget its offsets, one that is ahead, and by a checkpoint."""
    address = broker.bootstrap_servers
    topic.create(1).fill([50])
    forgot, ahead = new_group(), new_group()
    topic.commit(forgot, {0: 40})
    delete_topics(address, [topic.name])
    out, err = lag(capsys, "--group", forgot, "--bootstrap-server", address, code=1)
    assert out == ""
    assert err == (
        f"assignor: group {forgot!r} has no committed offset on any topic that the user may "
        "describe: its topics were deleted (and re-created), it has not committed yet, or the user "
        "lacks Describe permission on its topics\n"
    )
    topic.create(1).fill([1])
    topic.commit(ahead, {0: 100})
    query = write_query(tmp_path / "c", {topic.name: {0: 40}})
    for words, at in ((["--group", ahead], 100), (["--checkpoint", query], 40)):
        words += ["--bootstrap-server", address]
        [row] = as_json(capsys, *words, "--only-with-lag", code=1)["partitions"]
        assert (row["lag"], row["state"], row["at_risk"]) == (1 - at, "ahead", None)
        out, err = lag(capsys, *words, code=1)
        assert rows_of(out)[0][-1] == "ahead"
        assert err == (
            f"assignor: positions beyond the log's end: {topic.name}-0 at {at} (log ends at 1); "
            "the topic was probably recreated, so its reader will fail, or continue at the log's "
            "start or end: set its offsets again\n"
        )


def test_what_the_broker_does_not_know_is_unknown_and_told(
    broker: EmbeddedBroker, topic: Topic, tmp_path: Path, capsys
):
    topic.create(2).fill([3, 3])
    address = broker.bootstrap_servers
    checkpoint = write_query(tmp_path / "c", {topic.name: {0: 2, 7: 5}, "gone": {0: 4}})
    out, err = lag(capsys, "--checkpoint", checkpoint, "--bootstrap-server", address, code=1)
    assert [row[1:6] for row in rows_of(out)] == sorted([
        ["gone", "0", "4", "-", "-"], [topic.name, "0", "2", "3", "1"],
        [topic.name, "1", "-", "3", "-"], [topic.name, "7", "5", "-", "-"],
    ])  # fmt: skip
    assert err == (
        f"assignor: missing partitions: {topic.name}-7; the topic was probably recreated\n"
        "assignor: topic 'gone' no longer exists\n"
    )
    assert main.run(["lag", "--checkpoint", checkpoint, "--topic", "gone"]) == 0
    out, err = capsys.readouterr()
    assert [row[1:6] for row in rows_of(out)] == [["gone", "0", "4", "-", "-"]]
    assert len(err.splitlines()) == 1
    delete_topics(address, [topic.name])
    lag(capsys, "--checkpoint", checkpoint, "--bootstrap-server", address, code=1)


def test_many_topics_are_asked_for_at_once(
    broker: EmbeddedBroker, topic: Topic, tmp_path: Path, capsys
):
    topic.create(1).fill([3])
    gone = {f"gone-{number}": {0: 1} for number in range(9)}
    query = write_query(tmp_path / "checkpoint", {topic.name: {0: 1}, **gone})
    out, err = lag(
        capsys, "--checkpoint", query, "--bootstrap-server", broker.bootstrap_servers, code=1
    )
    assert [row[1:6] for row in rows_of(out) if row[1] == topic.name] == [
        [topic.name, "0", "1", "3", "2"]
    ]
    assert err.splitlines() == [
        f"assignor: topic {name!r} no longer exists" for name in sorted(gone)
    ]


def test_a_new_cluster_answers_the_first_question_about_a_group(capsys):
    with EmbeddedBroker() as fresh:
        _, err = lag(capsys, "--group", "g", "--bootstrap-server", fresh.bootstrap_servers, code=1)
        assert err.startswith("assignor: group 'g' does not exist: ")
        fresh.create_topic("t", 2)
        brokers = Brokers({"bootstrap.servers": fresh.bootstrap_servers}, limit_s=1.5)
        assert brokers.list_all_partitions()["t"] == {0, 1}
        assert fresh.pid is not None
        os.kill(fresh.pid, signal.SIGSTOP)
        try:
            with pytest.raises(
                GroupError, match=r"^group 'g': its coordinator did not answer within 1.5 s \("
            ):
                fetch_group_offsets(brokers, "g")
        finally:
            os.kill(fresh.pid, signal.SIGCONT)
        assert fetch_group_offsets(brokers, "g") == {}


SECRET = "hunter2-never-shown"  # noqa: S105


@pytest.mark.parametrize(
    ("words", "config", "code", "message"),
    [
        pytest.param([], None, 2, "give a checkpoint or --group GROUP", id="neither"),
        pytest.param(["--group", "g", "--checkpoint", "c"], None, 2, "not both", id="both"),
        pytest.param(["--group", "g"], None, 2, "needs the brokers", id="no broker given"),
        pytest.param(["--group", "g", "--plan", "sticky"], None, 2, "needs the brokers",
                     id="no broker given for a plan"),
        pytest.param(["c", "--plan", "sticky"], None, 2, "--plan cannot be used without --group",
                     id="a plan of a checkpoint"),
        pytest.param(["--group", "g", "--plan", "sticky", "--sort", "lag"], None, 2,
                     "--sort cannot be used with --plan", id="a plan in an order"),
        pytest.param(["--group", "g", "--plan", ","], "", 2, "--plan is ','", id="no assignor"),
        pytest.param(["--group", "g", "--plan", "stiky"], "", 2, "unknown assignor 'stiky'",
                     id="no such assignor"),
        pytest.param(["--group", "no-such", "--plan", "sticky"], "", 1,
                     "group 'no-such' has no members", id="a plan of no group"),
        pytest.param(["--group", "no-such"], "", 1, "group 'no-such' does not exist", id="group"),
        pytest.param(["--checkpoint", "none"], None, 2, "is not a streaming checkpoint",
                     id="no such checkpoint"),
        pytest.param(["--checkpoint", "file"], None, 2, "is not a streaming checkpoint",
                     id="a file"),
        pytest.param(["--checkpoint", "s3a://b/c"], None, 2, "not on a local file system",
                     id="elsewhere"),
        pytest.param(["--checkpoint", "corrupt"], None, 1, "is damaged in line 3", id="corrupt"),
        pytest.param(["--checkpoint", "good", "--topic", "u"], None, 2, "not among those read: t",
                     id="no such topic"),
        pytest.param(["--group", "g", "--command-config", "no-file"], None, 2,
                     "cannot be read (No such file", id="no config"),
        pytest.param(["--group", "g", "--command-config", "."], None, 2,
                     "cannot be read (Is a directory", id="config is a folder"),
        pytest.param(["--group", "g"], "bootstrap.servers=127.0.0.1:1\n", 1,
                     "no broker answers at '127.0.0.1:1' (", id="nobody listens"),
        pytest.param(["--group", "g"], "security.protocol=SSL\nssl.truststore.location=x.jks\n"
                     f"ssl.truststore.password={SECRET}", 2, "JKS", id="a store of Java"),
        pytest.param(["--group", "g", "--timeout", "5"], "security.protocol=SASL_PLAINTEXT\n"
                     "sasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security."
                     f'plain.PlainLoginModule required username="u" password="{SECRET}";', 1,
                     "no broker answers", id="a login that the port does not take"),
    ],
)  # fmt: skip
def test_misuse_is_one_line_without_secrets(
    words, config, code, message, broker, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    for name, ends in (("corrupt", '{"t":{"0":'), ("good", '{"t":{"0":1}}')):
        (tmp_path / name / "offsets").mkdir(parents=True)
        (tmp_path / name / "offsets" / "0").write_text(f"v1\n{{}}\n{ends}")
    if config is not None:
        address = "" if "bootstrap" in config else f"bootstrap.servers={broker.bootstrap_servers}\n"
        (tmp_path / "client.properties").write_text(address + config)
        words = [*words, "--command-config", "client.properties"]
    assert main.run(["lag", *words]) == code
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err
    assert SECRET not in err
    assert len(err.splitlines()) == 1

"""Logins that a real broker refuses: one clear line, exit code 1, and no secret in any of it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import ResourceType

from streaming import run_job
from streaming.cli import main
from streaming.pipeline.job_errors import JobError
from tests.support.kafka_topics import Topic
from tests.support.secured_broker import LOGIN, PASSWORD, allow
from tests.support.spark_tools import wait_until
from tests.unit.lag.checkpoint_files import write_query

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.secured_broker import Secured

pytestmark = pytest.mark.integration

WRONG = "hunter2-never-shown"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"

COMMANDS = [
    pytest.param(["lag", "--group", "team", "--json"], id="lag of a group"),
    pytest.param(["lag", "--checkpoint", "query"], id="lag of a query"),
    pytest.param(["offsets", "--group", "team"], id="offsets"),
    pytest.param(["doctor"], id="doctor"),
    pytest.param(["doctor", "--checkpoint", "query"], id="doctor of a query"),
]


def combine(*problems: Any) -> list[Any]:
    """Return the first problem with each command, and others with one; the remainder is long."""
    return [
        pytest.param(
            *words.values, *problem.values, id=f"{problem.id}-{words.id}",
            marks=[*problem.marks, *([pytest.mark.long] if number and index else [])],
        )
        for number, problem in enumerate(problems)
        for index, words in enumerate(COMMANDS)
    ]  # fmt: skip


def config(
    address: str,
    *,
    protocol: str = "SASL_PLAINTEXT",
    mechanism: str = "PLAIN",
    module: str = PLAIN,
    user: str = "ann",
    password: str = WRONG,
) -> str:
    return (
        f"bootstrap.servers={address}\nsecurity.protocol={protocol}\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} required username="{user}" password="{password}";\n'
        "debug=all\nlog_level=7\n"  # of librdkafka: not taken over
    )


def run(
    words: list[str], text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> tuple[int, list[str]]:
    """Give the exit code and what was said of it: on stderr, or as a finding of the doctor."""
    (tmp_path / "client.properties").write_text(text)
    write_query(tmp_path / "query", {"t": {0: 9}})
    code = main.run([*words, "--command-config", "client.properties"])
    out, err = capfd.readouterr()
    for secret in (WRONG, PASSWORD):
        assert secret not in out + err
    found = [line for line in out.splitlines() if not line.startswith("ok ")]
    assert all(line.startswith("FAILED brokers answer: ") for line in found)
    return code, [*found, *err.splitlines()]


@pytest.mark.parametrize(
    ("words", "changed", "message"),
    combine(
        pytest.param({}, "Authentication failed: Invalid username or password",
                     id="wrong password"),
        pytest.param({"user": "nobody", "password": PASSWORD},
                     "Authentication failed: Invalid username or password", id="no such user"),
        pytest.param({"mechanism": "SCRAM-SHA-512", "module": SCRAM},
                     "mechanism", id="a mechanism that the broker does not have",
                     marks=pytest.mark.long),
        pytest.param({"protocol": "SASL_SSL"}, "SSL", id="TLS to a port without it"),
        pytest.param({"protocol": "PLAINTEXT"}, "(the connection was closed)",
                     id="no login to a port that wants one"),
    ),
)  # fmt: skip
def test_a_refused_login_is_one_line_without_secrets(
    words, changed, message, secured: Secured, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    code, lines = run(words, config(secured[1], **changed), tmp_path, capfd)
    assert code == 1
    assert len(lines) == 1
    assert f"no broker answers at {secured[1]!r} (" in lines[0]
    assert message in lines[0]


@pytest.mark.parametrize("words", COMMANDS[:2])
def test_tls_to_the_open_port_is_one_line(words, secured: Secured, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    text = config(secured[0].bootstrap_servers, protocol="SSL")
    code, lines = run(words, text, tmp_path, capfd)
    assert (code, len(lines)) == (1, 1)
    assert f"no broker answers at {secured[0].bootstrap_servers!r} (" in lines[0]
    assert "SSL" in lines[0]


@pytest.mark.parametrize(
    ("words", "changed", "message"),
    combine(
        pytest.param({"mechanism": "NOSUCH"}, "'sasl.mechanism'", id="unknown mechanism"),
        pytest.param({"module": SCRAM}, "works with SCRAM-SHA-256", id="the module of another"),
        pytest.param({"protocol": "NOSUCH"}, "'security.protocol' has an unknown value",
                     id="unknown protocol"),
    ),
)  # fmt: skip
def test_a_login_that_cannot_be_is_misuse(words, changed, message, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    code, lines = run(words, config("127.0.0.1:1", **changed), tmp_path, capfd)
    assert (code, len(lines)) == (2, 1)
    assert "--command-config client.properties: " in lines[0]
    assert message in lines[0]


def test_a_group_that_may_not_be_seen(secured: Secured, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    text = config(secured[1], password=PASSWORD)
    code, lines = run(["lag", "--group", "of-others"], text, tmp_path, capfd)
    assert (code, len(lines)) == (1, 1)
    assert "group 'of-others': " in lines[0]
    assert "the user lacks Describe on Group 'of-others'" in lines[0]


def test_lag_names_the_right_that_is_missing_from_nothing_allowed_to_all_that_is_needed(
    secured: Secured, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    broker, address, *_ = secured
    name = f"t-{uuid.uuid4().hex[:6]}"
    topic = Topic(broker.bootstrap_servers, name).create(1)
    topic.fill([9])
    topic.commit(name, {0: 4})
    (tmp_path / "client.properties").write_text(config(address, password=PASSWORD))
    write_query(tmp_path / "query", {name: {0: 4}})
    write_query(tmp_path / "many", {name: {0: 4}, **{f"no-{n}": {0: 1} for n in range(9)}})

    def said(*words: str) -> tuple[int, list[str], list[str]]:
        code = main.run(["lag", *words, "--command-config", "client.properties"])
        out, err = capfd.readouterr()
        rows = [line.split() for line in out.partition("\n\n")[0].splitlines()[1:]]
        return code, rows[0][4:6] if rows else [], err.splitlines()

    def settled(expected: object, *words: str) -> None:
        """Brokers learn of rights a moment later."""
        wait_until(lambda: said(*words) == expected, f"{expected}, not {said(*words)}", 20)

    group, query = ("--group", name), ("--checkpoint", "query")
    of_topic = f"the user lacks Describe on Topic {name!r}"
    refused = [f"assignor: group {name!r}: the user lacks Describe on Group {name!r}"]
    settled((1, [], refused), *group)
    settled((1, ["-", "-"], [f"assignor: topic {name!r}: {of_topic}"]), *query)
    _, _, many = said("--checkpoint", "many")
    assert f"assignor: topic {name!r}: {of_topic}" in many
    assert f"assignor: topic {name!r} no longer exists" not in many

    allow(broker, ResourceType.GROUP, name, "DESCRIBE")
    nothing = f"assignor: group {name!r} has no committed offset on any topic that the user may"
    wait_until(lambda: said(*group)[2][0].startswith(nothing), nothing, 20)

    allow(broker, ResourceType.TOPIC, name, "DESCRIBE")
    unknown = f"is unknown for 1 of 1 ({name}"
    notes = [
        f"assignor: retention {unknown}): the user lacks DescribeConfigs on Topic",
        f"assignor: seconds behind {unknown}-0): the user lacks Read on Topic",
    ]
    for words in (group, query):
        settled((0, ["9", "5"], notes), *words)

    allow(broker, ResourceType.TOPIC, name, "READ", "DESCRIBE_CONFIGS")
    for words in (group, query):
        settled((0, ["9", "5"], []), *words)


def test_a_job_that_may_see_a_topic_but_not_read_it_says_which_right_it_needs(
    spark: SparkSession, secured: Secured, tmp_path
):
    broker, address, *_ = secured
    topic = Topic(broker.bootstrap_servers, f"t-{uuid.uuid4().hex[:6]}").create(1)
    topic.fill([3])
    allow(broker, ResourceType.TOPIC, topic.name, "DESCRIBE")
    config = {
        "kafka.bootstrap.servers": address,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": LOGIN.format(user="ann", password=PASSWORD),
        "source": {"subscribe": topic.name, "records": {"format": "raw"}},
        "sink": {"type": "console"},
    }

    def said() -> str:
        with pytest.raises(JobError) as raised:
            run_job(spark, config)
        assert PASSWORD not in str(raised.value)
        assert len(str(raised.value).splitlines()) == 1
        return str(raised.value)

    told = wait_until(lambda: None if "does not exist" in (line := said()) else line, "rights", 60)
    assert "Not authorized to access topics: [" in told
    assert "; the user needs Describe and Read on each source topic" in told

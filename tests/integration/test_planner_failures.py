"""When the planner fails: Spark's default for that batch, or the query fails; data exact."""

from __future__ import annotations

import json
import os
import shlex
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from streaming.cli.main import run
from tests.support import own_assignor, planner_proxy
from tests.support.packed import unpack_tasks
from tests.support.spark_tools import (
    assert_each_row_once,
    read_topic,
    run_in_batches,
    run_to_table,
    wait_for_end,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tests.support.kafka_topics import Topic
    from tests.support.spark_tools import DriverLog

pytestmark = pytest.mark.integration

COUNTS = [40, 40, 40]


FAILURES = [
    pytest.param("die", "the planner fell over", id="the process dies"),
    pytest.param(
        "garbage", "is not JSON: this is not JSON", id="the answer is no JSON",
        marks=pytest.mark.long,
    ),
    pytest.param("late", "did not answer within 2000 ms", id="the answer comes too late"),
    pytest.param(
        "stale", "answered another request: 0 ", id="the answer is to another request",
        marks=pytest.mark.long,
    ),
    pytest.param("raises", "boom", id="the planner raises"),
    pytest.param("drops", "does not match the batch", id="the plan drops an offset"),
    pytest.param("doubles", "reads offsets twice", id="the plan reads offsets twice"),
    pytest.param(
        "invents", "it should read nothing", id="the plan reads what nobody asked for",
        marks=pytest.mark.long,
    ),
    pytest.param("stranger", "unknown executor 'no-such-executor'", id="an executor that is gone"),
    pytest.param(
        "unsorted-tail", "takes 2.0 s: expected at most 1.0 s", id="tail tasks are not sorted"
    ),
    pytest.param(
        "tail-slot", "expected -1 for a tail task", id="a tail task has a slot",
        marks=pytest.mark.long,
    ),
    pytest.param(
        "no-ranges", "of the plan has no ranges", id="the plan holds an empty task",
        marks=pytest.mark.long,
    ),
    pytest.param(
        "lacks", "does not follow the contract (Missing", id="the plan lacks a column",
        marks=pytest.mark.long,
    ),
    pytest.param(
        "short", "the plan's columns are inconsistent", id="a column is too short",
        marks=pytest.mark.long,
    ),
]  # fmt: skip


@pytest.mark.falls_back
@pytest.mark.parametrize(("mode", "said"), FAILURES)
def test_one_batch_falls_back_to_sparks_mapping_and_says_so_once(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    planner: Callable[[str], None],
    driver_log: DriverLog,
    mode: str,
    said: str,
) -> None:
    topic.create(3).fill(COUNTS)
    planner(mode)

    progresses, rows = run_in_batches(spark, topic, checkpoint, assignor_planTimeoutMs="2000")

    assert rows == sum(COUNTS)
    metrics = [p["sources"][0]["metrics"] for p in progresses]
    strategies = [m["assignor.strategy"] for m in metrics]
    assert strategies[:3] == ["lag-aware-sticky", "spark", "lag-aware-sticky"]
    assert metrics[1]["assignor.tasks"] == "3"
    assert [m["assignor.fallbacks"] for m in metrics[:3]] == ["0", "1", "1"]
    assert ["assignor.freshnessSeconds" in m for m in metrics[:3]] == [True, False, True]
    warnings = driver_log.lines("could not plan a micro-batch")
    assert len(warnings) == 1
    assert said in warnings[0] + str(driver_log.lines(said))


@pytest.mark.parametrize("how", ["banner", "number", "prefix"])
def test_what_a_python_prints_as_it_starts_is_no_answer(
    spark: SparkSession, topic: Topic, checkpoint: str, planner: Callable[[str], None], how: str
) -> None:
    """A line of a `sitecustomize` was one, so that no batch of any query was planned."""
    topic.create(3).fill(COUNTS)
    planner(how)

    progresses, rows = run_in_batches(spark, topic, checkpoint, assignor_onError="fail")

    assert rows == sum(COUNTS)
    assert {p["sources"][0]["metrics"]["assignor.fallbacks"] for p in progresses} == {"0"}


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        pytest.param("die", "the planner fell over", id="the process dies", marks=pytest.mark.long),
        pytest.param(
            "raises", "Traceback: in the planner", id="the planner raises", marks=pytest.mark.long
        ),
        pytest.param("drops", "does not match the batch", id="the plan drops an offset"),
    ],
)
def test_on_error_fail_stops_the_query_and_a_restart_goes_on_exactly(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    tmp_path: Path,
    planner: Callable[[str], None],
    mode: str,
    said: str,
) -> None:
    topic.create(3).fill(COUNTS)
    table = str(tmp_path / "table")
    planner(mode)
    options = {"assignor": "lag-aware-sticky", "maxOffsetsPerTrigger": "40"}

    with pytest.raises(StreamingQueryException, match=said):
        run_to_table(spark, topic, checkpoint, table, assignor_onError="fail", **options)

    planner("record")
    run_to_table(spark, topic, checkpoint, table, assignor_onError="fail", **options)
    assert_each_row_once(spark, table, COUNTS)


def test_what_java_heeds_is_what_the_planner_takes_the_options_for(
    spark: SparkSession, topic: Topic, checkpoint: str, planner: Callable[[str], None]
) -> None:
    """Java once read these two itself: `1_000` as 10 s, and `fail` with a space as fallback."""
    topic.create(3).fill(COUNTS)
    planner("late")

    with pytest.raises(StreamingQueryException, match="did not answer within 1000 ms"):
        run_in_batches(
            spark, topic, checkpoint, assignor_planTimeoutMs="1_000", assignor_onError="fail\u00a0"
        )


@pytest.mark.falls_back
def test_the_plan_log_holds_what_was_asked_and_answered(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    tmp_path: Path,
    planner: Callable[[str], None],
    record: Path,
    driver_log: DriverLog,
    capfd: pytest.CaptureFixture[str],
) -> None:
    topic.create(3).fill(COUNTS)
    planner("drops")  # the second plan
    log = tmp_path / "plans.jsonl"
    log.touch()
    os.truncate(log, 64 * 1024 * 1024)  # full

    progresses, rows = run_in_batches(spark, topic, checkpoint, assignor_planLog=str(log))

    assert rows == sum(COUNTS)
    planned = [
        p["batchId"]
        for p in progresses
        if p["sources"][0]["metrics"]["assignor.strategy"] == "lag-aware-sticky"
    ]
    assert len(planned) == len(progresses) - 1
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line.pop("batchId") for line in lines] == planned
    honest = list(
        zip(planner_proxy.read_requests(record), planner_proxy.read_answers(record), strict=True)
    )
    options = {"assignor": "lag-aware-sticky", "assignor.planLog": str(log)}
    assert [line["plan"] for line in lines] == [p for _, p in (honest[0], *honest[2:])]
    for line, (asked, _) in zip(lines, (honest[0], *honest[2:]), strict=True):
        assert {name.lower(): value for name, value in line["snapshot"].pop("options").items()} == {
            name.lower(): value for name, value in options.items()
        }
        assert line["snapshot"] == asked
    assert run(["plan", "--json", str(log)]) == 0
    answers = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [answer["tasks"] for answer in answers] == [
        unpack_tasks(line["plan"]["tasks"]) for line in lines
    ]
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.with_name("plans.jsonl.1").stat().st_size == 64 * 1024 * 1024
    assert not driver_log.lines("plan log")


def test_a_plan_log_has_no_secret_of_an_own_assignor(
    spark: SparkSession, topic: Topic, checkpoint: str, tmp_path: Path
) -> None:
    topic.create(2).fill([3, 5])
    log = tmp_path / "plans.jsonl"
    own = {
        "assignor": f"{own_assignor.__name__}:LastTakesAll",
        f"assignor_{own_assignor.LastTakesAll.name}_takerPlace": "0",
        f"assignor_{own_assignor.LastTakesAll.name}_password": "Tr0ub4dor",
    }
    progresses, _ = run_in_batches(spark, topic, checkpoint, assignor_planLog=str(log), **own)
    assert progresses[0]["sources"][0]["metrics"]["assignor.fallbacks"] == "0"
    assert "Tr0ub4dor" not in log.read_text()
    assert '"***"' in log.read_text()


def test_a_plan_log_that_cannot_be_written_is_one_warning(
    spark: SparkSession, topic: Topic, checkpoint: str, tmp_path: Path, driver_log: DriverLog
) -> None:
    topic.create(3).fill(COUNTS)

    progresses, rows = run_in_batches(
        spark, topic, checkpoint, assignor_planLog=str(tmp_path / "no" / "such" / "folder")
    )

    assert rows == sum(COUNTS)
    metrics = [p["sources"][0]["metrics"] for p in progresses]
    assert {m["assignor.strategy"] for m in metrics} == {"lag-aware-sticky"}
    assert {m["assignor.fallbacks"] for m in metrics} == {"0"}
    [warning] = driver_log.lines("could not write its plan log")
    assert "no/such/folder" in warning


def no_package(tmp_path: Path) -> str:
    """Make an interpreter that knows the standard library only, and talks too much."""
    script = tmp_path / "bare-python"
    script.write_text(
        "#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' x >&2\n"
        f'echo >&2\nexec {shlex.quote(sys.executable)} -I -S "$@"\n'
    )
    script.chmod(0o755)
    return str(script)


def other_version(tmp_path: Path) -> str:
    """Make an interpreter whose package was built with other Java sources than the jar."""
    script = tmp_path / "other-python"
    python = shlex.quote(sys.executable)
    change = "from assignor_bridge import version as v; v.read_jar_version = lambda: '0.0.9-f00'"
    script.write_text(f'#!/bin/sh\nexec {python} -c "{change}\n$2"\n')
    script.chmod(0o755)
    return str(script)


@pytest.mark.falls_back
@pytest.mark.parametrize(
    ("interpreter", "said"),
    [
        pytest.param(lambda _: "/no/such/python", "could not be started", id="does not exist"),
        pytest.param(
            no_package,
            "if it has no assignor-bridge",
            id="lacks the package",
            marks=pytest.mark.long,
        ),
        pytest.param(other_version, "other-python' is 0.0.9-f00: install the", id="other version"),
    ],
)
def test_an_interpreter_that_cannot_plan(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    tmp_path: Path,
    driver_log: DriverLog,
    interpreter: Callable[[Path], str],
    said: str,
) -> None:
    topic.create(3).fill(COUNTS)
    before = spark.conf.get("spark.assignor.python") or sys.executable
    spark.conf.set("spark.assignor.python", interpreter(tmp_path))
    try:
        progresses, rows = run_in_batches(spark, topic, checkpoint)
        warnings = driver_log.lines("could not plan a micro-batch")
        with pytest.raises(StreamingQueryException, match=said):
            run_in_batches(spark, topic, checkpoint + "-2", assignor_onError="\u00a0Fail ")
    finally:
        spark.conf.set("spark.assignor.python", before)
    assert rows == sum(COUNTS)
    metrics = [p["sources"][0]["metrics"] for p in progresses]
    assert {m["assignor.strategy"] for m in metrics} == {"spark"}
    reason = metrics[0]["assignor.fallbackReason"]
    assert said in reason
    assert "xxx" not in reason  # the last line of what it said only
    assert sum(map(len, driver_log.lines("xxx"))) < 50_000
    # A process that has ended is met when it is written to, or when it is read from: two reasons.
    assert 1 <= len(warnings) <= 2, warnings
    assert said in warnings[0]
    assert "spark.assignor.python" in warnings[0]


def test_one_request_a_batch_without_secrets_and_no_process_afterwards(
    spark: SparkSession, topic: Topic, checkpoint: str, planner: Callable[[str], None], record: Path
) -> None:
    topic.create(3).fill(COUNTS)
    planner("record")
    hidden = "hunter2-very-hidden"
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="u" password="{hidden}";'
    )
    progresses, _ = run_in_batches(
        spark,
        topic,
        checkpoint,
        kafka_sasl_jaas_config=jaas,
        kafka_client_id="named-by-the-user",
    )

    assert len(planner_proxy.read_snapshots(record)) == len(progresses)
    text = record.read_text()
    assert hidden not in text
    assert "kafka." not in text
    assert "named-by-the-user" not in text
    pids = {e["pid"] for e in planner_proxy.read_entries(record)}
    assert len(pids) == 1
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), f"{pids} to end")


def test_what_readers_observed_reaches_the_next_request(
    spark: SparkSession, topic: Topic, checkpoint: str, planner: Callable[[str], None], record: Path
) -> None:
    topic.create(3).fill(COUNTS)
    planner("record")
    run_in_batches(spark, topic, checkpoint)

    snapshots = planner_proxy.read_snapshots(record)
    assert snapshots[0]["observed"] == []
    for earlier, later in pairwise(snapshots):
        owed = sum(r["end"] - r["start"] for r in earlier["ranges"])
        assert sum(o["records"] for o in later["observed"]) == owed
        assert all(o["seconds"] > 0 for o in later["observed"])
        assert {o["executor"] for o in later["observed"]} <= {e["id"] for e in later["executors"]}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(
            {"assignor": "stickey"},
            r"'stickey'; did you mean 'sticky'",
            id="unknown assignor",
        ),
        pytest.param({"assignor": ""}, "assignor", id="no name at all"),
        pytest.param({"assignor.maxImbalanse": "1"}, "assignor.maxImbalance", id="unknown option"),
        pytest.param(
            {"assignor.split": "perhaps"}, "assignor.split.*true or false", id="bad value"
        ),
        pytest.param({"assignor.maxImbalance": "-1"}, "assignor.maxImbalance", id="out of range"),
        pytest.param({"assignor.onError": "panic"}, "fallback.*fail", id="no such choice"),
        pytest.param({"assignor.planTimeoutMs": "soon"}, "planTimeoutMs", id="no number"),
    ],
)
def test_a_wrong_option_fails_the_query_at_its_start_whatever_on_error_says(
    spark: SparkSession, topic: Topic, checkpoint: str, options: dict[str, str], said: str
) -> None:
    topic.create(1).fill([1])
    query = (
        read_topic(spark, topic, {"assignor": "lag-aware-sticky"} | options)
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(StreamingQueryException, match=f"(?s){said}") as caught:
        wait_for_end(query)
    assert "Traceback" not in str(caught.value)


@pytest.mark.long
def test_a_broker_that_does_not_answer_is_sparks_own_error(
    spark: SparkSession, checkpoint: str
) -> None:
    from tests.support.kafka_topics import Topic

    nobody = Topic("127.0.0.1:1", "orders")
    query = (
        read_topic(
            spark,
            nobody,
            {
                "assignor": "lag-aware-sticky",
                "kafka.default.api.timeout.ms": "2000",
                "kafka.request.timeout.ms": "1500",
            },
        )
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(StreamingQueryException, match=r"(?i)time"):
        wait_for_end(query)


def test_a_topic_that_is_not_there_is_sparks_own_error(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    query = (
        read_topic(spark, topic, {"assignor": "lag-aware-sticky"})
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(StreamingQueryException, match="UnknownTopicOrPartition"):
        wait_for_end(query)

"""How far a batch goes: Spark's offsets without our options, ours with them."""

from __future__ import annotations

import json
import re
import time
import uuid
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, ResourceType
from pyspark.errors import StreamingQueryException

from streaming.cli import main
from tests.support import planner_proxy
from tests.support.kafka_topics import Topic
from tests.support.secured_broker import LOGIN, PASSWORD, allow
from tests.support.spark_tools import (
    assert_each_row_once,
    assert_planned,
    read_topic,
    run_in_batches,
    run_to_table,
    wait_for_end,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tests.support.secured_broker import Secured
    from tests.support.spark_tools import DriverLog

# Among the drivers, so that both halves of `make test` take about as long.
pytestmark = [pytest.mark.integration, pytest.mark.drivers]

EVEN = {"assignor": "lag-aware-sticky", "assignor.fairness": "even"}


def offsets(checkpoint: str) -> list[str]:
    """The line of the source in each file of the offset log: all that is ours to change."""
    files = sorted(Path(checkpoint, "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    return [file.read_text("utf-8").splitlines()[2] for file in files]


def ends(checkpoint: str, topic: str) -> list[dict[int, int]]:
    """End offset of each partition by batch."""
    logged = [json.loads(line)[topic] for line in offsets(checkpoint)]
    return [{int(partition): end for partition, end in by.items()} for by in logged]


def metrics_of(progresses: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [p["sources"][0]["metrics"] for p in progresses if p["numInputRows"]]


def logs(checkpoint: Path) -> dict[str, bytes]:
    """Each file of the offset log and the commit log, without the time at which a batch began."""
    files = [file for log in ("offsets", "commits") for file in (checkpoint / log).glob("[0-9]*")]
    return {
        f"{file.parent.name}/{file.name}": re.sub(
            rb'"batchTimestampMs":\d+', b"", file.read_bytes()
        )
        for file in files
    }


@pytest.mark.parametrize(
    ("limits", "batches"),
    [
        pytest.param({"maxOffsetsPerTrigger": "50", "minOffsetsPerTrigger": "10"}, 7, id="limited"),
        pytest.param({"maxOffsetsPerTrigger": "1000000"}, 1, id="all at once"),
        pytest.param(
            {"assignor.maxImbalance": "0.2", "minPartitions": "9"},
            9,
            id="other options",
            marks=pytest.mark.long,
        ),
    ],
)
def test_without_the_options_the_logs_are_sparks_byte_by_byte(
    spark: SparkSession, topic: Topic, tmp_path: Path, planner: Callable[[str], None], record: Path,
    limits: dict[str, str], batches: int,
) -> None:  # fmt: skip
    topic.create(4).fill([300, 20, 7, 0])
    planner("record")

    for name in ("none", "lag-aware-sticky"):
        run_in_batches(spark, topic, str(tmp_path / name), assignor=name, **limits)

    of_spark = logs(tmp_path / "none")
    assert logs(tmp_path / "lag-aware-sticky") == of_spark
    assert len(of_spark) == 2 * batches
    asked = [e["request"] for e in planner_proxy.read_entries(record) if "request" in e]
    assert {request["type"] for request in asked} == {"validate", "plan"}
    assert not any("subscribe" in request.get("options", {}) for request in asked)


@pytest.mark.long
def test_even_small_topics_are_read_at_once_beside_a_backlog(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    """A backlog of 20,000 beside nine topics with 30 records, 1,000 a batch."""
    others = [Topic(topic.bootstrap_servers, f"{topic.name}-{i}") for i in range(9)]
    topic.create(2).fill([10_000, 10_000])
    for other in others:
        other.create(1).fill([30])
    named = ",".join(t.name for t in (topic, *others))

    progresses, rows = run_in_batches(
        spark, topic, checkpoint, subscribe=named, maxOffsetsPerTrigger="1000",
        assignor_fairness="even",
    )  # fmt: skip

    assert rows == 20_270
    assert_planned(progresses)
    first = json.loads(offsets(checkpoint)[0])
    assert [first[other.name]["0"] for other in others] == [30] * 9
    metrics = metrics_of(progresses)
    assert metrics[0]["assignor.admittedRecords"] == str(progresses[0]["numInputRows"])
    assert int(metrics[0]["assignor.heldBackRecords"]) == 20_270 - progresses[0]["numInputRows"]
    assert (metrics[0]["assignor.heldBackBy"], metrics[-1]["assignor.heldBackBy"]) == (
        "records", "nothing",
    )  # fmt: skip
    sizes = [p["numInputRows"] for p in progresses]
    assert max(sizes) <= 1000
    assert max(sizes) - min(sizes) <= len(others) + 2, "AvailableNow is cut into equal batches"


LIMITED = [
    pytest.param(
        {"assignor.fairness": "even", "maxOffsetsPerTrigger": "700"}, id="even",
        marks=pytest.mark.long,
    ),
    pytest.param(
        {"assignor.targetBatchSeconds": "5", "assignor.fairness": "even"}, id="target seconds"
    ),
    pytest.param(
        {"assignor.maxBytesPerTrigger": "10000", "maxOffsetsPerTrigger": "100000"}, id="bytes",
        marks=pytest.mark.long,
    ),
    pytest.param(
        {"assignor.targetBatchSeconds": "5", "assignor.reader": "spark"}, id="Spark's reader",
        marks=pytest.mark.long,
    ),
    pytest.param(
        {
            "assignor.fairness": "even", "maxOffsetsPerTrigger": "900",
            "minOffsetsPerTrigger": "400", "maxTriggerDelay": "1s",
        },
        id="a least number, too", marks=pytest.mark.long,
    ),
]  # fmt: skip


@pytest.mark.parametrize("options", LIMITED)
def test_availablenow_reads_all_once_and_a_restart_goes_on(
    spark: SparkSession, topic: Topic, checkpoint: str, tmp_path: Path, options: dict[str, str]
) -> None:
    table = str(tmp_path / "table")
    topic.create(3).fill([4000, 100, 0])
    named = {"assignor": "lag-aware-sticky", **options}

    progresses = run_to_table(spark, topic, checkpoint, table, **named)
    assert_planned(progresses)
    assert len(metrics_of(progresses)) > 1
    assert all("assignor.admittedRecords" in m for m in metrics_of(progresses))

    topic.fill([500, 0, 900], first=0)
    again = run_to_table(spark, topic, checkpoint, table, **named)
    assert_planned(again)
    read = spark.read.parquet(table)
    assert read.count() == read.select("partition", "offset").distinct().count() == 5500


def test_bytes_are_learned_and_held(spark: SparkSession, topic: Topic, checkpoint: str) -> None:
    """Values of six bytes or fewer: about 5,000 records for 25,000 bytes once that is known."""
    topic.create(2).fill([12_000, 12_000])

    progresses, rows = run_in_batches(
        spark, topic, checkpoint, maxOffsetsPerTrigger="1000000",
        assignor_maxBytesPerTrigger="25000",
    )  # fmt: skip

    assert rows == 24_000
    assert_planned(progresses)
    held = metrics_of(progresses)
    assert held[0]["assignor.heldBackBy"] == "growth"  # nobody knows yet how large a record is
    assert {m["assignor.heldBackBy"] for m in held[1:-1]} == {"bytes"}
    sizes = [p["numInputRows"] for p in progresses]
    assert all(25_000 / 8 < size < 25_000 / 4 for size in sizes[1:-1]), sizes


def test_a_partition_that_is_new_begins_at_its_first_record(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    """Spark's log has no offset of it, and the limit may leave it out at first."""
    topic.create(1).fill([600])
    options = {**EVEN, "maxOffsetsPerTrigger": "100"}
    query = (
        read_topic(spark, topic, options)
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .start()
    )
    try:
        wait_until(lambda: query.lastProgress, "a first batch")
        admin = AdminClient({"bootstrap.servers": topic.bootstrap_servers})
        admin.create_partitions([NewPartitions(topic.name, 2)])[topic.name].result(60)
        topic.fill([0, 250])
        wait_until(
            lambda: ends(checkpoint, topic.name)[-1] == {0: 600, 1: 250}, "all to be read", 120
        )
        query.processAllAvailable()
    finally:
        query.stop()
    progresses = wait_for_end(query)
    assert_planned(progresses)
    assert sum(p["numInputRows"] for p in progresses) == 850


def test_a_batch_that_runs_again_asks_nobody_how_far_it_goes(
    spark: SparkSession, topic: Topic, checkpoint: str, planner: Callable[[str], None], record: Path
) -> None:
    """As after a driver that was killed between the two logs: offsets are there, the commit not."""
    topic.create(3).fill([100, 20, 10])

    def run() -> list[dict[str, Any]]:
        options = {**EVEN, "maxOffsetsPerTrigger": "40"}
        stream = read_topic(spark, topic, options).writeStream.format("noop")
        stream = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        return wait_for_end(stream.start())

    first = run()
    logged = offsets(checkpoint)
    for last in Path(checkpoint, "commits").glob(f"*{len(logged) - 1}*"):
        last.unlink()
    planner("record")
    again = run()

    assert_planned(again)
    assert offsets(checkpoint) == logged
    rows = [[p["numInputRows"] for p in run if p["numInputRows"]] for run in (first, again)]
    assert rows[1] == rows[0][-1:]
    asked = [e["request"]["type"] for e in planner_proxy.read_entries(record) if "request" in e]
    assert "plan" in asked
    assert "admit" not in asked


FAILURES = [
    pytest.param("die", "the planner fell over", id="the process dies"),
    pytest.param(
        "garbage", "is not JSON: this is not JSON", id="the answer is no JSON",
        marks=pytest.mark.long,
    ),
    pytest.param("late", "did not answer within 2000 ms", id="the answer comes too late"),
    pytest.param(
        "raises", "boom", id="the planner raises",
        marks=pytest.mark.long,
    ),
    pytest.param("beyond", "the planner admitted", id="an end beyond the log's"),
    pytest.param(
        "backwards", "the planner admitted", id="an end before the start",
        marks=pytest.mark.long,
    ),
    pytest.param(
        "nothing", "the planner admitted offsets: 0 (", id="a batch of nothing",
        marks=pytest.mark.long,
    ),
    pytest.param(
        "short", "the range columns are inconsistent", id="a column is too short",
        marks=pytest.mark.long,
    ),
]  # fmt: skip


@pytest.mark.falls_back
@pytest.mark.parametrize(("mode", "said"), FAILURES)
def test_one_batch_falls_back_to_sparks_limits_and_says_so_once(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    planner: Callable[[str], None],
    driver_log: DriverLog,
    mode: str,
    said: str,
) -> None:
    topic.create(3).fill([100, 20, 10])
    planner(f"admit-{mode}")

    progresses, rows = run_in_batches(
        spark, topic, checkpoint, assignor_fairness="even", assignor_planTimeoutMs="2000"
    )

    assert rows == 130
    metrics = metrics_of(progresses)
    assert [m["assignor.heldBackBy"] for m in metrics[:3]] == ["records", "spark", "records"]
    assert [m["assignor.fallbacks"] for m in metrics[:3]] == ["0", "1", "1"]
    assert {m["assignor.strategy"] for m in metrics} == {"lag-aware-sticky"}
    warnings = driver_log.lines("could not limit a micro-batch")
    assert len(warnings) == 1
    assert said in warnings[0] + str(driver_log.lines(said))


@pytest.mark.long
def test_on_error_fail_stops_the_query_and_a_restart_goes_on_exactly(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    tmp_path: Path,
    planner: Callable[[str], None],
) -> None:
    counts = [100, 20, 10]
    topic.create(3).fill(counts)
    table = str(tmp_path / "table")
    options = {**EVEN, "assignor.onError": "fail", "maxOffsetsPerTrigger": "40"}
    planner("admit-die")
    with pytest.raises(StreamingQueryException, match="could not limit a micro-batch"):
        run_to_table(spark, topic, checkpoint, table, **options)

    planner("record")
    run_to_table(spark, topic, checkpoint, table, **options)
    assert_each_row_once(spark, table, counts)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"assignor.targetBatchSeconds": "0"}, "'assignor.targetBatchSeconds' is '0'"),
        ({"assignor.fairness": "even"}, "needs a limit on the batch's size"),
        (
            {"assignor.weight.no-such-topic": "2", "maxOffsetsPerTrigger": "5"},
            "names a topic that is not read",
        ),
    ],
)
def test_a_bad_value_is_one_line_at_the_start(
    spark: SparkSession, topic: Topic, checkpoint: str, options: dict[str, str], said: str
) -> None:
    topic.create(1)
    with pytest.raises(StreamingQueryException, match=said):
        run_to_table(
            spark, topic, checkpoint, checkpoint + "-table", **{"assignor": "sticky", **options}
        )


@pytest.mark.falls_back
def test_a_batch_whose_limits_and_plan_both_fail_is_one_fallback(
    spark: SparkSession, topic: Topic, checkpoint: str, planner: Callable[[str], None]
) -> None:
    topic.create(3).fill([100, 20, 10])
    planner("both-raises")

    progresses, rows = run_in_batches(spark, topic, checkpoint, assignor_fairness="even")

    assert rows == 130
    metrics = metrics_of(progresses)
    assert [m["assignor.heldBackBy"] for m in metrics[:3]] == ["records", "spark", "records"]
    assert [m["assignor.strategy"] for m in metrics[:3]] == [
        "lag-aware-sticky", "spark", "lag-aware-sticky",
    ]  # fmt: skip
    assert [m["assignor.fallbacks"] for m in metrics[:3]] == ["0", "1", "1"]


def test_the_plan_log_says_how_far_each_batch_was_limited(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    tmp_path: Path,
    planner: Callable[[str], None],
    record: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    topic.create(3).fill([100, 20, 10])
    planner("record")
    log = tmp_path / "plans.jsonl"

    progresses, _ = run_in_batches(
        spark, topic, checkpoint, assignor_fairness="even", assignor_planLog=str(log)
    )

    assert_planned(progresses)
    admissions = [json.loads(line)["admission"] for line in log.read_text().splitlines()]
    answers = [e["answer"] for e in planner_proxy.read_entries(record) if "answer" in e]
    assert [a["answer"] for a in admissions] == [a for a in answers if a["type"] == "admitted"]
    for logged, asked in zip(admissions, planner_proxy.read_requests(record, "admit"), strict=True):
        assert logged["request"]["ranges"] == asked["ranges"]
        assert logged["request"]["mostRecords"] == 40
        assert not {"state", "observed", "executors"} & logged["request"].keys()
    assert main.run(["plan", str(log)]) == 0
    first = f"limited to {metrics_of(progresses)[0]['assignor.admittedRecords']} offsets"
    assert first in capfd.readouterr().out


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_trigger_once_reads_everything_and_spark_names_what_it_ignores(
    spark: SparkSession, topic: Topic, checkpoint: str, driver_log: DriverLog
) -> None:
    topic.create(2).fill([9000, 10])
    options = {"assignor": "lag-aware-sticky", "assignor.targetBatchSeconds": "0.01"}
    stream = read_topic(spark, topic, options).writeStream.format("noop")
    query = stream.option("checkpointLocation", checkpoint).trigger(once=True).start()

    progresses = wait_for_end(query)

    assert_planned(progresses)
    assert [p["numInputRows"] for p in progresses if p["numInputRows"]] == [9010]
    [warning] = driver_log.lines("is ignored when Trigger.Once is used")
    assert "The read limit of the options assignor.* for " in warning


@pytest.mark.parametrize("option", ["assignor.fairness", "assignor.weight"])
def test_batches_up_to_a_fixed_end_have_one_size(
    spark: SparkSession, topic: Topic, checkpoint: str, option: str
) -> None:
    """10,010 records, 3,000 a batch at most: Spark makes three such batches, and one of 1,010."""
    small = Topic(topic.bootstrap_servers, f"small-{uuid.uuid4().hex[:6]}")
    topic.create(3).fill([9000, 1000, 0])
    small.create(1).fill([10])
    options = {"assignor.fairness": "even", f"assignor.weight.{small.name}": "2"}
    options = {name: value for name, value in options.items() if name.startswith(option)}

    progresses, rows = run_in_batches(
        spark, topic, checkpoint, **options, subscribe=f"{topic.name},{small.name}",
        maxOffsetsPerTrigger="3000",
    )  # fmt: skip

    assert rows == 10_010
    assert_planned(progresses)
    sizes = [p["numInputRows"] for p in progresses]
    assert len(sizes) == 4
    assert max(sizes) <= 1.1 * min(sizes), sizes


def write_old(topic: Topic, counts: list[int], age_s: float) -> None:
    """Write so many records to each partition with a timestamp of so long ago."""
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers})
    millis = int((time.time() - age_s) * 1000)
    for partition, count in enumerate(counts):
        for _ in range(count):
            producer.produce(topic.name, b"x", b"key", partition, timestamp=millis)
    assert producer.flush(60) == 0


@pytest.mark.long
def test_what_retention_deletes_soon_is_read_before_a_backlog_with_time_left(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    planner: Callable[[str], None],
    record: Path,
) -> None:
    """Three minutes of an hour are left to one topic, whose 1,000 records wait beside 3,000."""
    old = Topic(topic.bootstrap_servers, f"{topic.name}-old")
    forever = Topic(topic.bootstrap_servers, f"{topic.name}-kept")
    topic.create(1).fill([3000])
    old.create(1, {"retention.ms": "3600000"})
    write_old(old, [1000], 3400)
    forever.create(1, {"cleanup.policy": "compact", "retention.ms": "1000"})
    write_old(forever, [5], 3400)
    planner("record")

    progresses, rows = run_in_batches(
        spark, topic, checkpoint, subscribe=f"{topic.name},{old.name},{forever.name}",
        maxOffsetsPerTrigger="100", assignor_fairness="deadline",
    )  # fmt: skip

    assert rows == 4005
    assert_planned(progresses)
    asked = planner_proxy.read_requests(record, "admit")
    known = next(i for i, request in enumerate(asked) if request.get("retentionMs"))
    week = 7 * 24 * 3_600_000
    assert asked[known]["retentionMs"] == {topic.name: week, old.name: 3_600_000}
    read = [0, *(json.loads(line)[old.name]["0"] for line in offsets(checkpoint))]
    sizes = [after - before for before, after in pairwise(read)]
    whole = [size for size in sizes[known:] if size > 0][:-1]
    assert len(whole) > 2, sizes
    assert min(whole) >= 90, f"a batch has 97 records, and under `even` 48 of them: {sizes}"
    left = float(metrics_of(progresses)[known]["assignor.secondsToLoss"])
    assert 0 < left <= 200


@pytest.mark.long
def test_who_may_not_see_the_retention_is_told_once_and_goes_on(
    spark: SparkSession, secured: Secured, checkpoint: str, driver_log: DriverLog
) -> None:
    name = f"t-{uuid.uuid4().hex[:6]}"
    Topic(secured.broker.bootstrap_servers, name).create(1).fill([200])
    allow(secured.broker, ResourceType.TOPIC, name, "READ")
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": LOGIN.format(user="ann", password=PASSWORD),
    }

    progresses, rows = run_in_batches(
        spark, Topic(secured.address, name), checkpoint, assignor_fairness="deadline", **login
    )

    assert rows == 200
    assert_planned(progresses)
    [warning] = wait_until(lambda: driver_log.lines("could not read the retention"), "a warning")
    assert f"of topic '{name}'" in warning
    assert "needs DescribeConfigs on this topic" in warning
    assert not driver_log.lines(PASSWORD)
    assert not any("assignor.secondsToLoss" in m for m in metrics_of(progresses))

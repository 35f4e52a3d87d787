"""How far a batch goes: Spark's offsets without our options, ours with them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import StreamingQueryException

from tests import planner_proxy
from tests.kafka_topics import Topic
from tests.spark_tools import (
    assert_each_row_once,
    assert_planned,
    finished,
    read_topic,
    run_in_batches,
    run_to_delta,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tests.spark_tools import DriverLog

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
        pytest.param({"assignor.maxImbalance": "0.2", "minPartitions": "9"}, 9, id="other options"),
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
    asked = [e["request"] for e in planner_proxy.entries(record) if "request" in e]
    assert {request["type"] for request in asked} == {"validate", "plan"}
    assert not any("subscribe" in request.get("options", {}) for request in asked)


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
    pytest.param({"assignor.fairness": "even", "maxOffsetsPerTrigger": "700"}, id="even"),
    pytest.param(
        {"assignor.targetBatchSeconds": "5", "assignor.fairness": "even"}, id="target seconds"
    ),
    pytest.param(
        {"assignor.maxBytesPerTrigger": "10000", "maxOffsetsPerTrigger": "100000"}, id="bytes"
    ),
    pytest.param(
        {"assignor.targetBatchSeconds": "5", "assignor.reader": "spark"}, id="Spark's reader"
    ),
    pytest.param(
        {
            "assignor.fairness": "even", "maxOffsetsPerTrigger": "900",
            "minOffsetsPerTrigger": "400", "maxTriggerDelay": "1s",
        },
        id="a least number, too",
    ),
]  # fmt: skip


@pytest.mark.parametrize("options", LIMITED)
def test_availablenow_reads_all_once_and_a_restart_goes_on(
    spark: SparkSession, topic: Topic, checkpoint: str, tmp_path: Path, options: dict[str, str]
) -> None:
    table = str(tmp_path / "table")
    topic.create(3).fill([4000, 100, 0])
    named = {"assignor": "lag-aware-sticky", **options}

    progresses = run_to_delta(spark, topic, checkpoint, table, **named)
    assert_planned(progresses)
    assert len(metrics_of(progresses)) > 1
    assert all("assignor.admittedRecords" in m for m in metrics_of(progresses))

    topic.fill([500, 0, 900], first=0)
    again = run_to_delta(spark, topic, checkpoint, table, **named)
    assert_planned(again)
    read = spark.read.format("delta").load(table)
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
    progresses = finished(query)
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
        return finished(stream.start())

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
    asked = [e["request"]["type"] for e in planner_proxy.entries(record) if "request" in e]
    assert "plan" in asked
    assert "admit" not in asked


FAILURES = [
    pytest.param("die", "the planner fell over", id="the process dies"),
    pytest.param("garbage", "is not JSON: this is not JSON", id="the answer is no JSON"),
    pytest.param("late", "did not answer within 2000 ms", id="the answer comes too late"),
    pytest.param("raises", "boom", id="the planner raises"),
    pytest.param("beyond", "the planner admits", id="an end beyond the log's"),
    pytest.param("backwards", "the planner admits", id="an end before the start"),
    pytest.param("nothing", "the planner admits 0 records", id="a batch of nothing"),
    pytest.param("short", "columns of ranges do not fit together", id="a column is too short"),
]


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
        run_to_delta(spark, topic, checkpoint, table, **options)

    planner("record")
    run_to_delta(spark, topic, checkpoint, table, **options)
    assert_each_row_once(spark, table, counts)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"assignor.targetBatchSeconds": "0"}, "'assignor.targetBatchSeconds' is '0'"),
        ({"assignor.fairness": "even"}, "nothing limits a batch"),
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
        run_to_delta(
            spark, topic, checkpoint, checkpoint + "-table", **{"assignor": "sticky", **options}
        )

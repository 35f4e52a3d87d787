"""Offsets that are gone: the shared reader leaves the verdict, and its words, to Spark's own."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.support.shared_reader_tools import (
    AVAILABLE_NOW,
    CONTINUALLY,
    OURS,
    SPARKS,
    delete_before,
    fill_in_batches,
    plan_without_reading,
    read_available_rows,
    read_until_failure,
    recreate,
    start,
    wait_for_failure,
)
from tests.support.spark_tools import read_topic, to_dict, wait_for_end, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.integration

# Topic deletion leaves the old offsets unanswered, not refused: the poll time-out ends the wait.
PATIENCE = {
    "kafkaConsumer.pollTimeoutMs": "3000",
    "kafka.request.timeout.ms": "5000",
    "kafka.default.api.timeout.ms": "10000",
}


@pytest.fixture
def planned(spark: SparkSession, topic: Topic, tmp_path: Path) -> tuple[str, str]:
    """Two copies of a checkpoint: batch 0 over all of three partitions is logged, not read."""
    topic.create(3).fill([300, 300, 300])
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    plan_without_reading(spark, topic, SPARKS, first)
    shutil.copytree(first, second)
    return first, second


def test_retention_with_fail_on_data_loss(
    spark: SparkSession, topic: Topic, planned: tuple[str, str]
) -> None:
    delete_before(topic, {1: 120})
    ours = read_until_failure(spark, topic, OURS, planned[0])
    assert ours == read_until_failure(spark, topic, SPARKS, planned[1])
    assert "KafkaIllegalStateException" in ours
    assert "Could not read records in offset [0, 300)" in ours


def test_retention_without_fail_on_data_loss(
    spark: SparkSession, topic: Topic, planned: tuple[str, str]
) -> None:
    delete_before(topic, {1: 120, 2: 300})
    lossy = {"failOnDataLoss": "false"}
    ours = read_available_rows(spark, topic, {**OURS, **lossy}, planned[0])
    assert [(row[0], row[1]) for row in ours] == [
        *((0, offset) for offset in range(300)),
        *((1, offset) for offset in range(120, 300)),
    ]
    assert ours == read_available_rows(spark, topic, {**SPARKS, **lossy}, planned[1])


@pytest.mark.parametrize("reader", ["shared", "spark"])
def test_offsets_that_were_deleted_unread_are_counted(
    spark: SparkSession, topic: Topic, planned: tuple[str, str], reader: str
) -> None:
    delete_before(topic, {1: 120, 2: 300})
    options = OURS | {"failOnDataLoss": "false", "assignor.reader": reader}
    query = start(read_topic(spark, topic, options), planned[0], None, AVAILABLE_NOW)
    lost = [p["sources"][0]["metrics"]["assignor.offsetsLost"] for p in wait_for_end(query)]
    assert lost[-1] == "420"


@pytest.mark.long
@pytest.mark.parametrize("refilled", [pytest.param(0, id="empty"), pytest.param(40, id="shorter")])
def test_topic_recreated(
    spark: SparkSession, topic: Topic, planned: tuple[str, str], refilled: int
) -> None:
    recreate(topic, 3)
    topic.fill([refilled, 300, 300])
    by = {"trigger": CONTINUALLY}  # AvailableNow has a check of its own, in the driver
    ours = read_until_failure(spark, topic, {**OURS, **PATIENCE}, planned[0], **by)
    assert ours == read_until_failure(spark, topic, {**SPARKS, **PATIENCE}, planned[1], **by)
    assert f"Could not read records in offset [{refilled}, 300)" in ours
    lossy = {**PATIENCE, "failOnDataLoss": "false"}
    rows = read_available_rows(spark, topic, {**OURS, **lossy}, planned[0], **by)
    assert rows == read_available_rows(spark, topic, {**SPARKS, **lossy}, planned[1], **by)
    assert len(rows) == refilled + 600


SLOWLY = {  # a fetch brings few records, so that the reader meets what happens to the log
    "kafka.max.partition.fetch.bytes": "2000",
    "kafka.fetch.max.bytes": "2000",
    "kafka.max.poll.records": "20",
}


@pytest.mark.long
@pytest.mark.parametrize("fail", ["true", "false"])
def test_retention_while_it_reads(
    spark: SparkSession, topic: Topic, checkpoint: str, tmp_path: Path, fail: str
) -> None:
    fill_in_batches(topic.create(1), [2_000], batches=100)
    folder = str(tmp_path / "rows")
    whole = {"assignor.split": "false"}  # one task reads from the first offset to the last
    source = {**OURS, **SLOWLY, **whole, "failOnDataLoss": fail}
    frame = read_topic(spark, topic, source).selectExpr(
        "offset", "java_method('java.lang.Thread', 'sleep', 5L) AS slept"
    )
    query = start(frame, checkpoint, folder, AVAILABLE_NOW)
    tracker = spark.sparkContext.statusTracker()
    wait_until(
        lambda: any(
            info.numActiveTasks
            for stage in tracker.getActiveStageIds()
            if (info := tracker.getStageInfo(stage))
        ),
        "a running task",
    )
    delete_before(topic, {0: 1_800})
    if fail == "true":
        assert "Could not read records in offset [" in wait_for_failure(query)
    else:
        wait_for_end(query)
        offsets = sorted(row.offset for row in spark.read.parquet(folder).collect())
        read_before = len(offsets) - 200
        assert offsets == [*range(read_before), *range(1_800, 2_000)]
        assert read_before < 1_800


@pytest.mark.falls_back
@pytest.mark.parametrize(
    "away", [pytest.param("by the switch", marks=pytest.mark.long), "by the failure of a plan"]
)
def test_offsets_that_go_back_in_a_batch_of_sparks_mapping_end_what_consumers_keep(
    spark: SparkSession, topic: Topic, checkpoint: str, planner: Callable[[str], None], away: str
) -> None:
    """The next batch of ours began where kept records of the topic before lay, and gave those."""
    first_new = 10_000
    topic.create(1).fill([2_000])
    if away == "by the failure of a plan":
        planner("garbage")  # for the second snapshot
    batches: list[dict[int, str]] = []

    def look(frame: DataFrame, number: int) -> None:
        assert number == len(batches)
        batches.append({row.offset: row.value for row in frame.collect()})
        if number == 0:
            recreate(topic, 1)
            topic.fill([50], first=first_new)
        elif number == 1:
            topic.fill([400], first=first_new + 50)
            if away == "by the switch":
                spark.conf.set("spark.assignor.enabled", "false")
        elif number == 2:
            spark.conf.set("spark.assignor.enabled", "true")

    options = {**OURS, "failOnDataLoss": "false", "maxOffsetsPerTrigger": "100"}
    options["assignor.onError"] = "fallback"
    query = (
        read_topic(spark, topic, options)
        .selectExpr("offset", "CAST(value AS STRING) AS value")
        .writeStream.foreachBatch(look)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    try:
        wait_until(lambda: len(batches) > 3 or query.exception(), "four batches", 120)
        assert query.exception() is None
        strategies = [
            p["sources"][0]["metrics"].get("assignor.strategy")
            for p in map(to_dict, query.recentProgress)
            if p["numInputRows"]
        ]
    finally:
        query.stop()
        spark.conf.unset("spark.assignor.enabled")
    assert [(min(b), max(b)) if b else None for b in batches[:4]] == [
        (0, 99), None, (50, 149), (150, 249),
    ]  # fmt: skip
    assert strategies[:2] == ["lag-aware-sticky", "spark"]
    for batch in batches[1:]:
        assert batch == {offset: f"0/{first_new + offset}" for offset in batch}

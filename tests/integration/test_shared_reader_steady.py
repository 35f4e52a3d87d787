"""Between micro-batches the shared reader keeps its consumers, positions and what it fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.shared_reader_tools import (
    AVAILABLE_NOW,
    OURS,
    fill_in_batches,
    read_counters,
    start,
)
from tests.support.spark_tools import read_topic, to_dict, wait_for_end, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.integration

# By count, so that no partition is cut or moved for the time it took on a busy machine.
BY_COUNT = {**OURS, "assignor": "sticky"}


def difference(after: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {name: after[name] - before[name] for name in after}


def test_steady_batches_create_nothing_and_fetch_once(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    counts = [100] * 20
    fill_in_batches(topic.create(20), counts, batches=1, padding=300)
    # Exactly what was written is a batch, so that partitions stay where they are.
    whole_batches = {"minOffsetsPerTrigger": "2000", "maxTriggerDelay": "5h"}
    frame = read_topic(spark, topic, {**BY_COUNT, **whole_batches})
    query = start(frame, checkpoint, None, {"processingTime": "0 seconds"})
    try:
        query.processAllAvailable()
        before = read_counters(spark)
        for _ in range(10):
            fill_in_batches(topic, counts, batches=1, padding=300)
            query.processAllAvailable()
        used = difference(read_counters(spark), before)
        batches = [to_dict(p) for p in query.recentProgress if p.numInputRows]
    finally:
        query.stop()
    metrics = [batch["sources"][0]["metrics"] for batch in batches]
    assert [batch["numInputRows"] for batch in batches] == [2_000] * 11
    assert {m["assignor.localityHitRate"] for m in metrics} == {"1.0000"}
    assert {m["assignor.movedPartitions"] for m in metrics} == {"0"}
    assert used["records"] == 20_000
    assert used["created"] == 0
    assert used["closed"] == 0
    assert used["seeks"] == 0
    assert used["handedOver"] == 0
    assert used["networkBytes"] <= 1.15 * used["recordBytes"]


def test_a_backlog_read_in_small_batches_is_fetched_once(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    # Small batches of the producer: a fetch that ends inside one brings the cut part again.
    fill_in_batches(topic.create(8), [2_000] * 8, batches=100, padding=1_000)
    before = read_counters(spark)
    frame = read_topic(spark, topic, {**BY_COUNT, "maxOffsetsPerTrigger": "1600"})
    progress = wait_for_end(start(frame, checkpoint, None, AVAILABLE_NOW))
    used = difference(read_counters(spark), before)
    assert len([p for p in progress if p["numInputRows"]]) == 10
    assert used["records"] == 16_000
    assert used["created"] == 2
    assert used["seeks"] == 8
    assert used["networkBytes"] <= 1.15 * used["recordBytes"]


def test_runs_one_after_the_other_leave_no_consumers_of_ended_ones(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.create(4)
    for run in range(3):
        topic.fill([100] * 4, first=100 * run)
        [batch] = [
            progress
            for progress in wait_for_end(
                start(read_topic(spark, topic, BY_COUNT), checkpoint, None, AVAILABLE_NOW)
            )
            if progress["numInputRows"]
        ]
        assert batch["numInputRows"] == 400
        assert batch["sources"][0]["metrics"]["assignor.strategy"] == "sticky"
    wait_until(
        lambda: read_counters(spark)["idle"] <= 2, "one idle consumer an executor, of the last run"
    )

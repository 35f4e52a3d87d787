"""The shared tail in Spark: tasks with unpredictable times, and who may run them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.packed import unpack_tasks
from tests.support.spark_tools import (
    assert_planned,
    get_last_stage,
    list_tasks_since,
    read_topic,
    wait_for_end,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.integration

PARTITIONS, BATCHES, RECORDS = 4, 10, 20
#: Milliseconds of each record: 2 to 24, equal within a partition's batch, but not predictable.
DELAY_MS = f"exp(pmod(hash(partition, floor(offset / {RECORDS})), 100) / 40) * 2"


def run_unpredictable(
    spark: SparkSession, topic: Topic, folder: Path, **options: str
) -> list[dict[str, Any]]:
    """Write a topic to the table `tail` in batches of unpredictable times; return the batches."""
    named = {
        "assignor": "lag-aware-sticky",
        "maxOffsetsPerTrigger": str(PARTITIONS * RECORDS),
        "assignor.planLog": str(folder / "plans.jsonl"),
    } | {key.replace("_", "."): value for key, value in options.items()}
    sleep = f"java_method('java.lang.Thread', 'sleep', CAST({DELAY_MS} AS BIGINT)) AS slept"
    query = (
        read_topic(spark, topic, named)
        .selectExpr("partition", "offset", sleep)
        .writeStream.format("memory")
        .queryName("tail")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    return [p for p in wait_for_end(query) if p["numInputRows"]]


def test_free_slots_share_a_tail_and_each_offset_is_read_once(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.create(PARTITIONS).fill([BATCHES * RECORDS] * PARTITIONS)
    stage = get_last_stage(spark)

    progresses = run_unpredictable(spark, topic, tmp_path)

    assert_planned(progresses)
    rows = spark.table("tail")
    expected = [(p, offset) for p in range(PARTITIONS) for offset in range(BATCHES * RECORDS)]
    assert sorted((r.partition, r.offset) for r in rows.collect()) == expected
    metrics = [p["sources"][0]["metrics"] for p in progresses]
    tails = [int(m["assignor.tailTasks"]) for m in metrics]
    assert tails[:4] == [0] * 4, "three batches must have been predicted"
    assert sum(tails) > 0, metrics
    tasks = [int(m["assignor.tasks"]) for m in metrics]
    assert tasks == [2 + count for count in tails], "one head per slot"
    log = (tmp_path / "plans.jsonl").read_text(encoding="utf-8")
    plans = [json.loads(line)["plan"] for line in log.splitlines()]
    runs = list_tasks_since(spark, stage)
    executors = {run.executor for run in runs}
    for plan, count in zip(plans, tails, strict=True):
        planned = unpack_tasks(plan["tasks"])
        assert ["tail" in task for task in planned] == [False] * 2 + [True] * count
        assert all(set(task["tail"]["executors"]) == executors for task in planned[2:])
    reads = [run for run in runs if run.records]
    assert {run.locality for run in reads} == {"PROCESS_LOCAL"}, reads


@pytest.mark.long
def test_tail_off_keeps_one_task_per_slot(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.create(PARTITIONS).fill([BATCHES * RECORDS] * PARTITIONS)

    progresses = run_unpredictable(spark, topic, tmp_path, assignor_tail="off")

    assert_planned(progresses)
    assert {p["sources"][0]["metrics"]["assignor.tasks"] for p in progresses} == {"2"}

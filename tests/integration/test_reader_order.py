"""The rows of a task come in the order of its plan, however late and in whatever order they arrive.

Kafka is read through a proxy that delays each piece at random. The order is the one of
`assignor.planLog`.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support.kafka_topics import Topic
from tests.support.packed import unpack_tasks
from tests.support.shared_reader_tools import OURS, delete_before, fill_in_batches
from tests.support.spark_tools import assert_planned, read_topic, wait_for_end

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from streaming.kafka.embedded import EmbeddedBroker
    from tests.support.chaos_proxy import ChaosProxy

    Rows = list[tuple[int, int]]

pytestmark = pytest.mark.integration


@dataclass(frozen=True)
class Case:
    """A topic, how it is read, and how late bytes arrive."""

    #: Records of each partition, and how many of them are gone once the first batch is planned.
    records: list[int]
    gone: list[int]
    #: Records in a batch of the query, and in a batch of the producer.
    batch: int
    produced: int
    longest_delay_s: float
    fetch_bytes: int
    poll_records: int
    split: bool


CASES = st.integers(2, 8).flatmap(
    lambda partitions: st.builds(
        Case,
        records=st.lists(st.integers(0, 300), min_size=partitions, max_size=partitions),
        gone=st.lists(st.sampled_from([0, 0, 0, 1, 40]), min_size=partitions, max_size=partitions),
        batch=st.integers(200, 1000),
        produced=st.integers(5, 60),
        longest_delay_s=st.sampled_from([0.0, 0.01, 0.05]),
        fetch_bytes=st.integers(200, 5000),
        poll_records=st.integers(5, 200),
        split=st.booleans(),
    ).filter(lambda case: any(case.records))
)


@pytest.mark.parametrize("examples", [3, pytest.param(80, marks=pytest.mark.long)])
def test_rows_of_a_task_come_in_the_order_of_its_plan(
    spark: SparkSession,
    proxied: tuple[EmbeddedBroker, ChaosProxy],
    tmp_path_factory: pytest.TempPathFactory,
    examples: int,
) -> None:
    broker, proxy = proxied

    @hypothesis.settings(max_examples=examples)
    @hypothesis.given(CASES)
    def check(case: Case) -> None:
        direct = Topic(broker.bootstrap_servers, f"order-{uuid.uuid4().hex[:8]}")
        direct.create(len(case.records))
        fill_in_batches(direct, case.records, -(-max(case.records) // case.produced))
        proxy.delay_s = (0.0, case.longest_delay_s)
        try:
            folder = tmp_path_factory.mktemp("order")
            check_order(spark, direct, Topic(proxy.address, direct.name), folder, case)
        finally:
            proxy.reset()

    check()


def check_order(
    spark: SparkSession, direct: Topic, delayed: Topic, folder: Path, case: Case
) -> None:
    """Read a topic in batches, each twice, and compare the order of rows with the plan's."""
    plans, batches = folder / "plans.jsonl", []

    def read_twice(batch: DataFrame, number: int) -> None:
        if number == 0:
            gone = zip(case.records, case.gone, strict=True)
            delete_before(direct, {p: min(all_, some) for p, (all_, some) in enumerate(gone)})
        batches.append([rows_by_task(batch), rows_by_task(batch)])

    options = OURS | {
        "assignor.planLog": str(plans),
        "assignor.split": str(case.split).lower(),
        "failOnDataLoss": "false",
        "maxOffsetsPerTrigger": str(case.batch),
        "kafka.max.partition.fetch.bytes": str(case.fetch_bytes),
        "kafka.max.poll.records": str(case.poll_records),
    }
    query = (
        read_topic(spark, delayed, options)
        .writeStream.foreachBatch(read_twice)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert_planned(wait_for_end(query))
    planned = [json.loads(line)["plan"] for line in plans.read_text().splitlines()]
    for plan, actions in zip(planned, batches, strict=True):
        expected = [
            [(r["partition"], offset) for r in ranges for offset in range(r["start"], r["end"])]
            for ranges in (task["ranges"] for task in unpack_tasks(plan["tasks"]))
        ]
        for found in actions:
            for task, in_order in enumerate(expected):
                rows = found.get(task, [])
                # Records that are gone may still come from what was fetched before.
                wanted = [row for row in in_order if row[1] >= case.gone[row[0]] or row in rows]
                assert rows == wanted, (task, in_order[:1], first_difference(rows, wanted))
            assert set(found) <= set(range(len(expected)))


def rows_by_task(batch: DataFrame) -> dict[int, Rows]:
    """Read a batch; partition and offset of its rows in their order, by task."""
    rows = batch.selectExpr("spark_partition_id() AS task", "partition", "offset").collect()
    return {
        task: [(row.partition, row.offset) for row in group]
        for task, group in groupby(rows, lambda row: row.task)
    }


def first_difference(rows: Rows, wanted: Rows) -> Any:
    """Return the place where two lists begin to differ, and what both have there."""
    pairs = list(zip([*rows, None], [*wanted, None], strict=False))
    return next((i, found, due) for i, (found, due) in enumerate(pairs) if found != due)

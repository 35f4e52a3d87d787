"""Every assignor in a real query: exact rows, and the placement that its name promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from assignor_bridge.assignors.registry import ASSIGNORS
from tests.support import own_assignor, planner_proxy
from tests.support.own_assignor import LastTakesAll
from tests.support.spark_tools import run_in_batches

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.kafka_topics import Topic
    from tests.support.spark_tools import DriverLog

pytestmark = pytest.mark.integration

COUNTS = [40, 20, 12, 8]
OWN = f"{own_assignor.__name__}:LastTakesAll"
#: One of each kind: the planner's own, one of Kafka's with and without claims, and a user's.
QUICK = ("lag-aware-sticky", "cooperative-sticky", "range", OWN)


def executor_of(plan: dict[str, Any]) -> dict[int, set[str]]:
    """Executors that read each partition, by a plan."""
    found: dict[int, set[str]] = {}
    for task in plan["tasks"]:
        for r in task["ranges"]:
            found.setdefault(r["partition"], set()).add(task["executor"])
    return found


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in QUICK else pytest.mark.long)
        for name in (*sorted(ASSIGNORS), OWN)
    ],
)
def test_each_assignor_reads_every_row_once_and_stays_where_it_was(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    planner: Callable[[str], None],
    record: Path,
    name: str,
) -> None:
    topic.create(4).fill(COUNTS)
    planner("record")

    own_options = {f"assignor_{LastTakesAll.name}_takerPlace": "0"} if name == OWN else {}
    progresses, rows = run_in_batches(spark, topic, checkpoint, assignor=name, **own_options)

    assert rows == sum(COUNTS)
    metrics = [p["sources"][0]["metrics"] for p in progresses]
    assert {m["assignor.strategy"] for m in metrics} == {LastTakesAll.name if name == OWN else name}
    assert {m["assignor.fallbacks"] for m in metrics} == {"0"}
    first, second, *_ = planner_proxy.read_plans(record)
    if name not in {"lag-aware", "lag-aware-sticky", "failover"}:  # these follow the lag and cut
        stayed = executor_of(second)
        before = executor_of(first)
        assert stayed == {p: before[p] for p in stayed}
        assert all(len(executors) == 1 for executors in stayed.values())
    if name == "range":
        by_executor = [executor_of(first)[p] for p in range(4)]
        assert by_executor[0] == by_executor[1] != by_executor[2] == by_executor[3]
    if name == OWN:
        assert len(first["tasks"]) == 1
        executors = planner_proxy.read_snapshots(record)[0]["executors"]
        assert first["tasks"][0]["executor"] == min(e["id"] for e in executors)


def test_of_a_list_the_first_that_fits_is_used_and_the_reason_is_in_the_metrics(
    spark: SparkSession, topic: Topic, broker: Any, checkpoint: str
) -> None:
    topic.create(3).fill([4, 4, 4])
    other = type(topic)(topic.bootstrap_servers, topic.name + "-wider").create(5)
    other.fill([4] * 5)
    both = type(topic)(topic.bootstrap_servers, f"{topic.name},{other.name}")

    [progress], rows = run_in_batches(
        spark, both, checkpoint, assignor="streams, sticky", maxOffsetsPerTrigger="1000"
    )

    del broker
    assert rows > 0
    metrics = progress["sources"][0]["metrics"]
    assert metrics["assignor.strategy"] == "sticky"
    assert "'streams' was passed over" in metrics["assignor.fallbackReason"]
    assert topic.name in metrics["assignor.fallbackReason"]


def test_streams_with_a_standby_names_a_second_location(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    planner: Callable[[str], None],
    record: Path,
) -> None:
    topic.create(4).fill(COUNTS)
    planner("record")
    progresses, _ = run_in_batches(
        spark, topic, checkpoint, assignor="streams", assignor_standbyReplicas="1"
    )
    # Tasks ran on whichever of the two was free first: Spark does not rank executors.
    metrics = [p["sources"][0]["metrics"] for p in progresses]
    assert {each["assignor.localityHitRate"] for each in metrics} == {"1.0000"}
    plan = planner_proxy.read_plans(record)[0]
    for task in plan["tasks"]:
        assert len(task["standbys"]) == 1
        assert task["standbys"] != [task["executor"]]


def test_failover_gives_all_to_the_best_class_of_hosts(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    planner: Callable[[str], None],
    record: Path,
) -> None:
    topic.create(4).fill(COUNTS)
    planner("record")
    progresses, rows = run_in_batches(
        spark,
        topic,
        checkpoint,
        assignor="failover",
        assignor_priorities="spot-*=1,127.0.0.*=10",
    )
    assert rows == sum(COUNTS)
    assert progresses[0]["sources"][0]["metrics"]["assignor.strategy"] == "failover"
    assert any("priority 10" in reason for reason in planner_proxy.read_plans(record)[0]["reasons"])


@pytest.mark.falls_back
def test_a_users_assignor_that_forgets_partitions_is_not_followed(
    spark: SparkSession, topic: Topic, checkpoint: str, driver_log: DriverLog
) -> None:
    topic.create(4).fill(COUNTS)
    forgetful = f"{own_assignor.__name__}:Forgetful"
    progresses, rows = run_in_batches(spark, topic, checkpoint, assignor=forgetful)
    assert rows == sum(COUNTS)
    assert {p["sources"][0]["metrics"]["assignor.strategy"] for p in progresses} == {"spark"}
    [warning, *_] = driver_log.lines("WARN Fallback")
    assert "left 1 of 4 partitions without a member" in warning

    with pytest.raises(StreamingQueryException, match="without a member"):
        run_in_batches(spark, topic, checkpoint + "-2", assignor=forgetful, assignor_onError="fail")


def test_a_users_assignor_that_is_not_there_fails_the_query_at_its_start(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.create(1).fill([1])
    with pytest.raises(StreamingQueryException, match="no_such_module"):
        run_in_batches(spark, topic, checkpoint, assignor="no_such_module:Assignor")

"""Dynamic allocation: plans request executors and free them, and do not oscillate between the two.

The simulated cluster acts like Spark's allocation manager: tasks that wait for a second bring one
executor, then two, then four, but not more than there are tasks for; an idle executor is removed.
A batch takes a fixed overhead plus the time of its busiest slot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from assignor_bridge.model import Allocation, Executor, OffsetRange
from assignor_bridge.planner.demand import CALM_BATCHES
from tests.support.planning import Observation, Plan, Snapshot, plan

COST_S = 0.001
UNLIMITED = 2**31 - 1


@dataclass
class Cluster:
    """Executors under dynamic allocation, and a stream that plans for them."""

    least: int = 0
    most: int = 4
    slots: int = 1
    partitions: int = 24
    overhead_s: float = 0.3
    idle_s: float = 60.0
    #: None: all requested executors arrive.
    room: int | None = None
    strategy: str = "lag-aware-sticky"
    idle: dict[str, float] = field(default_factory=dict)
    made: int = 0
    state: str | None = None
    observed: tuple[Observation, ...] = ()
    since_s: float | None = None
    begin: int = 0
    #: Waiting records over those of the batch, if admission holds records back.
    backlog: float = 1.0

    def __post_init__(self) -> None:
        self.add(self.least)

    def add(self, count: int) -> None:
        for _ in range(count):
            self.idle[f"{self.made:04}"] = 0.0
            self.made += 1

    def batch(self, records: int) -> Plan:
        """Plan and run a batch of records, equally divided over all partitions."""
        each = max(1, records // self.partitions)
        ranges = tuple(
            OffsetRange("t", p, self.begin, self.begin + each) for p in range(self.partitions)
        )
        self.begin += each
        there = tuple(Executor(e, f"h{e}", self.slots) for e in self.idle)
        allocation = Allocation(self.least, self.most, self.slots, self.since_s)
        made = plan(
            Snapshot(
                there, ranges, {"assignor": self.strategy}, self.observed, self.state,
                parallelism=2, allocation=allocation,
            ),
            backlog=self.backlog,
        )  # fmt: skip
        self.state = made.state
        self.run(made)
        return made

    def run(self, made: Plan) -> None:
        if not self.idle:
            self.ask(len(made.tasks), math.inf)
        names = sorted(self.idle)
        load = dict.fromkeys(names, 0.0)
        for number, task in enumerate(made.tasks):
            load[task.executor or names[number % len(names)]] += task.size * COST_S / self.slots
        took = self.overhead_s + max(load.values())
        self.observed = tuple(
            Observation(r.topic, r.partition, t.executor or names[i % len(names)],
                        r.size, 100 * r.size, r.size * COST_S, r.size)
            for i, t in enumerate(made.tasks) for r in t.ranges
        )  # fmt: skip
        self.since_s = took
        for name in names:
            self.idle[name] = 0.0 if load[name] else self.idle[name] + took
        for name in [n for n in names if self.idle[n] >= self.idle_s]:
            if len(self.idle) > self.least:
                del self.idle[name]
        if len(made.tasks) > self.slots * len(self.idle):
            self.ask(len(made.tasks), max(load.values()))

    def ask(self, tasks: int, waiting_s: float) -> None:
        wanted = min(self.most, math.ceil(tasks / self.slots))
        rounds = int(min(waiting_s, 5))
        target = min(wanted, len(self.idle) + 2**rounds - 1, self.room or wanted)
        self.add(max(0, target - len(self.idle)))

    def number_of_executors(self, batches: int, records: int) -> list[int]:
        told = []
        for _ in range(batches):
            self.batch(records)
            told.append(len(self.idle))
        return told


def executors_used(made: Plan) -> set[str | None]:
    return {task.executor for task in made.tasks}


def test_a_backlog_requests_executors_with_tasks_that_wait():
    cluster = Cluster(least=1, most=4)
    numbers = cluster.number_of_executors(3, 9_000)
    assert numbers[-1] == 4
    settled = cluster.batch(9_000)
    assert len(settled.tasks) == 4  # a task a slot once they are there
    assert executors_used(settled) == {"0000", "0001", "0002", "0003"}


@pytest.mark.parametrize("strategy", ["sticky", "range", "uniform", "lag-aware"])
def test_other_assignors_request_executors_too(strategy):
    assert Cluster(least=1, strategy=strategy).number_of_executors(4, 9_000)[-1] == 4


def test_the_first_plan_without_executors_has_tasks_in_proportion_to_lag():
    assert len(Cluster(partitions=24, most=40).batch(9_000_000).tasks) == 24
    assert len(Cluster(partitions=24, most=2).batch(9_000_000).tasks) == 8
    assert len(Cluster(partitions=24, most=UNLIMITED).batch(9_000_000).tasks) == 24


def test_one_partition_with_a_long_lag_is_worth_several_executors():
    cluster = Cluster(least=1, most=4, partitions=1)
    assert cluster.number_of_executors(4, 9_000)[-1] == 4


def test_without_a_limit_there_are_at_most_as_many_tasks_as_partitions():
    cluster = Cluster(least=1, most=UNLIMITED, room=1)
    cluster.batch(900_000)
    assert len(cluster.batch(900_000).tasks) == 24


def test_a_tiny_batch_does_not_request_executors():
    cluster = Cluster(least=1)
    cluster.batch(240)
    assert [len(cluster.batch(240).tasks) for _ in range(5)] == [1] * 5


def test_min_records_per_task_outranks_a_request_for_executors():
    snapshot = Snapshot(
        (), tuple(OffsetRange("t", p, 0, 10) for p in range(50)),
        {"assignor.minRecordsPerTask": "100"}, allocation=Allocation(0, 50, 1),
    )  # fmt: skip
    assert len(plan(snapshot).tasks) <= 5


def test_first_requests_have_tasks_that_may_run_on_any_executor():
    cluster = Cluster(least=1, most=4)
    first = cluster.batch(9_000)
    assert len(first.tasks) == 16
    assert [t.executor for t in first.tasks].count("0000") == 1
    assert [t.executor for t in first.tasks].count(None) == 15


def test_requests_without_effect_move_nothing():
    cluster = Cluster(least=2, most=40, room=2)
    for _ in range(6):
        before = {r.partition: t.executor for t in cluster.batch(9_600).tasks for r in t.ranges}
    made = cluster.batch(9_600)
    assert len(made.tasks) > 2
    assert made.metrics["movedPartitions"] == 0
    assert {r.partition: t.executor for t in made.tasks for r in t.ranges} == before


def test_executors_are_freed_when_the_load_drops():
    cluster = Cluster(least=1, most=4)
    cluster.number_of_executors(4, 9_000)
    first = executors_used(cluster.batch(9_000))
    assert len(first) == 4
    numbers = cluster.number_of_executors(250, 24)
    assert numbers[-1] == 1
    made = cluster.batch(24)
    assert made.metrics["movedPartitions"] == 0
    # A single calm batch frees nothing, because gathering makes consumers cold.
    assert set(numbers[: CALM_BATCHES - 1]) == {4}


def test_no_fewer_than_min_executors_are_used():
    cluster = Cluster(least=3, most=6)
    cluster.number_of_executors(5, 30_000)
    assert cluster.number_of_executors(300, 24)[-1] == 3
    assert len(executors_used(cluster.batch(24))) == 3


def test_all_executors_are_used_again_when_the_load_returns():
    cluster = Cluster(least=1, most=4, idle_s=1e9)  # gathered, but still there
    cluster.number_of_executors(4, 9_000)
    cluster.number_of_executors(40, 24)
    assert len(executors_used(cluster.batch(24))) == 1
    assert len(executors_used(cluster.batch(9_000))) == 4


def test_records_that_admission_holds_back_keep_executors():
    """Small batches once looked calm, and executors left while a backlog waited."""
    cluster = Cluster(least=1, most=4)
    cluster.number_of_executors(4, 9_000)
    cluster.backlog = 400.0
    assert set(cluster.number_of_executors(40, 24)) == {4}
    assert len(executors_used(cluster.batch(24))) == 4


def test_records_that_admission_holds_back_request_executors():
    cluster = Cluster(least=1, most=4)
    cluster.number_of_executors(3, 24)
    assert len(cluster.batch(240).tasks) == 1
    cluster.backlog = 400.0
    assert len(cluster.batch(240).tasks) > 4


def test_alternating_large_and_tiny_batches_move_nothing():
    cluster = Cluster(least=1, most=4)
    cluster.number_of_executors(6, 9_000)
    moved = [cluster.batch(24 if n % 2 else 9_000).metrics["movedPartitions"] for n in range(60)]
    assert sum(moved) == 0
    assert len(cluster.idle) == 4


@settings(max_examples=6)
@example(
    rate=1501, overhead_s=0.3, trigger_s=20.0, slots=4, start=1
)  # tails of large ranges gather
@example(
    rate=6146, overhead_s=3.0, trigger_s=0.0, slots=4, start=1
)  # some executors read pieces only
@given(
    rate=st.floats(10, 7_000),
    overhead_s=st.sampled_from([0.1, 0.3, 1.0, 3.0]),
    trigger_s=st.sampled_from([0.0, 2.0, 20.0]),
    slots=st.sampled_from([1, 4]),
    start=st.integers(1, 8),
)
def test_a_steady_stream_settles(rate, overhead_s, trigger_s, slots, start):
    """Records arrive at a constant rate, so a long batch makes the next one large."""
    cluster = Cluster(least=0, most=8, slots=slots, overhead_s=overhead_s, idle_s=10.0)
    cluster.add(start)
    numbers, moved, since = [], 0, 1.0
    for number in range(200):
        made = cluster.batch(int(rate * since))
        since = cluster.since_s = max(trigger_s, cluster.since_s or 1.0)
        numbers.append((len(cluster.idle), len(executors_used(made))))
        moved += int(made.metrics["movedPartitions"]) if number >= 150 else 0
    assert len(set(numbers[150:])) == 1, numbers[150:]
    assert moved == 0


def test_too_little_work_for_an_executor_does_not_change_the_plan():
    asked = tuple(OffsetRange("t", p, 0, 100) for p in range(8))
    there = tuple(Executor(str(i), "h", 2) for i in range(3))
    fixed = plan(Snapshot(there, asked))
    assert plan(Snapshot(there, asked, allocation=Allocation(0, 3, 2))) == fixed

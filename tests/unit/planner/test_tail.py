"""The shared tail: who reads it, who owns its partitions, and what the options mean with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Allocation, Executor, OffsetRange
from assignor_bridge.options import parse_options
from assignor_bridge.planner.plan import plan_step
from assignor_bridge.planner.tail_shape import TailCosts, shape_tail
from assignor_bridge.planner.tail_tasks import MAX_EXECUTORS, spread_executors
from assignor_bridge.planner.unpredictability import measure_spread
from checkpoints.state_text import decode, encode
from checkpoints.sticky_state import StickyState
from tests.property.test_planner import assert_exact
from tests.support.planning import Observation, Snapshot, to_batch, to_plan

COST_S = 0.001
FOUR = tuple(Executor(f"e{i}", f"h{i}") for i in range(4))


def plan_batch(sizes, members=FOUR, state=None, start=0, spread=0.3, **changes):
    """Plan a batch of a stream whose times deviated by `spread`; a record takes 1 ms."""
    options = changes.pop("options", {"assignor.tail": "auto"})
    asked = tuple(OffsetRange("t", p, start, start + n) for p, n in enumerate(sizes))
    seen = tuple(
        Observation("t", p, members[p % len(members)].id if members else "driver", n, n, COST_S * n)
        for p, n in enumerate(sizes)
    )
    snapshot = Snapshot(members, asked, options, seen, **changes)
    state = replace(state or StickyState.empty(), spreads=(spread,) * 5)
    outcome = plan_step(to_batch(snapshot), decode(encode(state)))
    made = to_plan(outcome)
    assert_exact(replace(snapshot, allocation=Allocation(1, 4, 1)), made)
    return outcome, made


def count_tails(outcome) -> int:
    return int(outcome.metrics.get("tailTasks", 0))


def test_heads_come_first_then_tails_largest_first():
    outcome, made = plan_batch([4000] * 8)
    tails = count_tails(outcome)
    assert 4 < tails <= 6 * 4
    assert [task.executor is None for task in made.tasks] == [False] * 4 + [True] * tails
    sizes = [task.size for task in made.tasks[4:]]
    assert sizes == sorted(sizes, reverse=True)
    heads = [task.size for task in made.tasks[:4]]
    assert heads == pytest.approx([8000 * np.exp(-0.6)] * 4, rel=0.06)
    assert made.metrics["tailTasks"] == tails
    assert made.metrics["tailShare"] == pytest.approx(1 - np.exp(-0.6), abs=0.05)
    assert made.metrics["unpredictability"] == 0.3
    assert outcome.tasks.tail_executors == ((0, 1, 2, 3),) * tails
    seconds = outcome.tasks.tail_seconds
    assert list(seconds) == sorted(seconds, reverse=True)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"options": {"assignor.tail": "off"}}, id="off"),
        pytest.param({"spread": 0.01}, id="predictable"),
        pytest.param({"members": FOUR[:1]}, id="one slot"),
        pytest.param({"sizes": [10] * 8}, id="short"),
        pytest.param({"options": {"assignor.tail": "auto", "assignor": "sticky"}}, id="a group's"),
        pytest.param(
            {"options": {"assignor.tail": "auto", "assignor.slots": "3"}},
            id="slots: Spark would run the tail on the slots of other queries",
        ),
        pytest.param({"allocation": Allocation(1, 9, 1)}, id="executors may be requested"),
    ],
)
def test_no_tail(change):
    change = {"sizes": [4000] * 8, **change}
    outcome, _ = plan_batch(**change)
    assert count_tails(outcome) == 0
    assert not outcome.tasks.tail_seconds


def test_no_tail_until_three_batches_were_predicted():
    state = replace(StickyState.empty(), spreads=(0.5,) * 2)
    seen = tuple(Observation("t", p, f"e{p}", 4000, 4000, 2.0**p) for p in range(4))
    asked = tuple(OffsetRange("t", p, 0, 4000) for p in range(4))
    batch = to_batch(Snapshot(FOUR, asked, {"assignor.tail": "auto"}, seen))
    outcome = plan_step(batch, state)
    assert count_tails(outcome) == 0
    assert "unpredictability" not in outcome.metrics
    again = plan_step(batch, outcome.state)  # the third: its reports were predicted
    assert len(again.state.spreads) == 3
    assert again.metrics["unpredictability"] == min(again.state.spreads) > 0.1
    assert count_tails(again) > 0


@pytest.mark.parametrize("sizes", [[4000] * 8, [200] * 400], ids=["cut ends", "whole ranges"])
def test_who_reads_a_tail_does_not_own_its_partition(sizes):
    """The tails are reported by executors that do not own them."""
    outcome, _ = plan_batch(sizes)
    outcome, made = plan_batch(sizes, state=outcome.state, start=10_000)
    assert outcome.state.in_tail.any() == (len(sizes) == 400)
    before = outcome.state.member.tolist()
    end = {r.partition: r.end for task in made.tasks for r in task.ranges}
    asked = tuple(OffsetRange("t", p, end[p], end[p] + n) for p, n in enumerate(sizes))
    seen = tuple(
        Observation("t", r.partition, task.executor or "e3", r.size, r.size, COST_S * r.size)
        for task in made.tasks for r in task.ranges
    )  # fmt: skip
    batch = to_batch(Snapshot(FOUR, asked, {"assignor.tail": "auto"}, seen))
    later = plan_step(batch, decode(encode(outcome.state)))
    assert later.state.member.tolist() == before
    assert later.metrics["movedPartitions"] == 0


@pytest.mark.parametrize(("number", "most"), [("1", 4), ("2", 8), ("AUTO", 24)])
def test_the_number_limits_tail_tasks_per_slot(number, most):
    outcome, _ = plan_batch([40_000] * 8, options={"assignor.tail": number})
    assert 0 < count_tails(outcome) <= most + 4  # a task has one part of a range
    with pytest.raises(OptionError, match="auto, off, or a whole number from 1 to 64"):
        parse_options({"assignor.tail": "some"})


def test_max_records_per_task_limits_heads_and_tails():
    options = {"assignor.tail": "auto", "assignor.maxRecordsPerTask": "1500"}
    outcome, made = plan_batch([4000] * 8, options=options)
    assert count_tails(outcome) > 0
    assert max(task.size for task in made.tasks) <= 1500


@pytest.mark.parametrize("least", [100, 1500, 6000])
def test_min_records_per_task_applies_to_heads_and_tails(least):
    options = {"assignor.tail": "auto", "assignor.minRecordsPerTask": str(least)}
    outcome, made = plan_batch([4000] * 8, options=options)
    assert min(task.size for task in made.tasks) >= least
    assert (count_tails(outcome) > 0) == (least < 6000)


def test_tail_tasks_count_towards_min_partitions():
    outcome, made = plan_batch([4000] * 8, options={"assignor.tail": "auto", "minPartitions": "20"})
    assert 20 <= len(made.tasks) <= 28
    assert count_tails(outcome) > 0


def test_tasks_per_slot_divides_the_heads():
    options = {"assignor.tail": "auto", "assignor.tasksPerSlot": "2"}
    outcome, made = plan_batch([2000] * 16, options=options)
    assert count_tails(outcome) > 0
    assert len(made.tasks) - count_tails(outcome) == 8


def test_without_split_only_whole_small_ranges_are_in_the_tail():
    sizes = [4000] * 4 + [200] * 80
    options = {"assignor.tail": "auto", "assignor.split": "false"}
    outcome, made = plan_batch(sizes, options=options)
    assert count_tails(outcome) > 0
    assert made.metrics["splitPartitions"] == 0
    tails = {r.partition for task in made.tasks if task.executor is None for r in task.ranges}
    assert tails <= set(range(4, 84))
    large, _ = plan_batch([8000] * 4, options=options)
    assert count_tails(large) == 0


def test_tails_stay_in_their_zone():
    members = tuple(Executor(f"e{i}", f"h{i}", rack="ab"[i % 2]) for i in range(4))
    racks = tuple(frozenset("ab"[p % 2]) for p in range(8))
    outcome, _ = plan_batch([4000] * 8, members, racks=racks)
    tasks, pieces = outcome.tasks, outcome.tasks.pieces
    assert set(tasks.tail_executors) == {(0, 2), (1, 3)}
    for task, executors in enumerate(tasks.tail_executors, tasks.head_count):
        partitions = outcome.batch.partition[pieces.row[tasks.task == task]]
        assert {int(p) % 2 for p in partitions} == {executors[0] % 2}


def test_local_mode_has_a_tail_without_preferred_executors():
    outcome, made = plan_batch([4000] * 8, (), parallelism=4)
    assert len(made.tasks) > 4
    assert set(outcome.tasks.tail_executors) == {()}


def test_a_dear_task_makes_tails_fewer():
    def count(cost_s: float) -> int:
        shape = shape_tail(0.3, 2.0, 8, TailCosts(cost_s, 0.02, 0.0), max_tasks_per_slot=6)
        return 0 if shape is None else len(shape.task_s)

    counts = [count(cost_s) for cost_s in (0.001, 0.03, 0.1, 1.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] == 0


def test_preferred_executors_are_spread():
    lists = [spread_executors(range(40), number) for number in range(80)]
    assert all(len(set(each)) == MAX_EXECUTORS for each in lists)
    assert set(np.bincount(np.concatenate(lists))) == {2 * MAX_EXECUTORS}
    assert spread_executors([3, 5], 7) == (3, 5)


def test_the_spread_ignores_what_all_tasks_share():
    predicted, task = np.ones(6), np.arange(6)
    assert measure_spread(predicted, np.full(6, 7.0), task, task) == pytest.approx(0)
    assert measure_spread(predicted[:1], predicted[:1], task[:1], task[:1]) is None
    dice = np.random.default_rng(1)
    noisy = np.exp(dice.normal(0, 0.3, 4000))
    many = np.arange(4000)
    assert measure_spread(np.ones(4000), noisy, many, many) == pytest.approx(0.3, abs=0.02)
    averaged = measure_spread(np.ones(4000), noisy, many % 40, many)
    assert averaged == pytest.approx(0.03, abs=0.01), "ranges of a task compensate for each other"


def test_tasks_of_one_partition_do_not_count_as_independent():
    """Two partitions whose records cost 0.3 more or less than predicted, in eight tasks each."""
    predicted, task = np.ones(16), np.arange(16)
    seconds = np.exp(np.repeat([0.3, -0.3], 8))
    apart = measure_spread(predicted, seconds, task, task)
    assert apart == pytest.approx(0.3, abs=0.02)
    assert measure_spread(predicted, seconds, task, task // 8) == pytest.approx(0.3 * 2**0.5)


def test_the_state_keeps_spreads_and_an_older_build_ignores_them():
    outcome, _ = plan_batch([200] * 400)
    again = decode(encode(outcome.state))
    assert again.spreads == outcome.state.spreads
    assert (again.in_tail == outcome.state.in_tail).all()
    without = decode(encode(replace(outcome.state, spreads=(), in_tail=again.in_tail & False)))
    assert (without.member == again.member).all()

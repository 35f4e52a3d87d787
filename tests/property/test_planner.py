"""Properties of every plan: it is exact and deterministic for any input."""

from __future__ import annotations

import dataclasses
import itertools
import random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assignor_bridge.assignors.registry import ASSIGNORS
from assignor_bridge.model import OffsetRange
from assignor_bridge.planner.batch import argsort_rows
from checkpoints.sorting import stable_order
from tests.support.planning import Observation, Snapshot, plan
from tests.support.strategies_snapshots import executors, list_offsets_read, ranges, snapshots
from tests.support.trials import trials


def assert_exact(snapshot: Snapshot, made) -> None:
    asked = {(r.topic, r.partition): [(r.start, r.end)] for r in snapshot.ranges if r.size}
    read = list_offsets_read(made)
    assert read.keys() == asked.keys()
    for tp, pieces in read.items():
        for (_, end), (start, _) in itertools.pairwise(pieces):
            assert end == start, (tp, pieces)
        assert [(pieces[0][0], pieces[-1][1])] == asked[tp]
        assert all(start < end for start, end in pieces)
    assert all(task.ranges for task in made.tasks)
    for task in made.tasks:
        tps = [(r.topic, r.partition) for r in task.ranges]
        assert len(tps) == len(set(tps)), "a consumer would have to jump within a task"
    slots = {e.id: e.slots for e in snapshot.executors}
    anywhere = {None} if not slots or snapshot.allocation else set()
    assert {t.executor for t in made.tasks} <= slots.keys() | anywhere
    named = [t for t in made.tasks if t.slot >= 0 and (t.executor or not slots)]
    names = [(t.executor, t.slot) for t in named]
    assert len(names) == len(set(names))


@trials(30)
@given(snapshots())
def test_every_offset_is_read_exactly_once(snapshot):
    assert_exact(snapshot, plan(snapshot))


@trials(30)
@given(snapshots(), st.randoms(use_true_random=False))
def test_the_order_of_lists_does_not_matter(snapshot, rng: random.Random):
    def shuffled(items):
        return tuple(rng.sample(items, len(items)))

    other = dataclasses.replace(
        snapshot,
        executors=shuffled(snapshot.executors),
        ranges=shuffled(snapshot.ranges),
        observed=shuffled(snapshot.observed),
    )
    assert plan(other) == plan(snapshot)


@trials(25)
@given(snapshots(), st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_lists_does_not_matter_in_local_mode(snapshot, ties, rng):
    """In local mode all reports name one executor, so many are equal or nearly so."""
    reports = tuple(
        Observation(r.topic, r.partition, "driver", 100, rng.randint(1, 9999), 0.5, offsets)
        for r in snapshot.ranges[:4]
        for offsets in (100, None, 300, 300 if ties else 200)
    )
    one = dataclasses.replace(snapshot, executors=(), observed=())
    other = one
    for seen in ((), reports, reports[::-1]):
        one = dataclasses.replace(one, observed=seen, state=plan(one).state)
        other = dataclasses.replace(
            other,
            ranges=tuple(rng.sample(other.ranges, len(other.ranges))),
            observed=tuple(rng.sample(seen, len(seen))),
            state=plan(other).state,
        )
        assert plan(other) == plan(one)


@trials(30)
@given(snapshots(), executors(), ranges(max_ranges=8), st.integers(0, 1000))
def test_a_chain_of_batches_is_exact_with_any_changes(first, then, more, grown):
    """Executors and partitions change, and each plan continues from the previous state."""
    made = plan(first)
    kept = tuple(
        OffsetRange(r.topic, r.partition, r.end, min(2**63 - 1, r.end + grown))
        for r in first.ranges[::2]
    )
    fresh = tuple(r for r in more if r.tp not in {k.tp for k in kept})
    second = Snapshot(then, kept + fresh, first.options, first.observed, made.state, 3)
    again = plan(second)
    assert_exact(second, again)
    assert plan(second) == again


def tables(cells: st.SearchStrategy[int]) -> st.SearchStrategy[list[tuple[int, ...]]]:
    return st.lists(st.tuples(*[cells] * 5), max_size=40)


@trials(50)
@given(
    tables(st.integers(0, 1)) | tables(st.integers(-1, 2)) | tables(st.integers(0, 2**20))
    | tables(st.integers(0, 2**63 - 1))
)  # fmt: skip
def test_packed_keys_sort_as_lexsort_does(rows):
    """With ties, negative numbers, and keys too large to be packed."""
    columns = list(np.array(rows, np.int64).reshape(-1, 5).T)
    assert (argsort_rows(tuple(columns[:2]), *columns[2:]) == np.lexsort(columns)).all()


@trials(30)
@given(st.lists(st.integers(0, 62).map(lambda bit: 1 << bit) | st.integers(0, 3), max_size=40))
@example([1 << bit for bit in range(62, -1, -1)])
def test_numbers_of_any_size_are_sorted_stably(numbers):
    column = np.array(numbers, np.int64)
    assert (stable_order(column) == np.argsort(column, kind="stable")).all()


@trials(10)
@given(ranges(), executors())
@pytest.mark.parametrize("name", sorted(set(ASSIGNORS) - {"lag-aware-sticky"}))
def test_every_assignor_reads_every_offset_once(name, asked, members):
    small = tuple(dataclasses.replace(r, partition=r.partition % 50) for r in asked)
    distinct = tuple({r.tp: r for r in small}.values())
    snapshot = Snapshot(members, distinct, {"assignor": f"{name},sticky"})
    made = plan(snapshot)
    assert_exact(snapshot, made)
    again = plan(dataclasses.replace(snapshot, state=made.state))
    assert_exact(snapshot, again)


@trials(30)
@given(ranges(), st.integers(1, 5), st.integers(50, 4000))
def test_no_task_exceeds_the_cap(asked, slots, cap):
    capped = tuple(r for r in asked if r.size <= 100_000)
    made = plan(Snapshot((), capped, {"assignor.maxRecordsPerTask": str(cap)}, parallelism=slots))
    assert all(task.size <= cap for task in made.tasks)


@trials(30)
@given(ranges(), st.integers(1, 40))
def test_min_partitions_is_reached_if_there_are_enough_offsets(asked, floor):
    small = tuple(r for r in asked if r.size <= 100_000)
    total = sum(r.size for r in small)
    made = plan(Snapshot((), small, {"minpartitions": str(floor)}, parallelism=4))
    assert len(made.tasks) >= min(floor, total)


@trials(30)
@given(ranges(), st.integers(1, 3000))
def test_small_tasks_are_joined(asked, least):
    small = tuple(r for r in asked if r.size <= 100_000)
    made = plan(Snapshot((), small, {"assignor.minRecordsPerTask": str(least)}, parallelism=16))
    assert len(made.tasks) <= 1 or all(task.size >= least for task in made.tasks)


@trials(30)
@given(st.lists(st.integers(1, 5000), min_size=1, max_size=12), st.integers(1, 6))
def test_reports_of_even_work_do_not_change_the_balance(sizes, slots):
    """The batches are long enough to be divided (`flagship.SHORT_BATCH_S`)."""
    asked = tuple(OffsetRange("t", i, 0, size) for i, size in enumerate(sizes))
    seen = tuple(
        Observation("t", i, "", size, size * 10, size * 0.1) for i, size in enumerate(sizes)
    )
    blind = plan(Snapshot((), asked, parallelism=slots))
    learned = plan(Snapshot((), asked, observed=seen, parallelism=slots))
    assert learned.metrics["weights"] == "seconds"
    assert learned.metrics["imbalance"] == pytest.approx(blind.metrics["imbalance"], abs=0.05)

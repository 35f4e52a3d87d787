"""The promises of placement, for any previous owners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor_bridge.assignors.whole import assign_longest_first, place_whole
from assignor_bridge.planner.batch import MicroBatch, ReadReports
from assignor_bridge.planner.pieces import Shares, cut_ranges
from assignor_bridge.planner.place import Capacity, place
from tests.support.trials import trials

seeds = st.integers(0, 2**32)
shapes = st.sampled_from(["equal", "noise", "zipf", "lognormal", "one-hot", "huge and tiny"])


def weights(shape: str, count: int, rng: np.random.Generator) -> Any:
    rank = np.arange(1.0, count + 1)
    return {
        "equal": np.ones(count),
        "noise": rng.uniform(0.9, 1.1, count),
        "zipf": rng.permutation(1 / rank**1.2),
        "lognormal": rng.lognormal(0, 1.5, count),
        "one-hot": np.where(rank == 1, 1e4, 1.0),
        "huge and tiny": np.where(rng.random(count) < 0.5, 2.0**62, 1e-12),
    }[shape]


def shares_of(work: Any, speed: Any) -> Any:
    return work.sum() * speed / speed.sum()


def assert_kept_promises(work: Any, placed: Shares, fair: Any, most: float) -> None:
    assert np.bincount(placed.row, placed.amount, len(work)) == pytest.approx(work, rel=1e-6)
    load = np.bincount(placed.slot, placed.amount, len(fair))
    assert (load <= fair * most).all(), (load / fair).max()
    assert len(placed.row) <= len(work) + 2 * len(fair)
    pairs = set(zip(placed.row.tolist(), placed.slot.tolist(), strict=True))
    assert len(pairs) == len(placed.row), "two shares of a range in one slot"


@trials(60)
@given(seeds, shapes, st.integers(1, 400), st.integers(1, 60), st.sampled_from([0.0, 0.05, 1.0]))
def test_no_slot_is_overloaded_with_any_owners(seed, shape, count, slots, max_imbalance):
    rng = np.random.default_rng(seed)
    work = weights(shape, count, rng)
    owners = rng.integers(-1, rng.integers(0, slots + 1), count)
    fair = shares_of(work, rng.choice([[1.0, 1.0], [0.3, 3.0]][seed % 2], slots))
    slot_executor = np.sort(rng.integers(0, slots, slots))
    placed = place(work, owners, Capacity(fair, slot_executor, max_imbalance))
    fresh = (owners < 0).all()
    assert_kept_promises(work, placed, fair, 1.003 if fresh else 1 + max_imbalance + 1e-6)


@trials(35)
@given(seeds, shapes, st.integers(1, 10), st.integers(1, 100), st.sampled_from([1, 2, 20, 300]))
def test_the_batch_after_executors_join_is_balanced(seed, shape, before, times, each):
    rng = np.random.default_rng(seed)
    after = min(before * times, 300)
    work = weights(shape, before * each, rng)
    first = place(
        work,
        np.full(len(work), -1),
        Capacity(shares_of(work, np.ones(before)), np.arange(before), 0.05),
    )
    owner = np.empty(len(work), np.int64)
    owner[first.row] = first.slot  # of several, the last reader
    fair = shares_of(work, np.ones(after))
    placed = place(work, owner, Capacity(fair, np.arange(after) // 4, 0.05))
    assert_kept_promises(work, placed, fair, 1.05)


@given(seeds, st.integers(1, 200), st.integers(1, 40))
def test_nothing_moves_within_the_limit(seed, count, slots):
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, slots, count)
    work = rng.uniform(0.9, 1.1, count)
    load = np.bincount(owner, work, slots)
    # The quota of each slot is within 3% of its load.
    speed = np.maximum(load, 1e-4) * rng.uniform(0.985, 1.015, slots)
    placed = place(work, owner, Capacity(shares_of(work, speed), np.arange(slots), 0.05))
    assert placed.row.tolist() == list(range(count))
    assert placed.slot.tolist() == owner.tolist()


@given(seeds, shapes, st.integers(1, 60), st.integers(1, 12), st.booleans())
def test_whole_ranges_are_as_balanced_as_greedy_and_then_stay(seed, shape, count, slots, equal):
    rng = np.random.default_rng(seed)
    capacity = np.ones(slots) if equal else rng.choice([0.5, 1.0, 1.7], slots)
    executor = np.arange(slots) // 2
    owner = rng.integers(-1, rng.integers(0, slots + 1), count)
    work = weights(shape, count, rng)
    placed = place_whole(work, owner, capacity, executor)
    ranked = np.argsort(-work, kind="stable")
    greedy = assign_longest_first(work[ranked], np.zeros(slots), capacity)
    time = (np.bincount(placed, work, slots) / capacity).max()
    greedy_time = (np.bincount(greedy, work[ranked], slots) / capacity).max()
    ideal = work.sum() / capacity.sum()
    assert time <= max(1.04 * greedy_time, 1.05 * ideal) * (1 + 1e-6)
    if time <= max(greedy_time, 1.05 * ideal):
        assert place_whole(work, placed, capacity, executor).tolist() == placed.tolist()


@pytest.mark.parametrize(
    ("sizes", "owner", "capacity"),
    [
        ([216, 142, 61, 21, 55, 335, 156, 189], [0, 1, 0, -1, 0, 1, 1, 0], [1, 1]),
        ([701, 51, 311, 686, 125, 183, 212, 172], [0, -1, 1, 0, 1, 1, 0, 1], [1, 1]),
        ([11, 64, 88, 1361, 1951, 83, 490, 48], [-1, 1, -1, 0, -1, -1, 1, 1], [2, 1]),
    ],
)
def test_whole_ranges_are_placed_again_if_moves_do_not_help(sizes, owner, capacity):
    work, speed = np.array(sizes, np.float64), np.array(capacity, np.float64)
    placed = place_whole(work, np.array(owner), speed, np.array([0, 0]))
    anew = place_whole(work, np.full(len(work), -1), speed, np.array([0, 0]))
    time, greedy = ((np.bincount(p, work, 2) / speed).max() for p in (placed, anew))
    assert time <= max(1.04 * greedy, 1.05 * work.sum() / speed.sum())


@given(seeds, st.integers(1, 60), st.integers(2, 12))
def test_longest_first_chooses_the_slot_that_ends_soonest(seed, count, slots):
    rng = np.random.default_rng(seed)
    capacity = rng.choice([0.5, 1.0, 2.0, 3.7], slots)
    sizes, load = -np.sort(-rng.uniform(0.1, 9, count)), np.zeros(slots)
    for size, slot in zip(sizes, assign_longest_first(sizes, load, capacity), strict=True):
        ends = (load + size) / capacity
        assert ends[slot] <= ends.min() * (1 + 1e-9)
        load[slot] += size


def few_or_any(few: list[float], least: float, most: int, size: int) -> st.SearchStrategy[Any]:
    """Draw lists of few different numbers (with ties), or of any numbers."""
    return st.one_of(
        st.lists(numbers, min_size=1, max_size=size)
        for numbers in (st.sampled_from(few), st.floats(least, most))
    )


@given(st.data())
def test_cuts_follow_the_shares(data):
    sizes = data.draw(
        st.lists(st.one_of(st.integers(1, 50), st.integers(2**53, 2**60)), min_size=1, max_size=6)
    )
    start = [data.draw(st.integers(0, 2**63 - 1 - size)) for size in sizes]
    if data.draw(st.booleans()):
        sizes[0], start[0] = 2**63 - 1, 0
    cuts = []
    for row in range(len(sizes)):
        shares = data.draw(few_or_any([1e6, 1e-12], 1e-6, 10**6, 5))
        cuts.append((row, list(range(len(shares))), shares))
    end = [a + size for a, size in zip(start, sizes, strict=True)]
    empty = np.zeros(len(sizes), np.int64)
    batch = MicroBatch(
        ("t",), empty, np.arange(len(sizes)), np.array(start), np.array(end), (), {},
        ReadReports.empty(),
    )  # fmt: skip
    columns = Shares(
        np.repeat(np.arange(len(cuts)), [len(slots) for _, slots, _ in cuts]),
        np.concatenate([slots for _, slots, _ in cuts]),
        np.concatenate([shares for _, _, shares in cuts]),
    )
    pieces = cut_ranges(batch, columns, np.zeros(batch.range_count))
    expected = []
    for row, slots, shares in cuts:
        done, since = 0.0, start[row]
        for slot, share in zip(slots, shares, strict=True):
            done += share
            part = round(sizes[row] * min(1.0, done / sum(shares)))
            until = end[row] if slot == slots[-1] else min(end[row], start[row] + part)
            if until > since:
                expected.append((row, since, until, slot))
                since = until
    found = (pieces.row, pieces.start, pieces.end, pieces.slot)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == expected

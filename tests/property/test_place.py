"""Placing in rounds and runs, and cutting in columns, are the same as range after range."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assignor_bridge.planner.anywhere import Anywhere, _whole
from assignor_bridge.planner.at_home import AtHome
from assignor_bridge.planner.batch import Batch, Observed
from assignor_bridge.planner.pieces import Cuts, assemble
from assignor_bridge.planner.room import Shares


def few_or_any(few: list[float], least: float, most: int, size: int) -> st.SearchStrategy[Any]:
    """Lists of few different numbers, so that there are ties, or of any."""
    return st.one_of(
        st.lists(numbers, min_size=1, max_size=size)
        for numbers in (st.sampled_from(few), st.floats(least, most))
    )


@given(
    few_or_any([0.5, 1.0, 2.0], 0.001, 3, 300),
    few_or_any([4.0, 4.5, 8.0], -1, 30, 90),
    st.sampled_from([0.0, 0.6]),
)
def test_rounds_place_as_one_by_one_does(amounts, spare, few):
    amounts.sort(reverse=True)
    room, expected = list(spare), []
    for amount in amounts:
        free, negative = max((free, -slot) for slot, free in enumerate(room))
        if amount > free and amount >= few:
            break
        expected.append(-negative)
        room[-negative] -= amount
    left = np.array(spare)
    found = _whole(np.array(amounts), left, np.full(len(spare), few)).tolist()
    assert found == expected[: len(found)]
    assert len(found) == len(expected) or len(found) >= min(1, len(expected))
    for slot, amount in zip(found, amounts, strict=False):
        spare[slot] -= amount
    assert left.tolist() == spare


some_numbers = st.sampled_from([(0.5, 3.0, 4.0, 9.0), (0.0, 1.0, 4.0, 4.5, 8.0), (-1.0, 30.0), ()])


@given(
    st.integers(0, 2**32),
    st.integers(1, 300),
    st.integers(1, 90),
    some_numbers,
    some_numbers,
    st.sampled_from([0.0, 0.02, 0.2]),
    st.booleans(),
)
def test_rounds_and_runs_place_as_one_by_one_does(seed, count, slots, sizes, rooms, grain, fresh):
    rng = np.random.default_rng(seed)
    amounts = -np.sort(-drawn(rng, sizes, count).clip(0.001))
    spare = drawn(rng, rooms, slots)
    capacity = rng.choice([[4.0, 4.0, 4.0], [1.0, 7.0, 30.0]][seed % 2], slots)

    def begun() -> Anywhere:
        rows = np.arange(count)
        return Anywhere(rows, amounts, spare.copy(), capacity, grain, fresh, Shares())

    fast, slow = begun(), begun()
    fast.place()
    slow._one_by_one(0, count)
    assert fast.spare.tolist() == slow.spare.tolist()
    assert by_row(fast.shares) == by_row(slow.shares)


@given(st.integers(0, 2**32), st.integers(1, 200), st.integers(1, 60), some_numbers, some_numbers)
def test_executors_at_once_place_as_one_by_one_does(seed, count, executors, sizes, rooms):
    rng = np.random.default_rng(seed)
    slot_executor = np.repeat(np.arange(executors), rng.integers(1, 6, executors))
    amounts = drawn(rng, sizes, count).clip(0.001)
    spare = drawn(rng, rooms, len(slot_executor))
    capacity = rng.choice([1.0, 4.0, 7.0], len(slot_executor))
    home = rng.integers(0, executors, count)
    at_once = AtHome(slot_executor, spare.copy(), capacity, Shares())
    left = at_once.place(np.arange(count), amounts, home)
    single = AtHome(slot_executor, spare.copy(), capacity, Shares())
    largest = np.lexsort((-amounts, home))
    placed = single._one_by_one(largest, amounts[largest], home[largest])
    assert sorted(left.tolist()) == sorted(largest[~placed].tolist())
    assert at_once.spare.tolist() == single.spare.tolist()
    assert by_row(at_once.shares) == by_row(single.shares)


def drawn(rng: np.random.Generator, few: tuple[float, ...], count: int) -> Any:
    """Numbers of which many are equal, or any up to 20."""
    return rng.choice(few, count) if few else rng.uniform(0, 20, count)


def by_row(shares: Shares) -> dict[int, list[tuple[Any, ...]]]:
    """Slots and parts of each range, in the order in which they were given out."""
    of_row: dict[int, list[tuple[Any, ...]]] = {}
    for row, *share in zip(*(column.tolist() for column in shares._columns()), strict=True):
        of_row.setdefault(row, []).append(tuple(share))
    return of_row


@given(st.data())
def test_cuts_fall_between_offsets_where_the_shares_say(data):
    sizes = data.draw(
        st.lists(st.one_of(st.integers(1, 50), st.integers(2**53, 2**60)), min_size=1, max_size=6)
    )
    start = [data.draw(st.integers(0, 2**63 - 1 - size)) for size in sizes]
    if data.draw(st.booleans()):
        sizes[0], start[0] = 2**63 - 1, 0
    cuts = []
    for row in range(len(sizes)):
        shares = data.draw(few_or_any([1e6, 1e-12], 1e-6, 10**6, 5).filter(lambda s: len(s) > 1))
        cuts.append((row, list(range(len(shares))), shares))
    end = [a + size for a, size in zip(start, sizes, strict=True)]
    empty = np.zeros(len(sizes), np.int64)
    batch = Batch(
        ("t",), empty, np.arange(len(sizes)), np.array(start), np.array(end), (), {},
        Observed.none(),
    )  # fmt: skip
    columns = Cuts(
        np.repeat(np.arange(len(cuts)), [len(slots) for _, slots, _ in cuts]),
        np.concatenate([slots for _, slots, _ in cuts]),
        np.concatenate([shares for _, _, shares in cuts]),
    )
    pieces = assemble(batch, np.full(len(sizes), -1), columns)
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

"""Placing a round at a time, and cutting in columns, are the same as range after range."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assignor_bridge.planner.batch import Batch, Observed
from assignor_bridge.planner.pieces import Cut, assemble
from assignor_bridge.planner.place import _whole


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
        cuts.append(Cut(row, list(range(len(shares))), shares))
    end = [a + size for a, size in zip(start, sizes, strict=True)]
    empty = np.zeros(len(sizes), np.int64)
    batch = Batch(
        ("t",), empty, np.arange(len(sizes)), np.array(start), np.array(end), (), {},
        Observed.none(),
    )  # fmt: skip
    pieces = assemble(batch, np.full(len(sizes), -1), cuts)
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
    columns = (pieces.row, pieces.start, pieces.end, pieces.slot)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected

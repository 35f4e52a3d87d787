"""Benchmarks are fair: who comes first, and after whom, changes from round to round."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from tests.benchmarks.test_bench_least_slots import by_turns, least
from tests.benchmarks.turns import in_turn


@pytest.mark.parametrize("count", range(1, 9))
def test_each_way_is_at_each_place_and_after_each_other_as_often(count: int) -> None:
    ways = "abcdefgh"[:count]
    rounds = [in_turn(ways, number) for number in range(count * (1 + count % 2))]
    assert all(sorted(order) == list(ways) for order in rounds)
    times = len(rounds) // count
    at = Counter((place, way) for order in rounds for place, way in enumerate(order))
    assert set(at.values()) == {times}
    after = Counter(pair for order in rounds for pair in pairwise(order))
    assert len(after) == count * (count - 1)
    assert set(after.values()) <= {times}


def test_searches_take_turns_and_find_the_least() -> None:
    needed = {"a": 5, "b": 3, "c": 12, "d": 99}
    asked: list[str] = []

    def holds(way: str, number: int) -> bool:
        asked.append(way)
        return number >= needed[way]

    found = by_turns({way: least(3, 12) for way in needed}, holds)
    assert found == {"a": 5, "b": 3, "c": 12, "d": None}
    assert sorted(asked[:4]) == sorted(needed)
    assert sorted(asked[4:7]) == ["a", "b", "c"]

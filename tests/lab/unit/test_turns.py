"""Benchmarks are fair: who comes first, and after whom, changes from round to round."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from tests.lab.benchmarks import before_after
from tests.lab.benchmarks.test_bench_least_slots import by_turns, least
from tests.lab.benchmarks.turns import in_turn


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


def test_before_and_after_take_turns_and_the_first_runs_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[str] = []
    written: list[dict[str, object]] = []

    def measure(checkout: Path, name: str) -> dict[str, object]:
        ran.append(checkout.name)
        ms = {1: 1.0, 2: 2.0}.get(len(ran), 10.0 if checkout.name == "other" else 20.0)
        return {"rows": [{"case": "first", "ms_min": ms}], "run": {"commit": "abc"}}

    monkeypatch.setattr(before_after, "measure", measure)
    monkeypatch.setattr(before_after, "write", lambda rows, *_: written.extend(rows))
    monkeypatch.setattr(before_after, "ROOT", Path("here"))
    monkeypatch.setattr(sys, "argv", ["before_after", "other", "planner"])
    before_after.main()
    assert ran == ["other", "here", "here", "other", "other", "here"]
    [row] = written
    assert (row["before"], row["after"], row["after/before"]) == (10.0, 20.0, 2.0)

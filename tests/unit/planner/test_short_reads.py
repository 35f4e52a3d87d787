"""Reads of a few milliseconds tell little: their noise must not move or cut anything."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.planner_process import plan as planned

PARTITIONS, RECORDS = 20, 100


def plan(ranges: list[dict[str, Any]], observed: list[dict[str, Any]], state: str | None) -> Any:
    snapshot = {
        "executors": [{"id": i, "host": "h", "slots": 1} for i in "0123"],
        "ranges": ranges,
        "options": {"assignor": "lag-aware-sticky"},
        "observed": observed,
        "state": state,
    }
    return planned(snapshot)


@pytest.mark.parametrize("seed", range(5))
def test_noise_of_short_reads_is_not_chased(seed: int) -> None:
    dice = random.Random(seed)
    state, observed, cuts = None, [], 0
    for batch in range(12):
        first = batch * RECORDS
        answer = plan(
            [
                {"topic": "t", "partition": p, "start": first, "end": first + RECORDS}
                for p in range(PARTITIONS)
            ],
            observed,
            state,
        )
        state = answer["state"]
        cuts += answer["metrics"]["splitPartitions"] if batch else 0
        observed = [
            {
                "topic": "t",
                "partition": r["partition"],
                "executor": task["executor"],
                "records": r["end"] - r["start"],
                "bytes": 100 * (r["end"] - r["start"]),
                "seconds": 0.004 * dice.lognormvariate(0, 0.7),
                "offsets": r["end"] - r["start"],
            }
            for task in answer["tasks"]
            for r in task["ranges"]
        ]
    assert cuts <= 2, f"{cuts} cuts in eleven steady batches"


def test_costs_of_short_reads_are_learned_all_the_same() -> None:
    """Partition 0 costs fifty times as much as the others, two milliseconds a batch at first."""
    state, observed = None, []
    for batch in range(40):
        first = batch * RECORDS
        ranges = [
            {"topic": "t", "partition": p, "start": first, "end": first + RECORDS}
            for p in range(PARTITIONS)
        ]
        answer = plan(ranges, observed, state)
        state = answer["state"]
        observed = [
            {
                "topic": "t",
                "partition": r["partition"],
                "executor": task["executor"],
                "records": r["end"] - r["start"],
                "bytes": 0,
                "seconds": (r["end"] - r["start"]) * (1e-3 if r["partition"] == 0 else 2e-5),
                "offsets": r["end"] - r["start"],
            }
            for task in answer["tasks"]
            for r in task["ranges"]
        ]
    readers = [t["executor"] for t in answer["tasks"] for r in t["ranges"] if r["partition"] == 0]
    assert len(readers) >= 3, "the costly partition is shared by most executors in the end"

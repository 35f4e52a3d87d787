"""A promise of the README (issue 3): the skewed topic is divided into 110,500 and 110,500 records.

Without owners, slots get exactly equal shares; the allowance of `assignor.maxImbalance` only saves
moves and cuts of partitions with owners.
"""

from __future__ import annotations

from tests.support.planner_process import plan as planned

LAGS = [100_000, 60_000, 50_000, 5_000, 3_000, 2_000, 1_000, 0]


def test_the_skewed_topic_is_divided_evenly_in_the_first_batch() -> None:
    snapshot = {
        "executors": [{"id": i, "host": "h", "slots": 1} for i in "01"],
        "ranges": [
            {"topic": "t", "partition": p, "start": 0, "end": lag}
            for p, lag in enumerate(LAGS)
            if lag
        ],
        "options": {"assignor": "lag-aware-sticky"},
        "observed": [],
        "state": None,
    }
    plan = planned(snapshot)
    loads = [sum(r["end"] - r["start"] for r in task["ranges"]) for task in plan["tasks"]]
    assert loads == [110_500, 110_500]
    assert plan["metrics"]["splitPartitions"] == 1

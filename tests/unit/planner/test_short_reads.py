"""The noise of reads of a few milliseconds must not move or cut anything."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from assignor_bridge.model import Executor
from assignor_bridge.options import parse_options
from assignor_bridge.planner.batch import ReadReports, build_batch, encode_names
from assignor_bridge.planner.costs import Weights
from assignor_bridge.planner.flagship import is_short
from assignor_bridge.planner.racks import Replicas
from tests.support.planner_process import plan as planned

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS, RECORDS = 20, 100


def plan(
    ranges: list[dict[str, Any]],
    observed: list[dict[str, Any]],
    state: str | None,
    executors: str = "0123",
    **options: str,
) -> Any:
    snapshot = {
        "executors": [{"id": i, "host": "h", "slots": 1} for i in executors],
        "ranges": ranges,
        "options": {"assignor": "lag-aware-sticky", **options},
        "observed": observed,
        "state": state,
    }
    return planned(snapshot)


def reports(answer: Any, seconds: Callable[[Any], float]) -> list[dict[str, Any]]:
    """Return reports of all ranges of a plan with the given seconds."""
    return [
        {
            "topic": "t",
            "partition": r["partition"],
            "executor": task["executor"],
            "records": r["end"] - r["start"],
            "bytes": 100 * (r["end"] - r["start"]),
            "seconds": seconds(r),
            "offsets": r["end"] - r["start"],
        }
        for task in answer["tasks"]
        for r in task["ranges"]
    ]


@pytest.mark.parametrize("seed", range(5))
def test_noise_of_short_reads_moves_nothing(seed: int) -> None:
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
        observed = reports(answer, lambda r: 0.004 * dice.lognormvariate(0, 0.7))
    assert cuts <= 2, f"{cuts} cuts in eleven steady batches"


def test_costs_of_short_reads_are_learned() -> None:
    """Partition 0 costs fifty times as much as the others, at first 2 ms per batch."""
    state, observed = None, []
    for batch in range(40):
        first = batch * RECORDS
        ranges = [
            {"topic": "t", "partition": p, "start": first, "end": first + RECORDS}
            for p in range(PARTITIONS)
        ]
        answer = plan(ranges, observed, state)
        state = answer["state"]
        observed = reports(
            answer, lambda r: (r["end"] - r["start"]) * (1e-3 if r["partition"] == 0 else 2e-5)
        )
    readers = [t["executor"] for t in answer["tasks"] for r in t["ranges"] if r["partition"] == 0]
    assert len(readers) >= 3, "the costly partition is shared by most executors in the end"


@pytest.mark.parametrize(
    ("sizes", "options", "read"),
    [
        pytest.param([50], {}, {"0": [0]}, id="a few records of one partition are one task"),
        pytest.param([40, 9], {}, {"0": [0], "1": [1]}, id="owners keep uneven ranges"),
        pytest.param([1, 0], {}, {"0": [0]}, id="one record"),
        pytest.param([300, 100], {}, {"0": [0], "1": [0, 1]}, id="more is divided"),
        pytest.param(
            [50], {"minPartitions": "2"}, {"0": [0], "1": [0]}, id="minPartitions asks for more"
        ),
    ],
)
def test_batches_of_milliseconds_are_not_divided(
    sizes: list[int], options: dict[str, str], read: dict[str, list[int]]
) -> None:
    """A record takes 1 ms; dividing 50 records saves less than another task costs."""
    state, observed = None, []
    for first in (0, 1_000, 2_000, 3_000):
        counts = sizes if first == 3_000 else [1_000] * len(sizes)
        ranges = [
            {"topic": "t", "partition": p, "start": first, "end": first + count}
            for p, count in enumerate(counts)
        ]
        answer = plan(ranges, observed, state, executors="01", **options)
        state = answer["state"]
        observed = reports(answer, lambda r: (r["end"] - r["start"]) / 1_000)
    by_executor = {t["executor"]: [r["partition"] for r in t["ranges"]] for t in answer["tasks"]}
    assert by_executor == read
    assert answer["metrics"]["imbalance"] <= 0.05


@pytest.mark.parametrize(
    ("change", "short"),
    [
        pytest.param({}, True, id="a short batch"),
        pytest.param({"work": 0.06}, False, id="a longer one"),
        pytest.param({"basis": "records"}, False, id="no seconds are known"),
        pytest.param({"slowness": 2.0}, False, id="on an executor twice as slow"),
        pytest.param({"backlog": 2.0}, False, id="with as much behind its limit"),
        pytest.param({"racks": True}, False, id="racks"),
        pytest.param({"options": {"minPartitions": "4"}}, False, id="minPartitions"),
    ],
)
def test_is_short(change: dict[str, Any], short: bool) -> None:
    case = {"work": 0.04, "basis": "seconds", "slowness": 1.0, "backlog": 1.0, **change}
    batch = build_batch(
        encode_names(["t"]),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.full(1, 40),
        (Executor("0", "h", 2),),
        options=parse_options({"assignor": "lag-aware-sticky", **case.get("options", {})}),
        reports=ReadReports.empty(),
        parallelism=1,
        replicas=Replicas.of([["a"]], np.zeros(1, np.int64)) if case.get("racks") else None,
    )
    batch = replace(batch, backlog_ratio=case["backlog"])
    slowness, work = np.array([case["slowness"]]), np.array([case["work"]])
    weights = Weights(work, case["basis"], slowness, np.zeros(1), "")
    assert is_short(batch, weights, np.arange(2)) == short

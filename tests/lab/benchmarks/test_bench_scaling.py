"""How the cost of a plan grows with partitions, executors, lag and skew: the exponent of each.

One of them at a time is raised while the others stay at 4,000 partitions, 100 executors of four
slots, 200 records a partition and Zipf's law with an exponent of 0.8. Timed is a plan in steady
state, JSON in to JSON out, as in `planner`: the least of ten runs in a warm process; sizes take
turns, after a round that does not count. `from` and `to` are the ends of what was tried, `ms` the
times there. `exponent` is the slope of a line through the logarithms (for the skew, whose logarithm
means little, of the time over the exponent itself, as a factor for each 1.0 more): 1 says that
twice as much takes twice as long, 0 that it takes no longer. `exponent, upper half` is the slope of
the larger half alone: a fixed cost hides growth where numbers are small. `r2` says how well the
line fits.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson
import pytest

from tests.lab.benchmarks.report import write_report
from tests.lab.benchmarks.test_bench_planner import timed
from tests.lab.benchmarks.turns import SCALE, in_turn
from tests.support.strategies_snapshots import generate_lags

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

SLOTS, TOPICS, ROUNDS = 4, 10, 10


@dataclass(frozen=True)
class Size:
    partitions: int = 4_000
    executors: int = 100
    records: int = 200
    skew: float = 0.8


GRID: dict[str, list[float]] = {
    "partitions": [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000],
    "executors": [12, 25, 50, 100, 200, 400, 800, 1_600],
    "records": [2, 20, 200, 2_000, 20_000, 200_000],
    "skew": [0.0, 0.4, 0.8, 1.2, 1.6, 2.0],
}


def request(size: Size, before: dict[str, Any] | None, seed: int) -> bytes:
    """One snapshot; with the plan before it, its state and a report for each piece."""
    shape = f"zipf-{size.skew}"
    counts = generate_lags(shape, size.partitions, size.records * size.partitions, seed=seed)
    names = [(f"topic-{i % TOPICS}", i // TOPICS) for i in range(size.partitions)]
    ends: dict[tuple[str, int], int] = {}
    observed = []
    for task in before["tasks"] if before else []:
        for r in task["ranges"]:
            tp = (r["topic"], r["partition"])
            ends[tp] = max(ends.get(tp, 0), r["end"])
            count = r["end"] - r["start"]
            report = {"records": count, "bytes": 200 * count, "seconds": 1e-4 * count}
            observed.append(
                {"topic": tp[0], "partition": tp[1], "executor": task["executor"],
                 "offsets": count, **report}
            )  # fmt: skip
    ranges = [
        {"topic": t, "partition": p, "start": ends.get((t, p), 0),
         "end": ends.get((t, p), 0) + count + 1}
        for (t, p), count in zip(names, counts, strict=True)
    ]  # fmt: skip
    members = [
        {"id": str(i), "host": f"h{i // 2}", "slots": SLOTS, "priority": None, "rack": None}
        for i in range(size.executors)
    ]
    return orjson.dumps(
        {
            "executors": members, "ranges": ranges, "observed": observed,
            "options": {"assignor": "lag-aware-sticky"},
            "state": before["state"] if before else None,
        }
    )  # fmt: skip


def least_ms(sizes: list[Size]) -> list[float]:
    """Return the least milliseconds of a plan of each size in steady state; sizes take turns."""
    asked = [request(size, timed(request(size, None, 1), 1)[0], 2) for size in sizes]
    least = [float("inf")] * len(sizes)
    for number in range(ROUNDS + 1):
        for which in in_turn(range(len(sizes)), number):
            _, [took] = timed(asked[which], 1)
            if number > 0:  # the first round warms up
                least[which] = min(least[which], took)
    return least


def slope(x: list[float], y: list[float], factor: bool) -> tuple[float, float]:
    """Return the exponent (or the factor for each 1.0) of a line through logarithms, and its r2."""
    across = np.array(x) if factor else np.log(x)
    up = np.log(y)
    steep, height = np.polyfit(across, up, 1)
    off = up - (steep * across + height)
    r2 = 1 - float((off**2).sum() / max(1e-12, ((up - up.mean()) ** 2).sum()))
    return float(np.exp(steep) if factor else steep), r2


def test_scaling() -> None:
    rows = []
    for what, values in GRID.items():
        ms = least_ms(
            [replace(Size(), **{what: value if what == "skew" else int(value)}) for value in values]
        )
        exponent, r2 = slope(values, ms, what == "skew")
        half = len(values) // 2
        rows.append(
            {
                "grows": {"records": "lag, records a partition"}.get(what, what),
                "from": values[0],
                "to": values[-1],
                "ms, from": ms[0],
                "ms, median": statistics.median(ms),
                "ms, to": ms[-1],
                "exponent": exponent,
                "exponent, upper half": slope(values[half:], ms[half:], what == "skew")[0],
                "r2": r2,
                "ms of each": ", ".join(f"{each:.3g}" for each in ms),
            }
        )
        print(rows[-1], flush=True)
    if SCALE == 1:
        write_report(
            "scaling", title="How the cost of a plan grows", rows=rows, notes=__doc__ or "",
            command="make bench (tests/lab/benchmarks/test_bench_scaling.py)",
        )  # fmt: skip
    of = {row["grows"]: row for row in rows}
    assert of["partitions"]["exponent, upper half"] < 1.2, of["partitions"]

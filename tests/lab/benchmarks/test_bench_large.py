"""One stream of 100,000 partitions, planned for 20, 200 and 2,000 executors, batch after batch.

The planner process alone, started as Java starts it, with packed requests on its stdin as a driver
writes them. Executors have four slots; the partitions, of ten topics, have Zipf 0.8 lags of 50
records on average, shuffled anew (seeded) for each of seven batches. All but the first come with
the state and a report for each piece of the one before; the fifth has lost a tenth of its
executors, and the sixth has them back. Each plan is looked at from outside: every offset of the
batch is in it exactly once, and no slot is more than 5% and a record above the mean.

`stayed` is the share of partitions whose first record is read by the executor that read the last
one before, least of the batches without a change of executors; `stayed, a tenth lost` the same when
they go, of the partitions whose executor is still there. `busiest/ideal` is the busiest slot over
the mean of all, most of the batches. `plan_ms` is from the request's first byte until the answer
is read: the first plan, and the median of the others; `loop_ms` is a fixed piece of plain Python in
the same run, about 30 ms where nothing else runs: with more, the times are of a busy machine. MB
are of the messages (the largest), of the state, and of the process after the last batch (`rss`) and
at most (`peak`).
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import orjson
import pytest

from tests.lab.benchmarks.report import write_report
from tests.lab.benchmarks.test_bench_planner import SLOTS, plain_loop_ms, request
from tests.lab.benchmarks.test_bench_planner_memory import Planner
from tests.lab.benchmarks.turns import SCALE
from tests.support.packed import pack_snapshot, unpack_tasks

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

PARTITIONS = int(100_000 * SCALE)
EXECUTORS = tuple(max(2, int(count * SCALE)) for count in (20, 200, 2_000))
BATCHES, LOSES, IMBALANCE = 7, 4, 0.05
MB = 2**20

Piece = tuple[int, int, str]
Read = dict[tuple[str, int], list[Piece]]


def test_large_streams() -> None:
    rows = [measured(count) for count in EXECUTORS]
    if SCALE == 1:
        write_report(
            "large", title="100,000 partitions, up to 2,000 executors", rows=rows,
            notes=__doc__ or "", command="make bench (tests/lab/benchmarks/test_bench_large.py)",
        )  # fmt: skip
    for row in rows:  # what few records more make: see docs/internals/planner.md
        assert row["stayed"] > 0.9, row


def measured(executors: int) -> dict[str, Any]:
    """Plan all batches; what it took, and how good the plans are."""
    asked_mb, answer_mb, took, over = [], [], [], []
    stayed: dict[int, float] = {}
    before: dict[str, Any] | None = None
    read: Read = {}
    with Planner() as planner:
        planner.ask(1, {"type": "validate", "options": {"assignor": "lag-aware-sticky"}})
        for number in range(BATCHES):
            lost = executors // 10 if number == LOSES else 0
            rows = orjson.loads(request(PARTITIONS, executors, before, lost, seed=number + 1))
            line = {
                "type": "plan",
                **{k: v for k, v in pack_snapshot(rows).items() if k != "options"},
            }
            began = time.perf_counter()
            plan = planner.ask(1, line)
            took.append(1000 * (time.perf_counter() - began))
            asked_mb.append(len(orjson.dumps(line)) / MB)
            answer_mb.append(len(orjson.dumps(plan)) / MB)
            plan["tasks"] = unpack_tasks(plan["tasks"])
            now = pieces(plan)
            assert_each_offset_once(rows["ranges"], now)
            over.append(busiest_over_ideal(plan, executors - lost))
            if number:
                stayed[number] = share_that_stayed(read, now, executors - lost)
            before, read = plan, now
        assert before is not None
        memory = planner.memory()
    usual = [share for number, share in stayed.items() if number not in {LOSES, LOSES + 1}]
    row = {
        "partitions": PARTITIONS,
        "executors": executors,
        "slots": SLOTS * executors,
        "batches": BATCHES,
        "plan_ms, first": took[0],
        "plan_ms, others": statistics.median(took[1:]),
        "loop_ms": plain_loop_ms(),
        "request_mb": max(asked_mb),
        "answer_mb": max(answer_mb),
        "state_mb": len(before["state"]) / MB,
        "rss_mb": memory["rss_mb"],
        "peak_rss_mb": memory["peak_rss_mb"],
        "stayed": min(usual),
        "stayed, a tenth lost": stayed[LOSES],
        "busiest/ideal": max(over),
    }
    print(row, flush=True)
    return row


def pieces(plan: dict[str, Any]) -> Read:
    """Each partition's pieces in the order of their offsets: start, end, executor."""
    found: Read = {}
    for task in plan["tasks"]:
        for r in task["ranges"]:
            piece = (r["start"], r["end"], task["executor"])
            found.setdefault((r["topic"], r["partition"]), []).append(piece)
    for each in found.values():
        each.sort()
    return found


def assert_each_offset_once(ranges: list[dict[str, Any]], read: Read) -> None:
    """Pieces follow each other without a gap or an overlap, from a range's start to its end."""
    assert len(read) == len(ranges)
    for r in ranges:
        each = read[r["topic"], r["partition"]]
        edges = [r["start"], *(end for _, end, _ in each)]
        assert [start for start, _, _ in each] == edges[:-1], (r, each)
        assert edges[-1] == r["end"], (r, each)


def busiest_over_ideal(plan: dict[str, Any], executors: int) -> float:
    """Busiest slot over the mean of all slots, which must be within the bound."""
    assert plan["metrics"]["slots"] == SLOTS * executors
    load = np.zeros((executors, SLOTS))
    for task in plan["tasks"]:
        load[int(task["executor"]), task["slot"]] += sum(
            r["end"] - r["start"] for r in task["ranges"]
        )
    assert load.max() <= (1 + IMBALANCE) * load.mean() + 1, (load.max(), load.mean())
    return float(load.max() / load.mean())


def share_that_stayed(before: Read, now: Read, executors: int) -> float:
    """Of the partitions whose executor is there, those that it goes on with."""
    there = {tp: each[-1][2] for tp, each in before.items() if int(each[-1][2]) < executors}
    return sum(now[tp][0][2] == executor for tp, executor in there.items()) / len(there)

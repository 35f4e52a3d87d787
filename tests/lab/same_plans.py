"""Plan seeded random snapshots, and print each plan as a line, to compare two builds byte by byte.

    python -m tests.lab.same_plans 0 500 > new.txt   # in each source tree
    diff old.txt new.txt

A seed draws a query (executors, racks, options, costs) and up to seven of its batches: each plan
starts from the last plan's state, and simulated readers report what the last plan assigned.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from assignor_bridge.errors import AssignorError
from assignor_bridge.planner.plan import plan_batch
from streaming.human_json.snapshots import parse_snapshot, plan_to_json

_ZONES = ["a", "b", "c", "d"]
_SHAPES = ["equal", "noise", "zipf", "lognormal", "one huge", "huge and tiny", "single", "1 to 3"]
_RARE = ["roundrobin", "sticky", "range", "cooperative-sticky", "streams", "lag-aware"]


def draw_sizes(shape: str, count: int, scale: float, rng: np.random.Generator) -> list[int]:
    """Return the number of offsets of each partition; 0 for some."""
    rank = np.arange(1.0, count + 1)
    sizes = {
        "equal": np.full(count, scale),
        "noise": scale * rng.uniform(0.9, 1.1, count),
        "zipf": scale * rng.permutation(count / rank**1.2),
        "lognormal": scale * rng.lognormal(0, 1.5, count),
        "one huge": np.where(rank == rng.integers(1, count + 1), scale * 1e4, scale),
        "huge and tiny": np.where(rng.random(count) < 0.3, 2.0**58, 1.0),
        "single": np.ones(count),
        "1 to 3": rng.integers(1, 4, count),
    }[shape]
    is_quiet = rng.random(count) < rng.choice([0.0, 0.0, 0.3])
    return [0 if q else max(1, min(2**59, int(n))) for n, q in zip(sizes, is_quiet, strict=True)]


def draw_executors(rng: np.random.Generator, *, has_racks: bool) -> list[dict[str, Any]]:
    """Return executors; few have no rack, a priority, or more slots than the others."""
    slots = int(rng.choice([1, 1, 2, 4, 8]))
    zones = _ZONES[: int(rng.integers(1, 5))]
    has_priorities = rng.random() < 0.3
    executors = []
    for i in range(int(rng.choice([1, 2, 3, 4, 6, 9, 16, 30]))):
        executor: dict[str, Any] = {"id": str(i), "host": f"h{i // 2}", "slots": slots}
        if rng.random() < 0.1:
            executor["slots"] = int(rng.integers(1, 5))
        if has_racks and rng.random() < 0.95:
            executor["rack"] = str(rng.choice(zones))
        if has_priorities:
            executor["priority"] = int(rng.integers(0, 2))
        executors.append(executor)
    return executors


def draw_options(rng: np.random.Generator, total: int) -> dict[str, str]:
    """Return options; `total` is the usual number of offsets of a batch."""
    options: dict[str, Any] = {"assignor": rng.choice(["lag-aware-sticky"] * 8 + ["failover"])}
    if rng.random() < 0.08:
        options["assignor"] = rng.choice(_RARE)
    if rng.random() < 0.3:
        options["assignor.split"] = "false"
    if rng.random() < 0.3:
        options["assignor.maxImbalance"] = rng.choice(["0", "0.001", "0.02", "0.1", "1"])
    if rng.random() < 0.2:
        options["assignor.minRecordsPerTask"] = max(1, int(total * 10 ** rng.uniform(-4, 0)))
    if rng.random() < 0.15 and "assignor.minRecordsPerTask" not in options:
        options["assignor.maxRecordsPerTask"] = max(1, int(total * 10 ** rng.uniform(-3, 0)))
    if rng.random() < 0.15:
        options["minPartitions"] = int(rng.integers(1, 200))
    if rng.random() < 0.2:
        options["assignor.tasksPerSlot"] = int(rng.integers(2, 6))
    if rng.random() < 0.15 and options["assignor"] != "failover":
        options["assignor.slots"] = rng.choice(["50%", "3", "0.3"])
    if rng.random() < 0.1:
        options["assignor.zonePricePerGb"] = rng.choice(["0", "0.000001", "5"])
    if options["assignor"] == "failover" and rng.random() < 0.5:
        options["assignor.priorities"] = "h0=3,h1=2,*=1"
    return {name: str(value) for name, value in options.items()}


def read(plan: dict[str, Any], costs: dict[str, Any], rng: np.random.Generator) -> list[Any]:
    """Return reports of readers that read the plan's tasks."""
    reports = []
    for task in plan["tasks"]:
        executor = task["executor"] or "0"
        for r in task["ranges"]:
            size = r["end"] - r["start"]
            records = max(1, int(size * costs["density"]))
            cost = costs["record"] * costs["partition"].get((r["topic"], r["partition"]), 1.0)
            seconds = (costs["fixed"] + records * cost) * costs["slow"].get(executor, 1.0)
            seconds *= float(np.exp(rng.normal(0, costs["noise"])))
            reports.append(
                {"topic": r["topic"], "partition": r["partition"], "executor": executor,
                 "records": float(records), "bytes": 120.0 * records, "seconds": seconds,
                 "offsets": float(size)}
            )  # fmt: skip
    return reports


def plan_query(seed: int) -> list[str]:
    """Return a line for each planned batch of the query that this seed draws."""
    rng = np.random.default_rng(seed)
    # Every third query has racks and fixed costs of ranges, with which cuts are tried repeatedly.
    is_hard = seed % 3 == 2
    has_racks = bool(rng.random() < 0.55) or is_hard
    executors = draw_executors(rng, has_racks=has_racks)
    count = int(rng.choice([1, 2, 5, 12, 40, 90, 200, 400], p=[0.1] * 4 + [0.2, 0.2, 0.15, 0.05]))
    shape = str(rng.choice(_SHAPES))
    scale = 10 ** rng.uniform(0, 7)
    sizes = draw_sizes(shape, count, scale, rng)
    options = draw_options(rng, sum(sizes))
    if is_hard and seed % 2:
        options = {"assignor": "lag-aware-sticky"}
    names = [("t" if i < count * 0.7 else "u", i) for i in range(count)]
    replication = int(rng.integers(1, 4))
    racks = [
        [str(z) for z in rng.permutation(_ZONES)[:replication]] if rng.random() < 0.95 else []
        for _ in names
    ]
    # From batches far below a second to batches of minutes, with fixed costs up to most of them.
    usual_seconds = 10 ** rng.uniform(-2, 2)
    costs = {
        "record": usual_seconds / max(1, min(sum(sizes), 10**9)),
        "fixed": float(rng.choice([1, 3, 10] if is_hard else [0, 0, 0.3, 1, 3]))
        * usual_seconds
        / count,
        "density": float(rng.choice([1.0, 1.0, 0.5, 0.02])),
        "noise": 0.0 if is_hard else float(rng.choice([0.0, 0.1, 0.3])),
        "partition": {name: float(rng.lognormal(0, 1)) for name in names if rng.random() < 0.3},
        "slow": {"1": 3.0} if rng.random() < 0.3 else {},
    }
    is_dynamic = bool(rng.random() < 0.15)
    reports_costs = is_hard or bool(rng.random() < 0.75)
    position, state, lines = dict.fromkeys(names, 0), None, []
    observed: list[Any] = []
    for step in range(int(rng.integers(5, 8) if is_hard else rng.integers(1, 8))):
        if step and rng.random() < 0.3:  # an executor leaves, joins, or changes
            executors = (
                draw_executors(rng, has_racks=has_racks)
                if rng.random() < 0.3
                else (executors[1:] or executors)
            )
        noisy = [int(n * math.exp(rng.normal(0, 0.2))) if n > 3 else n for n in sizes]
        growth = float(rng.choice([1, 1, 1, 10, 0.1]))
        ends = {
            name: position[name] + (max(1, int(n * growth)) if n else 0)
            for name, n in zip(names, noisy, strict=True)
        }
        snapshot: dict[str, Any] = {
            "executors": executors, "options": options, "observed": observed, "state": state,
            "parallelism": 3,
            "ranges": [
                {"topic": t, "partition": p, "start": position[t, p], "end": ends[t, p],
                 **({"racks": racks[p]} if has_racks else {})}
                for t, p in names
            ],
        }  # fmt: skip
        if is_dynamic:
            snapshot["allocation"] = {
                "minExecutors": 1, "maxExecutors": 12, "slotsPerExecutor": 2,
                "secondsSinceLastPlan": float(rng.choice([1.0, 30.0, 300.0])),
            }  # fmt: skip
        if rng.random() < 0.1:
            snapshot["executors"] = []
        try:
            batch, text = parse_snapshot(snapshot)
            batch = replace(batch, backlog_ratio=float(rng.choice([1.0, 1.0, 4.0])))
            plan = plan_to_json(plan_batch(batch, text))
        except AssignorError as error:
            lines.append(f"{seed}.{step} {type(error).__name__}: {error}")
            continue
        line = json.dumps(plan, sort_keys=True)
        digest = hashlib.sha256(line.encode()).hexdigest()[:16]
        metrics = plan["metrics"]
        lines.append(
            f"{seed}.{step} {digest} {metrics['strategy']} tasks={metrics['tasks']} "
            f"imbalance={metrics['imbalance']} crossed={metrics.get('predictedCrossZoneShare')}"
        )
        state, position = plan["state"], ends
        observed = read(plan, costs, rng) if reports_costs else []
    return lines


if __name__ == "__main__":
    for query in range(int(sys.argv[1]), int(sys.argv[2])):
        print(*plan_query(query), sep="\n", flush=True)

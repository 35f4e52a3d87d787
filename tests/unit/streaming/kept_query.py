"""A query's checkpoint and plan log as its batches leave them: planned, read, reported, planned."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import to_builtins

from assignor_bridge.planner.plan import PlannedBatch, plan_batch
from assignor_bridge.protocol.columns import pack_tasks
from checkpoints.state_text import encode
from streaming.human_json.snapshots import parse_snapshot
from tests.unit.streaming.checkpoints import write_checkpoint

KEPT = 3


@dataclass
class KeptQuery:
    """What a query left behind, and what it had planned."""

    checkpoint: Path
    plan_log: Path
    outcomes: Sequence[PlannedBatch]
    #: Seconds that each partition took, by batch and number.
    took: Sequence[Mapping[int, float]]


def kept_query(
    folder: Path,
    sizes: Sequence[Mapping[int, int]],
    *,
    cost: float = 1e-3,
    costly: Mapping[int, float] | None = None,
    executors: Sequence[Sequence[str]] = (),
    options: Mapping[str, str] | None = None,
    local: bool = False,
    slots: int = 1,
    noise: float = 0.0,
) -> KeptQuery:
    """Run batches of so many records by partition of topic `orders`, and keep what Spark would.

    `executors` are those of each batch, "1" and "2" where nothing is said, with `slots` each; a
    record costs `cost` seconds, multiplied by its factor in `costly`. `noise`:
    relative noise of each piece's seconds. Executors read the pieces of a tail alternately.
    """
    rng = np.random.default_rng(1)
    state, at, observed = None, dict.fromkeys(sizes[0], 0), []
    outcomes, lines, ends, states, took = [], [], [], [], []
    for number, size in enumerate(sizes):
        start = dict(at)
        at = {**at, **{p: at.get(p, 0) + n for p, n in size.items()}}
        present = executors[number] if number < len(executors) else ("1", "2")
        snapshot: dict[str, Any] = {
            "executors": [{"id": e, "host": f"h{e}", "slots": slots} for e in present]
            if not local
            else [],
            "parallelism": slots * len(present),
            "ranges": [
                {"topic": "orders", "partition": p, "start": start.get(p, 0), "end": at[p]}
                for p, n in size.items() if n
            ],
            "options": {"assignor": "lag-aware-sticky", **(options or {})},
            "observed": observed,
            "state": state,
        }  # fmt: skip
        outcome = plan_batch(*parse_snapshot(snapshot))
        factors = np.exp(rng.normal(0, noise, len(outcome.tasks.pieces)))
        observed, seconds = _read(outcome, cost, costly or {}, factors.tolist())
        state = encode(outcome.state)
        tasks = to_builtins(pack_tasks(outcome), str_keys=True)
        plan = {"tasks": tasks, "reasons": list(outcome.reasons)}
        lines.append(json.dumps({"batchId": number, "snapshot": snapshot, "plan": plan}))
        outcomes.append(outcome)
        ends.append({"orders": dict(at)})
        states.append(state)
        took.append(seconds)
    checkpoint = write_checkpoint(folder / "checkpoint", ends)
    kept = checkpoint / "sources" / "0" / "assignments"
    kept.mkdir()
    for number, text in [*enumerate(states, 40)][-KEPT:]:  # files have numbers of their own
        (kept / f"{number}.v2").write_text(text)
    plan_log = folder / "plans.jsonl"
    plan_log.write_text("\n".join([*lines, lines[-1][:40]]))
    return KeptQuery(checkpoint, plan_log, outcomes, took)


def _read(
    outcome: PlannedBatch, cost: float, costly: Mapping[int, float], factors: Sequence[float]
) -> tuple[list[dict[str, Any]], dict[int, float]]:
    """Report what reading each piece of a plan took."""
    batch, tasks = outcome.batch, outcome.tasks
    pieces, reports, took = tasks.pieces, [], dict[int, float]()
    columns = (pieces.row, pieces.slot, pieces.start, pieces.end, tasks.task)
    for row, slot, start, end, task, factor in zip(
        *(c.tolist() for c in columns), factors, strict=True
    ):
        partition, records = int(batch.partition[row]), end - start
        seconds = records * cost * costly.get(partition, 1.0) * factor
        took[partition] = took.get(partition, 0.0) + seconds
        is_in_tail, executors = task >= tasks.head_count, len(batch.executors)
        index = task % executors if is_in_tail else int(batch.slot_executor[slot])
        executor = batch.executors[index].id
        reports.append(
            {
                "topic": "orders", "partition": partition, "executor": executor,
                "records": records, "bytes": 100 * records, "seconds": seconds, "offsets": records,
            }
        )  # fmt: skip
    return reports, took

"""The recipe: predict, find owners, place, pack, check, remember, explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.model import OffsetRange, Plan, Task
from assignor_bridge.options import parse_options
from assignor_bridge.planner.batch import from_snapshot
from assignor_bridge.planner.check import check
from assignor_bridge.planner.owners import owners
from assignor_bridge.planner.pack import Tasks, pack
from assignor_bridge.planner.pieces import assemble
from assignor_bridge.planner.place import place
from assignor_bridge.planner.remember import remember
from checkpoints.sticky_state import StateError, StickyState, decode, encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignor_bridge.model import Snapshot
    from assignor_bridge.planner.batch import Batch


@dataclass(frozen=True, eq=False)
class Outcome:
    """A plan as columns, with what to remember and why it is so."""

    assignor: str
    batch: Batch
    tasks: Tasks
    #: Executor ids by task, in order of preference; tasks without any are left out.
    standbys: Mapping[int, tuple[str, ...]]
    state: StickyState
    metrics: Mapping[str, str | int | float]
    reasons: tuple[str, ...]


def plan(snapshot: Snapshot) -> Plan:
    """Plan one micro-batch: which executor slot reads which offsets.

    Raises
    ------
    OptionError
        For options or data that the user must change.
    PlanError
        When an assignor's answer breaks the rules.
    """
    outcome = plan_batch(from_snapshot(snapshot), snapshot.state)
    batch, tasks = outcome.batch, outcome.tasks
    ranges: list[list[OffsetRange]] = [[] for _ in range(len(tasks))]
    pieces = tasks.pieces
    for task, row, start, end in zip(
        tasks.task.tolist(), pieces.row.tolist(), pieces.start.tolist(), pieces.end.tolist(),
        strict=True,
    ):  # fmt: skip
        topic = batch.topics[batch.topic[row]]
        ranges[task].append(OffsetRange(topic, int(batch.partition[row]), start, end))
    executor = [
        None if batch.anonymous else batch.executors[e].id
        for e in batch.slot_executor[tasks.slot].tolist()
    ]
    return Plan(
        outcome.assignor,
        tuple(
            Task(executor[i], int(tasks.number[i]), tuple(ranges[i]), outcome.standbys.get(i, ()))
            for i in range(len(tasks))
        ),
        encode(outcome.state),
        outcome.metrics,
        outcome.reasons,
    )


def plan_batch(batch: Batch, state_text: str | None) -> Outcome:
    """Plan columns, for the worker and the simulator: see `plan`."""
    options = parse_options(batch.options)
    reasons: list[str] = []
    metrics: dict[str, str | int | float] = {}
    state = StickyState.empty()
    if state_text:
        try:
            state = decode(state_text)
        except StateError as error:
            metrics["stateWarning"] = str(error)
            reasons.append(f"planned without memory: {error}")
    weights = batch.size.astype(np.float64)
    owner = owners(batch, state)
    capacity = np.full(batch.slots, max(weights.sum(), 1e-300) / batch.slots)
    whole, cuts = place(weights, owner, capacity, batch.slot_executor, options.max_imbalance)
    pieces = assemble(batch, whole, cuts)
    tasks = pack(batch, pieces, weights)
    name = options.assignors[0]
    check(name, batch, tasks.pieces, tasks.task, len(tasks))
    state = remember(batch, tasks, state)
    load = np.bincount(pieces.slot, pieces.weight(batch, weights), batch.slots)
    head = np.concatenate(([True], pieces.row[1:] != pieces.row[:-1])) if len(pieces) else []
    before = batch.slot_executor[owner[owner >= 0]]
    after = batch.slot_executor[pieces.slot[head][owner >= 0]]
    metrics |= {
        "strategy": name,
        "generation": state.generation,
        "tasks": len(tasks),
        "executors": len(np.unique(batch.slot_executor[tasks.slot])),
        "splitPartitions": len(cuts),
        "movedPartitions": int((before != after).sum()),
        "imbalance": float(load.max() / capacity[0] - 1) if len(pieces) else 0.0,
    }
    return Outcome(name, batch, tasks, {}, state, metrics, tuple(reasons))


def check_names(options: object) -> None:
    """Refuse assignors that nobody knows, before the first batch."""

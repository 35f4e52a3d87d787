"""The last gate: a plan that loses, repeats or invents an offset never leaves the planner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.errors import PlanError
from assignor_bridge.planner.ordering import sorting

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Batch, Ints
    from assignor_bridge.planner.pieces import Pieces

_RULE = "A plan must read each offset exactly once."


def check(name: str, batch: Batch, pieces: Pieces, task: Ints, tasks: int) -> None:
    """Pieces tile the ranges, none is empty, no task is empty; else `PlanError`.

    Parameters
    ----------
    name
        Assignor that planned, for the message.
    task
        Task of each piece.
    tasks
        Number of tasks.
    """
    order = sorting((pieces.start,), pieces.row)
    row, start, end = pieces.row[order], pieces.start[order], pieces.end[order]
    empty = np.flatnonzero(end <= start)
    if len(empty):
        _fail(name, batch, int(row[empty[0]]), "has an empty piece")
    counts = np.bincount(row, minlength=batch.ranges)
    if len(counts) > batch.ranges:
        raise PlanError(f"assignor {name!r} planned a range that was not asked for. {_RULE}")
    missing = np.flatnonzero(counts == 0)
    if len(missing):
        _fail(name, batch, int(missing[0]), "is read by nobody")
    first = np.concatenate(([True], row[1:] != row[:-1])) if len(row) else np.empty(0, np.bool_)
    expected = np.where(first, batch.start[row], np.concatenate((start[:1], end[:-1])))
    wrong = np.flatnonzero(start != expected)
    if len(wrong):
        i = int(wrong[0])
        what = "repeats" if start[i] < expected[i] else "loses"
        _fail(name, batch, int(row[i]), f"{what} offsets between {expected[i]} and {start[i]}")
    last = np.concatenate((first[1:], [True])) if len(row) else first
    short = np.flatnonzero(last & (end != batch.end[row]))
    if len(short):
        i = int(short[0])
        _fail(name, batch, int(row[i]), f"ends at {end[i]} and not at {batch.end[row[i]]}")
    used = np.bincount(task, minlength=tasks) if len(task) else np.zeros(tasks, np.int64)
    if len(used) != tasks or (used == 0).any():
        raise PlanError(f"assignor {name!r} planned a task that reads nothing. {_RULE}")


def _fail(name: str, batch: Batch, row: int, what: str) -> None:
    asked = f"[{batch.start[row]},{batch.end[row]})"
    raise PlanError(f"assignor {name!r}: the plan for {batch.name(row)}{asked} {what}. {_RULE}")

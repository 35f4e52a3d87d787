"""The last gate: a plan that loses, repeats or invents an offset never leaves the planner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.errors import PlanError
from assignor_bridge.planner.batch import argsort_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from assignor_bridge.planner.batch import Flags, Ints, MicroBatch
    from assignor_bridge.planner.pieces import Pieces

_RULE = "A plan must read each offset exactly once."


def check_plan(name: str, batch: MicroBatch, pieces: Pieces, task: Ints, tasks: int) -> None:
    """Raise `PlanError` unless the pieces tile the ranges, and none and no task is empty.

    Parameters
    ----------
    name
        Assignor that planned, for the message.
    task
        Task of each piece.
    """
    pieces = pieces.take(argsort_rows((pieces.start,), pieces.row))
    row, start, end = pieces.row, pieces.start, pieces.end
    if len(row) and row[-1] >= batch.ranges:
        raise PlanError(f"assignor {name!r} planned a range that was not asked for. {_RULE}")

    def refuse(wrong: Flags, what: Callable[[int], str], rows: Ints = row) -> None:
        for i in np.flatnonzero(wrong)[:1].tolist():
            asked = f"[{batch.start[rows[i]]},{batch.end[rows[i]]})"
            raise PlanError(
                f"assignor {name!r}: the plan for {batch.name(rows[i])}{asked} {what(i)}. {_RULE}"
            )

    refuse(end <= start, lambda _: "has an empty piece")
    unread = np.bincount(row, minlength=batch.ranges) == 0
    refuse(unread, lambda _: "is read by nobody", np.arange(batch.ranges))
    first = np.append(True, row[1:] != row[:-1])
    due = np.where(first[: len(row)], batch.start[row], np.append(0, end)[: len(row)])
    refuse(start < due, lambda i: f"repeats offsets between {due[i]} and {start[i]}")
    refuse(start > due, lambda i: f"loses offsets between {due[i]} and {start[i]}")
    last = np.append(first[1:], True)[: len(row)]
    wrong_end = last & (end != batch.end[row])
    refuse(wrong_end, lambda i: f"ends at {end[i]} and not at {batch.end[row[i]]}")
    used = np.bincount(task, minlength=tasks)
    if len(used) != tasks or (used == 0).any():
        raise PlanError(f"assignor {name!r} planned a task that reads nothing. {_RULE}")

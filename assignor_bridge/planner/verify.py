"""Check a plan before it leaves the planner: it must neither lose, repeat, nor add offsets."""

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


def check_plan(name: str, batch: MicroBatch, pieces: Pieces, task: Ints, task_count: int) -> None:
    """Raise `PlanError` if pieces do not tile the ranges, or a piece or task is empty or unknown.

    Messages have the assignor's `name`. `task` is each piece's task, a number below `task_count`.
    """
    pieces = pieces.take(argsort_rows((pieces.start,), pieces.row))
    row, start, end = pieces.row, pieces.start, pieces.end
    if len(row) and row[-1] >= batch.range_count:
        raise PlanError(f"assignor {name!r} planned a range that was not requested. {_RULE}")

    def refuse(is_wrong: Flags, describe: Callable[[int], str], rows: Ints = row) -> None:
        for i in np.flatnonzero(is_wrong)[:1].tolist():
            partition = batch.format_partition(rows[i])
            offsets = f"offsets {batch.start[rows[i]]} to {batch.end[rows[i]] - 1}"
            raise PlanError(
                f"assignor {name!r}: the plan for {partition} {offsets} {describe(i)}. {_RULE}"
            )

    refuse(end <= start, lambda _: "has an empty piece")
    is_unread = np.bincount(row, minlength=batch.range_count) == 0
    refuse(is_unread, lambda _: "is missing", np.arange(batch.range_count))
    is_first = np.append(True, row[1:] != row[:-1])
    due_start = np.where(is_first[: len(row)], batch.start[row], np.append(0, end)[: len(row)])
    repeated_end = np.minimum(end, due_start)
    is_early = start < batch.start[row]
    refuse(is_early, lambda i: f"starts at {start[i]} instead of {batch.start[row[i]]}")
    refuse(start < due_start, lambda i: f"repeats offsets {start[i]} to {repeated_end[i] - 1}")
    refuse(start > due_start, lambda i: f"loses offsets {due_start[i]} to {start[i] - 1}")
    is_last = np.append(is_first[1:], True)[: len(row)]
    has_wrong_end = is_last & (end != batch.end[row])
    refuse(has_wrong_end, lambda i: f"ends at {end[i]} instead of {batch.end[row[i]]}")
    piece_counts = np.bincount(task, minlength=task_count)
    if len(piece_counts) != task_count or (piece_counts == 0).any():
        problem = "an unknown task" if len(piece_counts) > task_count else "an empty task"
        raise PlanError(f"assignor {name!r} planned {problem}. {_RULE}")

"""The tasks of a batch as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Ints, MicroBatch
    from assignor_bridge.planner.pieces import Pieces
    from assignor_bridge.planner.tail import TailCut


@dataclass(frozen=True, eq=False)
class TaskList:
    """Tasks as columns, and their pieces in the order in which they are read."""

    pieces: Pieces
    #: Task of each piece, ascending.
    task: Ints
    #: Slot (over all executors) of each task.
    slot: Ints
    #: Number of the task's consumer on the executor: the slot's number for a slot's first task,
    #: plus the executor's number of slots for each additional task; -1 for tail tasks.
    consumer: Ints
    #: Index of the executor of each task; -1 if the task may run anywhere.
    executor: Ints
    #: Sentences about options that require too many tasks.
    notes: tuple[str, ...] = ()
    #: Predicted seconds of each tail task, longest first. Tail tasks are the last tasks.
    tail_seconds: tuple[float, ...] = ()
    #: Indices of the executors that each tail task prefers alike; empty in local mode.
    tail_executors: tuple[tuple[int, ...], ...] = ()

    def __len__(self) -> int:
        return len(self.slot)

    @property
    def head_count(self) -> int:
        """Number of tasks before the tail tasks."""
        return len(self) - len(self.tail_seconds)


def append_tail(batch: MicroBatch, heads: TaskList, cut: TailCut) -> TaskList:
    """Return the tasks of the heads, followed by those of the tail, which any free slot takes.

    A tail task's slot is the one that its first piece was cut from.
    """
    no_index = np.full(cut.task_count, -1)
    first_piece = np.searchsorted(cut.task, np.arange(cut.task_count))
    return TaskList(
        heads.pieces.append(cut.pieces),
        np.append(heads.task, len(heads) + cut.task),
        np.append(heads.slot, cut.pieces.slot[first_piece]),
        np.append(heads.consumer, no_index),
        np.append(heads.executor, no_index),
        heads.notes,
        cut.seconds,
        ((),) * cut.task_count if batch.anonymous else cut.executors,
    )

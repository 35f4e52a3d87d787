"""Packing: how the pieces of each slot become Spark tasks.

One task a slot unless an option asks for others. In order: no task above `maxRecordsPerTask`, at
least `minPartitions` tasks, none below `minRecordsPerTask` as long as there is another to join it
to, at most `tasksPerSlot` tasks a slot where the options before it allow. Tasks come out longest
first, so that what Spark starts last is short.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Batch, Floats, Ints
    from assignor_bridge.planner.pieces import Pieces


@dataclass(frozen=True, eq=False)
class Tasks:
    """Tasks as columns, and the pieces in the order in which they are listed and read."""

    pieces: Pieces
    #: Task of each piece: rises.
    task: Ints
    #: Slot (over all executors) of each task, and the number that names its consumer.
    slot: Ints
    number: Ints

    def __len__(self) -> int:
        return len(self.slot)


def pack(batch: Batch, pieces: Pieces, weights: Floats) -> Tasks:
    """One task a slot, longest first."""
    work = np.bincount(pieces.slot, pieces.weight(batch, weights), batch.slots)
    used = np.flatnonzero(np.bincount(pieces.slot, minlength=batch.slots))
    slots = used[np.lexsort((used, -work[used]))]
    index = np.full(batch.slots, -1, np.int64)
    index[slots] = np.arange(len(slots))
    task = index[pieces.slot]
    order = np.lexsort((pieces.start, pieces.row, task))
    ordered = type(pieces)(
        pieces.row[order], pieces.start[order], pieces.end[order], pieces.slot[order]
    )
    return Tasks(ordered, task[order], slots, batch.slot_number[slots])

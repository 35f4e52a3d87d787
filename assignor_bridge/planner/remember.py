"""Build the next state: which slot reads each partition now, and what was learned."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.zones import find_last_near_pieces
from checkpoints.sticky_state import MAX_INT32, MIN_HOLD, StickyState

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import MicroBatch
    from assignor_bridge.planner.flagship import Placement
    from assignor_bridge.planner.table import PartitionTable
    from assignor_bridge.planner.task_list import TaskList

#: Maximum number of batches without data before a partition is forgotten. It is always used with
#: group assignors, because they also assign partitions without data.
MAX_HOLD_BATCHES = 10_000


def remember(
    batch: MicroBatch,
    table: PartitionTable,
    learned_state: StickyState,
    placement: Placement,
    tasks: TaskList,
    *,
    calm_streak: int,
) -> StickyState:
    """Return the next state; increase its generation if members or partitions changed.

    A partition's member is now the slot of its last piece (with zones, its last near piece if any).
    """
    member, position = placement.slot_of_line.copy(), learned_state.position.copy()
    last_batch_with_data, pieces = learned_state.seen.copy(), tasks.pieces
    last_pieces = np.flatnonzero(pieces.end == batch.end[pieces.row])
    line = table.line[pieces.row[last_pieces]]
    member[line] = pieces.slot[last_pieces]
    near_pieces = find_last_near_pieces(batch, pieces)
    member[table.line[pieces.row[near_pieces]]] = pieces.slot[near_pieces]
    position[line] = pieces.end[last_pieces]
    last_batch_with_data[line] = learned_state.batches + 1
    return replace(
        learned_state,
        generation=min(learned_state.generation + table.changed, MAX_INT32),
        batches=min(learned_state.batches + 1, MAX_INT32),
        paces=dict(sorted(learned_state.paces.items())),
        member=member,
        position=position,
        seen=last_batch_with_data,
        calm=calm_streak,
        hold=_compute_hold(table, batch),
    )


def _compute_hold(table: PartitionTable, batch: MicroBatch) -> int:
    """Return the number of batches without data after which a partition is forgotten.

    It is twice the longest absence that ended in this batch, at least `MIN_HOLD` and at most
    `MAX_HOLD_BATCHES`, so that quiet partitions keep their reader and deleted ones are dropped. It
    decreases by at most 1 per batch. A returning partition that was forgotten has a start above 0
    and a lower number than a remembered partition of its topic: Kafka's numbers have no gaps.
    """
    state, is_new = table.state, ~table.was_known[table.line]
    batch_number = state.batches + 1
    absent_batches = batch_number - int(state.seen[table.line[~is_new]].min(initial=batch_number))
    new_key, old_key = table.key[table.line[is_new & (batch.start > 0)]], table.key[table.was_known]
    if len(new_key) and len(old_key):
        next_key = old_key[np.minimum(np.searchsorted(old_key, new_key), len(old_key) - 1)]
        if ((next_key > new_key) & (next_key >> 32 == new_key >> 32)).any():
            absent_batches = max(absent_batches, min(state.hold + 1, state.batches))
    return min(max(2 * absent_batches, state.hold - 1, MIN_HOLD), MAX_HOLD_BATCHES)

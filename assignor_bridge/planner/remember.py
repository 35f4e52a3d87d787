"""The state to hand back with the next batch: who reads what now, and what was learned."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.zones import last_near
from checkpoints.sticky_state import MAX_INT32, MIN_HOLD, StickyState

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Batch
    from assignor_bridge.planner.demand import Demand
    from assignor_bridge.planner.flagship import Placement
    from assignor_bridge.planner.pack import Tasks
    from assignor_bridge.planner.table import PartitionTable

#: Batches without data after which a partition is forgotten, at most. Where an assignor plans
#: partitions without data too, they always hold their place for so long.
HOLD_PLACE_BATCHES = 10_000


def remember(  # noqa: PLR0917
    batch: Batch,
    table: PartitionTable,
    learned: StickyState,
    demand: Demand,
    placement: Placement,
    tasks: Tasks,
) -> StickyState:
    """Make the next state. Its generation rises when members or partitions changed."""
    member, position = placement.slot_of_line.copy(), learned.position.copy()
    seen, pieces = learned.seen.copy(), tasks.pieces
    last = np.flatnonzero(pieces.end == batch.end[pieces.row])
    line = table.line[pieces.row[last]]
    member[line] = pieces.slot[last]
    near = last_near(batch, pieces)
    member[table.line[pieces.row[near]]] = pieces.slot[near]
    position[line] = pieces.end[last]
    seen[line] = learned.batches + 1
    return replace(
        learned,
        generation=min(learned.generation + table.changed, MAX_INT32),
        batches=min(learned.batches + 1, MAX_INT32),
        paces=dict(sorted(learned.paces.items())),
        member=member,
        position=position,
        seen=seen,
        calm=demand.calm,
        hold=_hold(table, batch),
    )


def _hold(table: PartitionTable, batch: Batch) -> int:
    """Return for how many batches partitions without data will be remembered.

    Twice as long as any was away that came back of late, so that quiet ones find their reader
    again, and what is gone for good does not stay. One that was forgotten is known by its offset
    and by its number: it has been read from, and Kafka numbers a topic's partitions without gaps,
    so it was there when a higher one was.
    """
    before, new = table.state, ~table.known[table.line]
    away = before.batches + 1 - int(before.seen[table.line[~new]].min(initial=before.batches + 1))
    key, old = table.key[table.line[new & (batch.start > 0)]], table.key[table.known]
    if len(key) and len(old):
        higher = old[np.minimum(np.searchsorted(old, key), len(old) - 1)]
        if ((higher > key) & (higher >> 32 == key >> 32)).any():
            away = max(away, min(before.hold + 1, before.batches))
    return min(max(2 * away, before.hold - 1, MIN_HOLD), HOLD_PLACE_BATCHES)

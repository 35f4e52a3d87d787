"""The flagship's strategy: which slots take part, how much each should do, and the placement.

`failover` is the same on fewer executors: those of the best class that is present.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.whole import place_whole
from assignor_bridge.planner.groups import priority
from assignor_bridge.planner.pack import slots_worth_using
from assignor_bridge.planner.pieces import Pieces, cut, whole
from assignor_bridge.planner.place import place
from assignor_bridge.planner.top_up import top_up

if TYPE_CHECKING:
    from assignor_bridge.options import PlannerOptions
    from assignor_bridge.planner.batch import Batch, Flags, Floats, Ints
    from assignor_bridge.planner.weights import Weights

#: Times that whole ranges are placed on fewer slots, for `minRecordsPerTask`.
_MOST_TRIES = 8


@dataclass(frozen=True, eq=False)
class Placement:
    """Pieces, and the ideal that they are measured against."""

    pieces: Pieces
    #: Work that each slot would do in the ideal case; 0 for slots that do not take part.
    share: Floats
    notes: tuple[str, ...] = ()


def place_batch(  # noqa: PLR0917
    batch: Batch,
    weights: Weights,
    owner: Ints,
    options: PlannerOptions,
    failover: bool,
    in_use: Flags,
) -> Placement:
    """Place all ranges; see `place` and `assignors.whole` for the promises.

    Parameters
    ----------
    owner
        Slot that read each range's partition last, -1 for none.
    failover
        Only executors of the highest priority take part.
    in_use
        Slots that take part, as long as those of the highest priority are among them.
    """
    takes_part, notes = _best_class(batch, options) if failover else _everybody(batch)
    if (takes_part & in_use).any():
        takes_part = takes_part & in_use
    least = options.min_records_per_task
    count = min(slots_worth_using(batch, options), int(takes_part.sum()))
    if batch.ranges == 0:
        return Placement(whole(batch, owner), np.zeros(batch.slots), notes)
    ranked = _most_owned_first(batch, weights, owner, takes_part)
    placement = _place_on(np.sort(ranked[:count]), batch, weights, owner, options)
    if least and options.split:
        placement = replace(placement, pieces=top_up(batch, placement.pieces, least))
    elif least:
        # Whole ranges cannot be topped up: fewer slots have more each.
        for attempt in range(1, _MOST_TRIES + 1):
            count -= attempt * _slots_too_many(placement.pieces, least)
            if count < 1 or count == np.count_nonzero(placement.share):
                break
            placement = _place_on(np.sort(ranked[:count]), batch, weights, owner, options)
    return replace(placement, notes=notes)


def _place_on(
    slots: Ints, batch: Batch, weights: Weights, owner: Ints, options: PlannerOptions
) -> Placement:
    """Place all ranges on some of the slots."""
    speed = 1 / weights.slowness[batch.slot_executor[slots]]
    share = np.zeros(batch.slots)
    share[slots] = float(weights.work.sum()) * speed / speed.sum()
    local = np.full(batch.slots + 1, -1, np.int64)
    local[slots] = np.arange(len(slots))
    known = (weights.work, local[owner], share[slots], batch.slot_executor[slots])
    if options.split:
        pieces = cut(batch, place(*known, options.max_imbalance))
    else:
        pieces = whole(batch, place_whole(*known, options.max_imbalance))
    return Placement(Pieces(pieces.row, pieces.start, pieces.end, slots[pieces.slot]), share)


def _slots_too_many(pieces: Pieces, least: int) -> int:
    """Count the slots that have to go so that the others have enough records; roughly."""
    records = np.bincount(pieces.slot, (pieces.end - pieces.start).astype(np.float64))
    missing = least - records[(records > 0) & (records < least)]
    return math.ceil(float(missing.sum()) / least)


def shares(batch: Batch, weights: Weights) -> Floats:
    """Fair share of the work for each slot: all of it, divided by speed."""
    speed = 1 / weights.slowness[batch.slot_executor]
    return np.asarray(float(weights.work.sum()) * speed / speed.sum())


def bound_seconds(batch: Batch, weights: Weights, share: Floats, split: bool) -> float:
    """Give the time that no plan can beat, in units of work on a usual executor.

    All work evenly over the speeds, or the largest indivisible part on the fastest slot: a single
    offset, or without splitting a whole range.
    """
    slots = np.flatnonzero(share > 0)
    if not batch.ranges or not len(slots):
        return 0.0
    slowness = weights.slowness[batch.slot_executor[slots]]
    even = float(weights.work.sum()) / float((1 / slowness).sum())
    parts = weights.work / batch.size if split else weights.work
    return max(even, float(parts.max()) * float(slowness.min()))


def _everybody(batch: Batch) -> tuple[Flags, tuple[str, ...]]:
    return np.ones(batch.slots, np.bool_), ()


def _best_class(batch: Batch, options: PlannerOptions) -> tuple[Flags, tuple[str, ...]]:
    """Keep the slots of the executors with the highest priority; none given ranks below all."""
    ranks = [(p is not None, p or 0) for p in (priority(e, options) for e in batch.executors)]
    best = max(ranks)
    flags = np.array([rank == best for rank in ranks], np.bool_)
    level = f"priority {best[1]}" if best[0] else "no priority"
    note = f"failover: {int(flags.sum())} of {len(ranks)} executors, those with {level}, read all"
    return flags[batch.slot_executor], (note,)


def _most_owned_first(batch: Batch, weights: Weights, owner: Ints, takes_part: Flags) -> Ints:
    """Rank the slots that take part: first those that own most, then spread over executors."""
    slots = np.flatnonzero(takes_part)
    owned = owner >= 0
    has = np.bincount(owner[owned], weights.work[owned], batch.slots)[slots]
    return np.asarray(slots[np.lexsort((slots, batch.slot_number[slots], -has))])

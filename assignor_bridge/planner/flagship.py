"""The flagship's strategy: which slots take part, how much each should do, and the placement.

`failover` is the same on fewer executors: those of the best class that is present.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from operator import itemgetter
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
#: Times that ranges are cut, where pieces have a cost of their own.
_MOST_CUT_TRIES = 3


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
    fair, executor = share[slots], batch.slot_executor[slots]
    if options.split:
        pieces = _cut_well(batch, weights, local[owner], fair, executor, options.max_imbalance)
    else:
        slot = place_whole(weights.work, local[owner], fair, executor, options.max_imbalance)
        pieces = whole(batch, slot)
    return Placement(Pieces(pieces.row, pieces.start, pieces.end, slots[pieces.slot]), share)


def _cut_well(  # noqa: PLR0917
    batch: Batch,
    weights: Weights,
    owner: Ints,
    fair: Floats,
    executor: Ints,
    max_imbalance: float,
) -> Pieces:
    """Place with splitting, where each further piece of a range costs its fixed part again.

    In most batches that is within the allowance. In small ones ranges that were cut are placed
    anew as so much more work, and not cut into less than a piece costs by itself.
    """
    extra, least = np.zeros(batch.ranges), 0.0
    tried: list[tuple[float, Pieces]] = []
    for _ in range(_MOST_CUT_TRIES):
        work = weights.work + extra
        goal = fair * float(work.sum() / weights.work.sum())
        shares = place(work, owner, goal, executor, max_imbalance, least)
        pieces = cut(batch, shares, weights.fixed)
        seconds = pieces.weight(batch, weights.work, weights.fixed)
        busiest = float((np.bincount(pieces.slot, seconds, len(fair)) / fair).max())
        tried.append((busiest, pieces))
        extra = weights.fixed * (np.bincount(pieces.row) - 1)
        least = float(weights.fixed.mean())
        if busiest <= 1 + max_imbalance or not extra.any():
            break
    return min(tried, key=itemgetter(0))[1]


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
    offset and what a piece costs by itself, or without splitting a whole range.
    """
    slots = np.flatnonzero(share > 0)
    if not batch.ranges or not len(slots):
        return 0.0
    slowness = weights.slowness[batch.slot_executor[slots]]
    even = float(weights.work.sum()) / float((1 / slowness).sum())
    fixed, parts = weights.fixed, weights.work
    if split:
        parts = fixed + (parts - fixed) / batch.size
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

"""The flagship's strategy: which slots take part, how much each should do, and the placement.

`failover` is the same on fewer executors: those of the best class that is present.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.whole import place_whole
from assignor_bridge.planner.pieces import Pieces, cut_ranges
from assignor_bridge.planner.place import place
from assignor_bridge.planner.zones import compute_nearness, place_in_zones, place_whole_in_zones

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from assignor_bridge.assignors.registry import Choice
    from assignor_bridge.model import Executor
    from assignor_bridge.planner.batch import Flags, Floats, Ints, MicroBatch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.demand import Demand
    from assignor_bridge.planner.table import PartitionTable
    from assignor_bridge.planner.zones import Nearness

FAILOVER = "failover"
#: Predicted seconds of all work up to which ranges stay whole and with their owners: no plan could
#: save more than a further task costs Spark.
SHORT_BATCH_S = 0.05
#: Times that whole ranges are placed on fewer slots, for `minRecordsPerTask`.
_MOST_TRIES = 9
#: Times that ranges are cut, where pieces have a cost of their own.
_MOST_CUT_TRIES = 3
#: Beyond the allowance for zones' sake, in small batches where each further piece costs something.
_MOST_FOR_ZONES = 0.01


@dataclass(frozen=True, eq=False)
class Placement:
    """Who reads what, before it is packed, and why."""

    assignor: str
    pieces: Pieces
    #: Time that no placement of divisible ranges can beat on the slots that took part, in units of
    #: work.
    bound: float
    #: Slot of each line of the table, for partitions without data in this batch.
    slot_of_line: Ints
    #: One line a fact for people: about slots, and about assignors that were passed over.
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    #: Executor ids where a slot's partitions have standby copies, most wanted first.
    standbys: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    #: Tells an own assignor that has `on_assignment` what the members got, at this generation.
    on_assignment: Callable[[int], None] | None = None


def place_batch(
    choice: Choice, batch: MicroBatch, table: PartitionTable, weights: Weights, demand: Demand
) -> Placement:
    """Place all ranges; see `place` and `assignors.whole` for the promises.

    `choice` is of `lag-aware-sticky` or `failover`. Slots in demand take part, as long as those of
    the highest priority are among them.
    """
    name, notes, in_use = choice.assignor.name, [*demand.gathering], demand.in_use
    owner = table.range_owner
    takes_part = np.ones(batch.slots, np.bool_)
    if name == FAILOVER:
        takes_part, note = _select_best_class(batch)
        notes.append(note)
    if (takes_part & in_use).any():
        takes_part &= in_use
    least, split = batch.settings.min_records_per_task or 1, batch.settings.split
    ranked = _rank_slots(batch, weights, owner, np.flatnonzero(takes_part))
    count = int(max(1, min(len(ranked), batch.total // least)))
    for attempt in range(1, _MOST_TRIES + 1):
        slots = np.sort(ranked[:count])
        pieces = _place_on_slots(slots, batch, weights, owner)
        records = pieces.records_by_slot(batch.slots)
        missing = least - records[(records > 0) & (records < least)]
        count -= attempt * math.ceil(missing.sum() / least)
        if split or count < 1 or count == len(slots):
            break  # `pack` tops slots up where ranges may be cut; else fewer slots have more each
    bound = compute_lower_bound(batch, weights, slots)
    # What an executor that is let go owned has no owner any more.
    slot_of_line = np.where(in_use[table.owner], table.owner, -1)
    return Placement(name, pieces, bound, slot_of_line, tuple(notes), choice.refusals)


def _place_on_slots(slots: Ints, batch: MicroBatch, weights: Weights, owner: Ints) -> Pieces:
    """Place all ranges on some of the slots."""
    if not batch.ranges:
        return leave_whole(batch, owner)
    executor = batch.slot_executor[slots]
    speed = 1 / weights.slowness[executor]
    fair = float(weights.work.sum()) * speed / speed.sum()
    local = np.full(batch.slots + 1, -1, np.int64)
    local[slots] = np.arange(len(slots))
    if is_short(batch, weights, slots):
        slot = place_whole(weights.work, local[owner], fair, executor, math.inf)
        return leave_whole(batch, slots[slot])
    zones, most = compute_nearness(batch, weights, slots), batch.settings.max_imbalance
    if batch.settings.split:
        pieces = _place_with_cuts(batch, weights, local[owner], fair, executor, zones)
        return replace(pieces, slot=slots[pieces.slot])
    if zones is None:
        slot = place_whole(weights.work, local[owner], fair, executor, most)
    else:
        slot = place_whole_in_zones(weights.work, local[owner], fair, executor, most, zones)
    return leave_whole(batch, slots[slot])


def _place_with_cuts(  # noqa: PLR0917
    batch: MicroBatch,
    weights: Weights,
    owner: Ints,
    fair: Floats,
    executor: Ints,
    zones: Nearness | None,
) -> Pieces:
    """Place with splitting; without zones where these alone would cost much of the balance."""
    limit = 1 + batch.settings.max_imbalance
    busiest, pieces = _retry_cuts(batch, weights, owner, fair, executor, zones)
    if zones is None or busiest <= limit + _MOST_FOR_ZONES:
        return pieces
    offset = float((weights.work / batch.size).max() / fair.min())  # ranges end between records
    if busiest <= limit + offset:
        return pieces
    without, plain = _retry_cuts(batch, weights, owner, fair, executor, None)
    return plain if without <= limit else pieces


def _retry_cuts(  # noqa: PLR0917
    batch: MicroBatch,
    weights: Weights,
    owner: Ints,
    fair: Floats,
    executor: Ints,
    zones: Nearness | None,
) -> tuple[float, Pieces]:
    """Return the best of some tries, and how busy the busiest slot is then, as a part of its share.

    Each further piece of a range costs its fixed part again. In most batches that is within the
    allowance. In small ones ranges that were cut are placed anew as so much more work, and not cut
    into less than a piece costs by itself.
    """
    extra, least = np.zeros(batch.ranges), 0.0
    max_imbalance, tried = batch.settings.max_imbalance, list[tuple[float, Pieces]]()
    for _ in range(_MOST_CUT_TRIES):
        work = weights.work + extra
        goal = fair * float(work.sum() / weights.work.sum())
        if zones is None:
            shares = place(work, owner, goal, executor, max_imbalance, least)
        else:
            shares = place_in_zones(work, owner, goal, executor, max_imbalance, least, zones)
        pieces = cut_ranges(batch, shares, weights.fixed)
        load = np.bincount(pieces.slot, pieces.work(batch, weights), len(fair))
        busiest = float((load / fair).max())
        tried.append((busiest, pieces))
        extra = weights.fixed * (np.bincount(pieces.row) - 1)
        least = float(weights.fixed.mean())
        if busiest <= 1 + max_imbalance or not extra.any():
            break
    return min(tried, key=itemgetter(0))


def is_short(batch: MicroBatch, weights: Weights, slots: Ints) -> bool:
    """Whether all work, and the backlog behind it, takes less time than a plan could be worth.

    Not with racks, where a plan saves bytes, nor with `minPartitions`, which asks for more tasks.
    """
    is_to_be_divided = batch.replicas is not None or batch.settings.min_partitions is not None
    if weights.basis != "seconds" or is_to_be_divided:
        return False
    slowest = float(weights.slowness[batch.slot_executor[slots]].max())
    return batch.backlog * float(weights.work.sum()) * slowest <= SHORT_BATCH_S


def leave_whole(batch: MicroBatch, slot: Ints) -> Pieces:
    """Leave each range in one piece."""
    return Pieces(np.arange(batch.ranges), batch.start, batch.end, slot)


def compute_lower_bound(batch: MicroBatch, weights: Weights, slots: Ints) -> float:
    """Return the time that no plan on these slots can beat, in units of work on a usual executor.

    All work evenly over the speeds, or the costliest offset, and what a piece costs by itself, on
    the fastest slot. Ranges are divisible here even if the options leave them whole, so that the
    imbalance shows what that costs. A short batch takes as long as its longest task may.
    """
    if not batch.ranges:
        return 0.0
    slowness = weights.slowness[batch.slot_executor[slots]]
    if is_short(batch, weights, slots):
        return SHORT_BATCH_S
    even = float(weights.work.sum()) / float((1 / slowness).sum())
    parts = weights.fixed + (weights.work - weights.fixed) / batch.size
    return max(even, float(parts.max()) * float(slowness.min()))


def find_priority(batch: MicroBatch, executor: Executor) -> int | None:
    """Return the priority by the first host pattern that matches, else the executor's own."""
    for pattern, number in batch.settings.priorities:
        if fnmatchcase(executor.host, pattern) or fnmatchcase(executor.id, pattern):
            return number
    return executor.priority


def _select_best_class(batch: MicroBatch) -> tuple[Flags, str]:
    """Keep the slots of the executors with the highest priority; none given ranks below all."""
    ranks = [(p is not None, p or 0) for p in (find_priority(batch, e) for e in batch.executors)]
    best = max(ranks)
    flags = np.array([rank == best for rank in ranks], np.bool_)
    level = f"priority {best[1]}" if best[0] else "no priority"
    note = f"failover: {int(flags.sum())} of {len(ranks)} executors, those with {level}, read all"
    return flags[batch.slot_executor], note


def _rank_slots(batch: MicroBatch, weights: Weights, owner: Ints, slots: Ints) -> Ints:
    """Rank slots: first those that own most, then spread over executors."""
    owned = owner >= 0
    work = np.bincount(owner[owned], weights.work[owned], batch.slots)[slots]
    return np.asarray(slots[np.lexsort((slots, batch.slot_number[slots], -work))])

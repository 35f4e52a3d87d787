"""Place a batch for `lag-aware-sticky`: choose slots, compute fair shares, and place the ranges.

`failover` does the same, but only on the executors with the highest priority present.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assignor_bridge.assignors.whole import place_whole
from assignor_bridge.planner.pieces import Pieces, cut_ranges
from assignor_bridge.planner.place import Capacity, place
from assignor_bridge.planner.zones import divide_by_zone, join_parts, map_zones, place_parts_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from assignor_bridge.assignors.group import Assignment
    from assignor_bridge.assignors.registry import Choice
    from assignor_bridge.model import Executor
    from assignor_bridge.planner.batch import Flags, Ints, MicroBatch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.demand import Demand
    from assignor_bridge.planner.table import PartitionTable
    from assignor_bridge.planner.zones import ZoneMap

FAILOVER = "failover"
#: Up to this many predicted seconds of work, ranges stay whole and with their owners. No plan
#: could save more time than an additional task costs Spark.
SHORT_BATCH_S = 0.05
#: Maximum attempts to reach `minRecordsPerTask` with whole ranges, each on fewer slots.
_MAX_ATTEMPTS = 9
#: Maximum attempts to cut ranges, because pieces' fixed costs and whole offsets add to loads.
_MAX_CUT_ATTEMPTS = 3
#: Imbalance above `max_imbalance` that zones may cause, because cuts cost time in small batches.
_MAX_ZONE_IMBALANCE = 0.01


@dataclass(frozen=True, eq=False)
class Placement:
    """Pieces on slots, before they are packed into tasks, and the reasons."""

    assignor: str
    pieces: Pieces
    #: Lower bound on the time that the slots in use need (see `find_lower_bound`).
    bound: float
    #: Slot of each table line, -1 if none; `remember` updates the lines with data.
    slot_of_line: Ints
    #: Sentences about the slots in use, or the notes of a group assignor.
    notes: tuple[str, ...] = ()
    #: Sentences about assignors that were passed over.
    refusals: tuple[str, ...] = ()
    #: By slot: ids of executors with standby copies of its partitions, most preferred first.
    standbys: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    #: Partitions of each slot as a group member; None unless the batch was placed as a group.
    assignment: Assignment | None = None


class _Candidate(NamedTuple):
    """Pieces that may become the plan; slots are numbered among those that take part."""

    pieces: Pieces
    #: Load of the busiest slot, as a share of its quota.
    max_load: float
    ignores_zones: bool


def place_batch(
    choice: Choice, batch: MicroBatch, table: PartitionTable, weights: Weights, demand: Demand
) -> Placement:
    """Place all ranges with the chosen assignor, `lag-aware-sticky` or `failover`.

    The promises are those of `planner.zones`; without `split`, `assignors.whole` replaces `place`.
    If whole ranges leave a slot below `minRecordsPerTask`, they are placed on fewer slots.
    """
    name, notes, in_use = choice.assignor.name, [*demand.gathering_notes], demand.in_use
    owner = table.range_owner
    takes_part = np.ones(batch.slots, np.bool_)
    if name == FAILOVER:
        takes_part, note = _select_highest_priority(batch)
        notes.append(note)
    if (takes_part & in_use).any():
        takes_part &= in_use
    min_records, split = batch.options.min_records_per_task or 1, batch.options.split
    ranked_slots = _rank_slots(batch, weights, owner, np.flatnonzero(takes_part))
    slot_count = int(max(1, min(len(ranked_slots), batch.total_offsets // min_records)))
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        slots = np.sort(ranked_slots[:slot_count])
        pieces = _place_on_slots(slots, batch, weights, owner)
        offsets = pieces.count_offsets_by_slot(batch.slots)
        missing_offsets = min_records - offsets[(offsets > 0) & (offsets < min_records)]
        slot_count -= attempt * math.ceil(missing_offsets.sum() / min_records)
        if split or slot_count < 1 or slot_count == len(slots):
            break  # if ranges may be cut, `pack` tops slots up
    bound = find_lower_bound(batch, weights, slots)
    # Partitions of an executor that is no longer in use have no owner.
    slot_of_line = np.where(in_use[table.owner], table.owner, -1)
    return Placement(name, pieces, bound, slot_of_line, tuple(notes), choice.refusals)


def _place_on_slots(slots: Ints, batch: MicroBatch, weights: Weights, owner: Ints) -> Pieces:
    """Place all ranges on these slots only.

    1. Compute each slot's quota: its fair share of all work, by speed. A short batch stays whole.
    2. Take the first candidate within the limit. Candidates that ignore zones are generated only if
       those with zones exceed it, for cut ranges by more than `_MAX_ZONE_IMBALANCE` or one offset.
    3. If none is within the limit, whole ranges prefer balance to zones, as promised. Cut ranges
       prefer zones: they exceed the limit by little, or would also exceed it without zones.
    """
    if not batch.range_count:
        return Pieces.whole(batch, owner)
    # 1. Compute quotas. From here on, slots are numbered among those that take part.
    executor = batch.slot_executor[slots]
    speed = 1 / weights.slowness[executor]
    quota = float(weights.work.sum()) * speed / speed.sum()
    local_slot = np.full(batch.slots + 1, -1, np.int64)
    local_slot[slots] = np.arange(len(slots))
    local_owner, max_imbalance = local_slot[owner], batch.options.max_imbalance
    if is_short(batch, weights, slots):
        slot = place_whole(weights.work, local_owner, quota, executor, max_imbalance=math.inf)
        return Pieces.whole(batch, slots[slot])
    # 2. Take the first candidate within the limit.
    limit, capacity = 1 + max_imbalance, Capacity(quota, executor, max_imbalance)
    max_load_per_offset = float((weights.work / batch.size).max() / quota.min())
    tolerance = max(_MAX_ZONE_IMBALANCE, max_load_per_offset) if batch.options.split else 0.0
    zones, candidates = map_zones(batch, weights, slots), list[_Candidate]()
    for zone_map in (None,) if zones is None else (zones, None):
        for candidate in _generate_candidates(batch, weights, local_owner, capacity, zone_map):
            candidates.append(candidate)
            if candidate.max_load <= limit:
                return replace(candidate.pieces, slot=slots[candidate.pieces.slot])
        if min(c.max_load for c in candidates) <= limit + tolerance:
            break
    # 3. Take the best candidate.
    keys = ("ignores_zones", "max_load") if batch.options.split else ("max_load", "ignores_zones")
    pieces = min(candidates, key=attrgetter(*keys)).pieces
    return replace(pieces, slot=slots[pieces.slot])


def _generate_candidates(
    batch: MicroBatch, weights: Weights, owner: Ints, capacity: Capacity, zones: ZoneMap | None
) -> Iterator[_Candidate]:
    """Yield candidates: ranges divided among zones and placed on slots, cut if `split` allows it.

    Each additional piece of a range repeats the fixed work, and cuts are rounded to whole offsets.
    In most batches that is within the allowance. In small batches ranges are placed again: with the
    repeated work added to the cut ranges, and a minimum piece as large as the mean fixed work; or,
    if none is repeated, with an allowance that is reduced by the excess.
    """
    extra_work, min_piece = np.zeros(batch.range_count), 0.0
    max_imbalance = float(capacity.max_imbalance)
    for _ in range(_MAX_CUT_ATTEMPTS):
        work = weights.work + extra_work
        scaled_quota = capacity.quota * float(work.sum() / weights.work.sum())
        parts = divide_by_zone(work, owner, replace(capacity, quota=scaled_quota), zones, min_piece)
        if batch.options.split:
            pools = parts.zone, parts.slot_zone
            shares = place(parts.work, parts.owner, parts.capacity, pools, min_piece)
            pieces = cut_ranges(batch, join_parts(parts, shares, work, owner), weights.fixed_work)
        else:
            pieces = Pieces.whole(batch, place_parts_whole(parts, work, owner, capacity))
        load = np.bincount(pieces.slot, pieces.predict_work(batch, weights), len(scaled_quota))
        max_load = float((load / capacity.quota).max())
        yield _Candidate(pieces, max_load, zones is None)
        extra_work = weights.fixed_work * (np.bincount(pieces.row) - 1)
        if extra_work.any():
            min_piece = float(weights.fixed_work.mean())
        elif batch.options.split:
            next_imbalance = float(capacity.max_imbalance) - (max_load - 1 - max_imbalance)
            capacity = replace(capacity, max_imbalance=max(0.0, next_imbalance))
        else:
            return


def is_short(batch: MicroBatch, weights: Weights, slots: Ints) -> bool:
    """Return whether the batch and its backlog are too short for a plan to save time.

    Never true until seconds are reported, with racks, where a plan saves bytes, or with
    `minPartitions`, which requires tasks.
    """
    needs_plan = batch.replicas is not None or batch.options.min_partitions is not None
    if weights.basis != "seconds" or needs_plan:
        return False
    max_slowness = float(weights.slowness[batch.slot_executor[slots]].max())
    return batch.backlog_ratio * float(weights.work.sum()) * max_slowness <= SHORT_BATCH_S


def find_lower_bound(batch: MicroBatch, weights: Weights, slots: Ints) -> float:
    """Return a lower bound on any plan's time, in units of work on a usual executor.

    It is the larger of two times: all work at the total speed, and the costliest offset with its
    fixed work on the fastest slot. It assumes divisible ranges even if `split` is off, so that the
    imbalance shows the cost of that option. It is `SHORT_BATCH_S` if short, 0 without ranges.
    """
    if not batch.range_count:
        return 0.0
    slowness = weights.slowness[batch.slot_executor[slots]]
    if is_short(batch, weights, slots):
        return SHORT_BATCH_S
    balanced_time = float(weights.work.sum()) / float((1 / slowness).sum())
    min_piece_work = weights.fixed_work + (weights.work - weights.fixed_work) / batch.size
    return max(balanced_time, float(min_piece_work.max()) * float(slowness.min()))


def find_priority(batch: MicroBatch, executor: Executor) -> int | None:
    """Return the first matching pattern's priority, else the executor's own; None without one."""
    for pattern, number in batch.options.priorities:
        if fnmatchcase(executor.host, pattern) or fnmatchcase(executor.id, pattern):
            return number
    return executor.priority


def _select_highest_priority(batch: MicroBatch) -> tuple[Flags, str]:
    """Flag the slots of executors with the highest priority (none ranks lowest); describe them."""
    ranks = [(p is not None, p or 0) for p in (find_priority(batch, e) for e in batch.executors)]
    top_rank = max(ranks)
    is_active = np.array([rank == top_rank for rank in ranks], np.bool_)
    priority = f"priority {top_rank[1]}" if top_rank[0] else "no priority"
    note = f"failover: {is_active.sum()} of {len(ranks)} executors read, those with {priority}"
    return is_active[batch.slot_executor], note


def _rank_slots(batch: MicroBatch, weights: Weights, owner: Ints, slots: Ints) -> Ints:
    """Return the slots, most owned work first; ties alternate between executors."""
    is_owned = owner >= 0
    owned_work = np.bincount(owner[is_owned], weights.work[is_owned], batch.slots)[slots]
    return np.asarray(slots[np.lexsort((slots, batch.slot_number[slots], -owned_work))])

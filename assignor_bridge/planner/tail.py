"""Cut a shared tail off the slots' work: tasks of decreasing size that any free slot takes.

Each slot keeps a sticky *head*, the larger part of its work. The tail compensates for times that
could not be predicted, at the price of more tasks and cold reads. `planner.tail_shape` chooses the
sizes, from the measurements of `planner.unpredictability`.

Promises, in order:

1. There is no tail until `MIN_BATCHES` batches were predicted, and none that does not pay.
2. A slot keeps its owned partitions: the tail takes the ends of its largest ranges, and the slot
   that a tail was cut from owns its partition in the next batch, not the tail's reader.
3. Tails of a zone's slots are read by executors of that zone.
4. No tail task is planned to be shorter than what it costs, or below `minRecordsPerTask`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.pieces import Pieces
from assignor_bridge.planner.tail_shape import TailCosts, shape_tail
from assignor_bridge.planner.tail_tasks import divide_ends, spread_executors

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Flags, Floats, Ints, MicroBatch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.table import PartitionTable
    from assignor_bridge.planner.tail_tasks import Part


@dataclass(frozen=True, eq=False)
class TailCut:
    """The pieces of the heads and of the tail."""

    heads: Pieces
    #: Tail pieces, with the slots that they were cut from.
    pieces: Pieces
    #: Tail task of each tail piece, from 0, ascending.
    task: Ints
    #: Indices of the executors that each tail task prefers alike.
    executors: tuple[tuple[int, ...], ...]
    #: Predicted seconds of each tail task, longest first.
    seconds: tuple[float, ...]
    #: Share of the batch's predicted work.
    share: float

    @property
    def tasks(self) -> int:
        """Number of tail tasks."""
        return len(self.seconds)


def plan_tail(
    batch: MicroBatch, weights: Weights, pieces: Pieces, spread: float | None
) -> TailCut | None:
    """Cut a tail off placed pieces; None if there should be none.

    1. Leave batches alone whose times are unknown, or whose slots belong to other queries, too.
    2. Shape the tail of each zone, and select the work that its slots give to it.
    3. Divide that work among the zone's tail tasks, longest first.
    4. Join the zones' tails: longest first, after all heads.
    """
    # 1. Leave batches alone.
    settings = batch.settings
    max_tasks = settings.max_tail_tasks_per_slot
    if not max_tasks or spread is None or weights.basis != "seconds" or settings.slots is not None:
        return None
    work = pieces.predict_work(batch, weights)
    zones, groups = _group_slots(batch, pieces)
    moved, tails = np.zeros(len(pieces), np.int64), list[tuple[tuple[int, ...], _Tail]]()
    for zone in range(zones):
        # 2. and 3. Shape, select, and divide.
        slots = np.flatnonzero(groups == zone)
        tail = _cut_zone(batch, weights, pieces, slots, spread, work=work)
        if tail is None:
            continue
        executors = np.unique(batch.slot_executor[slots]).tolist()
        moved[tail.index] = tail.moved
        tails.append((tuple(executors), tail))
    if not tails:
        return None
    # 4. Join.
    return _join_zones(pieces, work, moved, tails)


@dataclass(frozen=True, eq=False)
class _Tail:
    """The tail of a zone: what it takes from which pieces, and its tasks."""

    index: Ints
    #: Offsets taken from the end of each of these pieces.
    moved: Ints
    #: Piece, first and end offset of each part, by task.
    tasks: list[list[Part]]


def _group_slots(batch: MicroBatch, pieces: Pieces) -> tuple[int, Ints]:
    """Return the number of zones, and the zone of each slot; -1 for slots without pieces."""
    is_used = np.bincount(pieces.slot, minlength=batch.slots) > 0
    if batch.zones is None:
        return 1, np.where(is_used, 0, -1)
    zone = batch.zones.zone_of_executor[batch.slot_executor]
    return len(batch.zones.names), np.where(is_used, zone, -1)


def _cut_zone(
    batch: MicroBatch, weights: Weights, pieces: Pieces, slots: Ints, spread: float, *, work: Floats
) -> _Tail | None:
    """Shape a zone's tail, select its work, and divide it among tasks.

    `work`: predicted work of each piece. If a task or a head would have too few records, the tail
    gets one round less.
    """
    settings, max_tasks = batch.settings, batch.settings.max_tail_tasks_per_slot
    if len(slots) < 2:
        return None
    costs = TailCosts(range_s=float(weights.fixed.mean()))
    speed = np.zeros(batch.slots)
    speed[slots] = 1 / weights.slowness[batch.slot_executor[slots]]
    index = np.flatnonzero(speed[pieces.slot] > 0)
    batch_s = float(work[index].sum() / speed.sum())
    cold_ranges, slowest = 0.0, max(1.0, float(1 / speed[slots].min()))
    while max_tasks:
        shape = shape_tail(
            spread, batch_s, len(slots), costs, max_tasks, cold_ranges=cold_ranges, slowest=slowest
        )
        if shape is None:
            return None
        max_work = speed * batch_s * shape.head_share
        largest = math.inf if settings.split else shape.task_s[0]
        moved = _select_ends(
            pieces, work, index, max_work, costs, largest=largest, split=settings.split
        )
        keep_heads = _count_kept_records(pieces, index, moved, batch.slots)
        min_records = settings.min_records_per_task or 0
        moved[keep_heads[pieces.slot[index]] < min_records] = 0
        moved_whole = float(np.count_nonzero(moved == (pieces.end - pieces.start)[index]))
        if moved_whole / len(slots) > cold_ranges:  # each of them is a cold read: does it pay?
            cold_ranges = moved_whole / len(slots)
            continue
        tasks = divide_ends(batch, weights, pieces, index, moved, shape=shape, costs=costs)
        sizes = [sum(end - start for _, start, end in task) for task in tasks]
        if tasks and min(sizes) >= min_records:
            return _Tail(index, moved, tasks)
        max_tasks = min(max_tasks, len(shape.task_s) // len(slots)) - 1
    return None


def _count_kept_records(pieces: Pieces, index: Ints, moved: Ints, slots: int) -> Floats:
    kept = (pieces.end - pieces.start)[index] - moved
    return np.bincount(pieces.slot[index], kept.astype(np.float64), slots).astype(np.float64)


def _select_ends(
    pieces: Pieces,
    work: Floats,
    index: Ints,
    max_work: Floats,
    costs: TailCosts,
    *,
    largest: float,
    split: bool,
) -> Ints:
    """Return how many offsets of each piece go into the tail: ends of a slot's largest pieces.

    A slot keeps `max_work`. `largest`: maximum work of a piece, if pieces may not be cut.
    """
    slot, size, amount = pieces.slot[index], (pieces.end - pieces.start)[index], work[index]
    fits = amount <= largest
    order = np.lexsort((-amount, ~fits, slot))
    excess = np.bincount(slot, amount, len(max_work)) - max_work
    before = np.cumsum(amount[order]) - amount[order]
    before -= before[np.searchsorted(slot[order], slot[order])]
    share = np.zeros(len(index))
    share[order] = np.clip((excess[slot[order]] - before) / amount[order], 0.0, 1.0)
    share *= fits
    # Neither a part that is read faster than its consumer starts, nor such a remainder.
    share[share * amount < costs.cold_read_s] = 0.0
    share[((1 - share) * amount < costs.cold_read_s) & (share > 0)] = 1.0
    if not split:
        share = np.floor(share)
    is_only_piece = np.bincount(slot)[slot] == 1
    moved = np.minimum(size, np.rint(size * share).astype(np.int64))
    return np.asarray(np.minimum(moved, size - is_only_piece) if split else moved * ~is_only_piece)


def _join_zones(
    pieces: Pieces, work: Floats, moved: Ints, tails: list[tuple[tuple[int, ...], _Tail]]
) -> TailCut:
    """Return the heads, and all zones' tail tasks, longest first."""
    head_end = pieces.end - moved
    kept = np.flatnonzero(head_end > pieces.start)
    heads = Pieces(pieces.row, pieces.start, head_end, pieces.slot).take(kept)
    per_offset = work / (pieces.end - pieces.start)
    tasks: list[tuple[float, tuple[int, ...], list[Part]]] = []
    for executors, tail in tails:
        tasks += [
            (sum((end - start) * per_offset[i] for i, start, end in task), executors, task)
            for task in tail.tasks
        ]
    tasks.sort(key=lambda each: -each[0])
    rows = [(i, s, e, n) for n, (_, _, task) in enumerate(tasks) for i, s, e in sorted(task)]
    piece, start, end, task = np.array(rows, np.int64).T
    # Within a task, pieces are read by range.
    tail_pieces = Pieces(pieces.row[piece], start, end, pieces.slot[piece])
    preferred = tuple(spread_executors(each[1], number) for number, each in enumerate(tasks))
    seconds = tuple(each[0] for each in tasks)
    return TailCut(heads, tail_pieces, task, preferred, seconds, sum(seconds) / float(work.sum()))


def find_lines_in_tail(table: PartitionTable, cut: TailCut | None) -> Flags:
    """Return for each line of the table whether only tail tasks read its partition."""
    in_tail = np.zeros(len(table.key), np.bool_)
    if cut is not None:
        in_tail[table.line[cut.pieces.row]] = True
        in_tail[table.line[cut.heads.row]] = False
    return in_tail

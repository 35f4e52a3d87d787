"""Cut a shared tail off the slots' work: tasks of decreasing size that any free slot takes.

Each slot keeps a sticky *head*, the larger part of its work. The tail compensates for times that
could not be predicted, at the price of more tasks and cold reads. `planner.tail_shape` chooses the
sizes, from the measurements of `planner.unpredictability`.

Promises, in order:

1. There is no tail until `MIN_BATCHES` batches were predicted, or if it would not save time.
2. A slot keeps its owned partitions: the tail takes the ends of its largest ranges, and the slot
   that a tail was cut from owns its partition in the next batch, not the tail's reader.
3. The tail tasks of a zone's slots prefer executors of that zone.
4. No round has tasks shorter than their overhead, and no tail task is below `minRecordsPerTask`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
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
    #: Tail pieces, sorted by task, with the slots that they were cut from.
    pieces: Pieces
    #: Tail task of each tail piece, from 0, ascending.
    task: Ints
    #: Indices of the executors that each tail task prefers alike.
    executors: tuple[tuple[int, ...], ...]
    #: Predicted seconds of each tail task, longest first.
    seconds: tuple[float, ...]
    #: The tail's share of the batch's predicted work.
    share: float

    @property
    def task_count(self) -> int:
        """Number of tail tasks."""
        return len(self.seconds)


def plan_tail(
    batch: MicroBatch,
    weights: Weights,
    pieces: Pieces,
    unpredictability: float | None,
    cold_read_s: float,
) -> TailCut | None:
    """Cut a tail off placed pieces; None if there should be none.

    `cold_read_s`: see `planner.cold_reads`.

    1. Cut nothing if the tail is off, times are unknown, or other queries use the slots, too.
    2. Shape the tail of each zone, and select the work that its slots give to it.
    3. Divide that work among the zone's tail tasks, longest first.
    4. Join the zones' tail tasks, longest first.
    """
    # 1. Check whether to cut.
    is_off = not batch.options.max_tail_tasks_per_slot or batch.options.slots is not None
    if is_off or unpredictability is None or weights.basis != "seconds":
        return None
    work = pieces.predict_work(batch, weights)
    costs = TailCosts(cold_read_s, range_s=float(weights.fixed_work.mean()))
    zone_count, zone_of_slot = _map_slots_to_zones(batch, pieces)
    tail_offsets, tails = np.zeros(len(pieces), np.int64), list[tuple[tuple[int, ...], _Tail]]()
    for zone in range(zone_count):
        # 2. and 3. Shape, select, and divide.
        slots = np.flatnonzero(zone_of_slot == zone)
        tail = _cut_zone(batch, weights, pieces, slots, unpredictability, work=work, costs=costs)
        if tail is not None:
            executors = np.unique(batch.slot_executor[slots]).tolist()
            tail_offsets[tail.piece_index] = tail.offsets
            tails.append((tuple(executors), tail))
    if not tails:
        return None
    # 4. Join.
    return _join_zones(pieces, work, tail_offsets, tails)


@dataclass(frozen=True, eq=False)
class _Tail:
    """The tail of a zone."""

    #: Indices of the pieces of the zone's slots.
    piece_index: Ints
    #: Number of offsets taken from the end of each piece in `piece_index`.
    offsets: Ints
    #: Parts of each task.
    tasks: list[list[Part]]


def _map_slots_to_zones(batch: MicroBatch, pieces: Pieces) -> tuple[int, Ints]:
    """Return the number of zones, and the zone of each slot; -1 for slots without pieces."""
    is_used = np.bincount(pieces.slot, minlength=batch.slots) > 0
    if batch.zones is None:
        return 1, np.where(is_used, 0, -1)
    zone = batch.zones.zone_of_executor[batch.slot_executor]
    return len(batch.zones.names), np.where(is_used, zone, -1)


def _cut_zone(
    batch: MicroBatch,
    weights: Weights,
    pieces: Pieces,
    slots: Ints,
    unpredictability: float,
    *,
    work: Floats,
    costs: TailCosts,
) -> _Tail | None:
    """Shape the tail of a zone's slots, select its work, and divide it among tasks.

    `work`: predicted seconds of each piece. A slot whose head would keep fewer offsets than
    `minRecordsPerTask` gives nothing. If a tail task has fewer, the tail gets one round less.
    Returns None if no tail saves time, or all have such a task.
    """
    options, max_rounds = batch.options, batch.options.max_tail_tasks_per_slot
    if len(slots) < 2:
        return None
    speed = np.zeros(batch.slots)
    speed[slots] = 1 / weights.slowness[batch.slot_executor[slots]]
    piece_index = np.flatnonzero(speed[pieces.slot] > 0)
    slot, size = pieces.slot[piece_index], (pieces.end - pieces.start)[piece_index]
    batch_s = float(work[piece_index].sum() / speed.sum())
    max_slowness = max(1.0, float(1 / speed[slots].min()))
    shape_zone = partial(shape_tail, unpredictability, batch_s, len(slots), costs)
    cold_per_slot, min_records = 0.0, options.min_records_per_task or 0
    while max_rounds:
        shape = shape_zone(max_rounds, cold_per_slot=cold_per_slot, max_slowness=max_slowness)
        if shape is None:
            return None
        head_s = speed * batch_s * shape.head_share
        max_piece_s = math.inf if options.split else shape.task_s[0]
        tail_offsets = _select_ends(
            pieces, work, piece_index, head_s, costs, max_piece_s=max_piece_s, split=options.split
        )
        head_offsets = np.bincount(slot, size - tail_offsets, batch.slots)
        tail_offsets[head_offsets[slot] < min_records] = 0
        whole_per_slot = np.count_nonzero(tail_offsets == size) / len(slots)
        if whole_per_slot > cold_per_slot:  # each whole piece is a cold read: does it pay?
            cold_per_slot = whole_per_slot
            continue
        tasks = divide_ends(
            batch, weights, pieces, piece_index, tail_offsets, shape=shape, costs=costs
        )
        sizes = [sum(end - start for _, start, end in task) for task in tasks]
        if tasks and min(sizes) >= min_records:
            return _Tail(piece_index, tail_offsets, tasks)
        max_rounds = min(max_rounds, len(shape.task_s) // len(slots)) - 1
    return None


def _select_ends(
    pieces: Pieces,
    work: Floats,
    piece_index: Ints,
    head_s: Floats,
    costs: TailCosts,
    *,
    max_piece_s: float,
    split: bool,
) -> Ints:
    """Return how many offsets of each piece go into the tail: ends of a slot's largest pieces.

    `work`: seconds of each piece. `piece_index`: the pieces to choose from. `head_s`: seconds that
    each slot keeps. `max_piece_s`: only pieces of at most this length are moved. A slot's only
    piece is never moved whole. Without `split`, pieces are moved whole or not at all.
    """
    slot, piece_s = pieces.slot[piece_index], work[piece_index]
    size = (pieces.end - pieces.start)[piece_index]
    fits = piece_s <= max_piece_s
    order = np.lexsort((-piece_s, ~fits, slot))
    excess_s = np.bincount(slot, piece_s, len(head_s)) - head_s
    moved_before_s = np.cumsum(piece_s[order]) - piece_s[order]
    moved_before_s -= moved_before_s[np.searchsorted(slot[order], slot[order])]
    share = np.zeros(len(piece_index))
    share[order] = np.clip((excess_s[slot[order]] - moved_before_s) / piece_s[order], 0.0, 1.0)
    share *= fits
    # Do not move a part that is read faster than its consumer starts, or leave such a remainder.
    share[share * piece_s < costs.cold_read_s] = 0.0
    share[((1 - share) * piece_s < costs.cold_read_s) & (share > 0)] = 1.0
    if not split:
        share = np.floor(share)
    is_only_piece = np.bincount(slot)[slot] == 1
    offsets = np.minimum(size, np.rint(size * share).astype(np.int64))
    offsets = np.minimum(offsets, size - is_only_piece) if split else offsets * ~is_only_piece
    return np.asarray(offsets)


def _join_zones(
    pieces: Pieces, work: Floats, tail_offsets: Ints, tails: list[tuple[tuple[int, ...], _Tail]]
) -> TailCut:
    """Return the heads, and the tail tasks of all zones (executors, tail), longest first."""
    head_end = pieces.end - tail_offsets
    nonempty_heads = np.flatnonzero(head_end > pieces.start)
    heads = Pieces(pieces.row, pieces.start, head_end, pieces.slot).take(nonempty_heads)
    s_per_offset = work / (pieces.end - pieces.start)
    tasks: list[tuple[float, tuple[int, ...], list[Part]]] = []
    for executors, tail in tails:
        tasks += [
            (sum((end - start) * s_per_offset[i] for i, start, end in task), executors, task)
            for task in tail.tasks
        ]
    tasks.sort(key=lambda row: -row[0])
    # Sort each task's parts by piece, and so by range and offset.
    rows = [(i, s, e, n) for n, (_, _, task) in enumerate(tasks) for i, s, e in sorted(task)]
    piece, start, end, task = np.array(rows, np.int64).T
    tail_pieces = Pieces(pieces.row[piece], start, end, pieces.slot[piece])
    preferred = tuple(spread_executors(zone, n) for n, (_, zone, _) in enumerate(tasks))
    seconds = tuple(task_s for task_s, _, _ in tasks)
    return TailCut(heads, tail_pieces, task, preferred, seconds, sum(seconds) / float(work.sum()))


def find_lines_in_tail(table: PartitionTable, cut: TailCut | None) -> Flags:
    """Return for each line of the table whether only tail tasks read its partition."""
    in_tail = np.zeros(len(table.key), np.bool_)
    if cut is not None:
        in_tail[table.line[cut.pieces.row]] = True
        in_tail[table.line[cut.heads.row]] = False
    return in_tail

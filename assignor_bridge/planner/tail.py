"""Cut a shared tail off the slots' work: tasks of decreasing size that any free slot takes.

Each slot keeps a sticky *head*, the larger part of its work. The tail compensates for times that
could not be predicted, at the price of more tasks and cold reads. This is loop scheduling (guided
self-scheduling, Polychronopoulos and Kuck 1987; factoring, Hummel et al. 1992).

Assumptions: the errors of predicted task times are logarithmically normal and independent, and
the next batch is as unpredictable as the median of the last `MIN_BATCHES`.

Promises, in order:

1. There is no tail until `MIN_BATCHES` batches were predicted, and none that does not pay.
2. A slot keeps its owned partitions: the tail takes the ends of its largest ranges, and the slot
   that a tail was cut from owns its partition in the next batch, not the tail's reader.
3. Tails of a zone's slots are read by executors of that zone.
4. No tail task is shorter than twice what it costs, or below `minRecordsPerTask`.

Example: four slots with 10 s each and times that deviate by 20%. A head keeps 67% of its slot's
work, and two tail tasks per slot share the remainder.

>>> costs = TailCosts(task_s=0.01, cold_read_s=0.02, range_s=0.0)
>>> shape = shape_tail(0.2, 10.0, 4, costs, max_tasks_per_slot=2)
>>> print(round(shape.head_share, 2), [round(seconds, 2) for seconds in shape.task_s])
0.67 [2.48, 2.48, 2.48, 2.48, 0.82, 0.82, 0.82, 0.82]
>>> shape_tail(0.01, 10.0, 4, costs, max_tasks_per_slot=2) is None  # nothing is unpredictable
True
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, median
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.pieces import Pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.planner.batch import Flags, Floats, Ints, MicroBatch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.table import PartitionTable

#: Batches whose spread is averaged. With fewer, one stall would cut a tail off a steady stream.
MIN_BATCHES = 5
#: A head ends before its batch does, unless it is this many standard deviations too slow.
_HEAD_SIGMAS = 2.0
#: Minimum length of a tail task, in multiples of its cost. Shorter ones cost more than they save.
_MIN_LENGTH = 2.0
#: Minimum saving, as a share of the batch. Without it, predictable streams would get a tail.
_MIN_SAVING = 0.02
#: Slots that finish a list of tasks differ by up to the last task's length, on average by half.
_UNEVEN_END = 0.5
#: Maximum locations of a task; each costs the driver memory and time.
MAX_LOCATIONS = 16
#: A prime beyond the number of strides, so that consecutive rounds have unrelated strides.
_STRIDE_STEP = 7919


@dataclass(frozen=True)
class TailCosts:
    """Seconds that a tail task costs in addition to its records."""

    task_s: float = 0.005
    #: Cost of a range that a consumer does not continue.
    cold_read_s: float = 0.02
    #: Fixed cost of a range, which each additional piece repeats.
    range_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Cost of a tail task with one range."""
        return self.task_s + self.cold_read_s + self.range_s


@dataclass(frozen=True)
class TailShape:
    """How much of their work the heads keep, and the lengths of the tail tasks."""

    head_share: float
    #: Seconds of each tail task, longest first.
    task_s: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class TailCut:
    """The pieces of the heads and of the tail."""

    heads: Pieces
    #: Tail pieces, with the slots that they were cut from.
    pieces: Pieces
    #: Tail task of each tail piece, from 0, ascending.
    task: Ints
    #: Indices of the executors that each tail task prefers.
    locations: tuple[tuple[int, ...], ...]
    #: Share of the batch's predicted work.
    share: float

    @property
    def tasks(self) -> int:
        """Number of tail tasks."""
        return len(self.locations)


def measure_spread(predicted_s: Floats, seconds: Floats, task: Ints) -> float | None:
    """Return the standard deviation of log(seconds / predicted seconds) over tasks.

    Tasks are weighted by their predicted seconds, because short ones hardly delay a batch. Returns
    None if there are fewer than two tasks.

    >>> two = np.array([1.0, 1.0])
    >>> round(measure_spread(two, np.array([1.0, math.e]), np.array([0, 1])), 3)
    0.707
    """
    expected, actual = np.bincount(task, predicted_s), np.bincount(task, seconds)
    rows = np.flatnonzero((expected > 0) & (actual > 0))
    if len(rows) < 2:
        return None
    weight = expected[rows] / expected[rows].sum()
    log_ratio = np.log(actual[rows]) - np.log(expected[rows])
    variance = float(weight @ (log_ratio - weight @ log_ratio) ** 2)
    independent_tasks = 1 / float(weight @ weight)
    return math.sqrt(variance * independent_tasks / max(independent_tasks - 1, 0.5))


def update_spreads(
    table: PartitionTable, batch: MicroBatch, predicted_s: Floats | None
) -> tuple[float, ...]:
    """Return the spreads of the last batches, with that of the reports.

    Reports do not name their task. The only report of a partition by its owner's executor is
    attributed to the owner's slot; any other report counts as a task, because tails and cut ranges
    mostly have a task for each piece. `predicted_s`: of each report; None if there were none.
    """
    spreads, reports = table.state.spreads, batch.observed
    if predicted_s is None:
        return spreads
    rows = np.flatnonzero(
        (table.report_line >= 0) & (reports.seconds > 0) & np.isfinite(reports.seconds)
        & (reports.records >= 1) & np.isfinite(predicted_s)
    )  # fmt: skip
    index = {executor.id: i for i, executor in enumerate(batch.executors)}
    executor = np.array([index.get(name, -1) for name in reports.executors], np.int64)
    reader, owner = executor[reports.executor[rows]], table.owner[table.report_line[rows]]
    is_owner = (owner >= 0) & (batch.anonymous | (batch.slot_executor[owner] == reader))
    _, pair, reports_of_pair = np.unique(
        table.report_line[rows] * (len(reports.executors) + 1) + reports.executor[rows],
        return_inverse=True, return_counts=True,
    )  # fmt: skip
    is_owner &= reports_of_pair[pair] == 1
    task = np.where(is_owner, owner, batch.slots + np.arange(len(rows)))
    seconds = np.minimum(reports.seconds[rows], 1e15)
    spread = measure_spread(predicted_s[rows], seconds, task)
    return spreads if spread is None else (*spreads, min(spread, 10.0))[-MIN_BATCHES:]


def compute_unpredictability(spreads: Sequence[float]) -> float | None:
    """Return the median spread of the last batches; None until enough were predicted."""
    return median(spreads) if len(spreads) >= MIN_BATCHES else None


def shape_tail(  # noqa: PLR0917
    spread: float,
    batch_s: float,
    slots: int,
    costs: TailCosts,
    max_tasks_per_slot: int,
    moved_ranges: float = 0.0,
    slowest: float = 1.0,
) -> TailShape | None:
    """Return the shape with the least expected time, None if that is no tail.

    1. A head keeps 1/x of its slot's work, `x = exp(2 spread)`.
    2. With k tail tasks per slot, each round is `1 - 1/x` of the previous one. It is more if an
       executor is slow, because that executor may take one of the longest tasks.
    3. Estimate the seconds above `batch_s` with each k; choose the least, if it saves enough.

    `batch_s`: seconds of a slot without a tail. `moved_ranges`: whole ranges in the tail, per slot.
    `slowest`: slowness of the slowest executor.
    """
    if slots < 2 or batch_s <= 0 or spread <= 0:
        return None
    # 1. Compute the heads.
    ratio = 1 - math.exp(-_HEAD_SIGMAS * spread)
    tail_s, sigmas = ratio * batch_s, _expect_maximum(slots)
    late_heads_s = batch_s * max(0.0, math.exp((sigmas - _HEAD_SIGMAS) * spread) - 1)
    least_excess_s = batch_s * math.expm1(min(sigmas * spread, 50.0)) - _MIN_SAVING * batch_s
    decay, rounds = max(ratio, 1 - 1 / slowest), list[float]()
    for count in range(1, max_tasks_per_slot + 1):
        # 2. Compute the lengths of the rounds.
        first_s = tail_s * (1 - decay) / (1 - decay**count)
        lengths = [first_s * decay**i for i in range(count)]
        if lengths[-1] < _MIN_LENGTH * costs.total_s:
            break
        # 3. Estimate, and choose. A head of a range with a tail starts with a cold read, too.
        cold_s = costs.cold_read_s * (1 + moved_ranges)
        late_s = max(late_heads_s, first_s * slowest - tail_s)
        excess_s = late_s + _UNEVEN_END * lengths[-1] * slowest + count * costs.total_s + cold_s
        if excess_s < least_excess_s:
            least_excess_s, rounds = excess_s, lengths
    if not rounds:
        return None
    return TailShape(1 - ratio, tuple(length for length in rounds for _ in range(slots)))


@cache
def _expect_maximum(count: int) -> float:
    """Return the expected maximum of standard normal numbers (Blom's approximation)."""
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25))


def plan_tail(
    batch: MicroBatch,
    weights: Weights,
    pieces: Pieces,
    spread: float | None,
    costs: TailCosts | None = None,
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
    costs = costs or TailCosts(range_s=float(weights.fixed.mean()) if batch.ranges else 0.0)
    work = pieces.predict_work(batch, weights)
    zones, groups = _group_slots(batch, pieces)
    moved, tails = np.zeros(len(pieces), np.int64), list[tuple[tuple[int, ...], _Tail]]()
    for zone in range(zones):
        # 2. and 3. Shape, select, and divide.
        slots = np.flatnonzero(groups == zone)
        tail = _cut_zone(batch, weights, pieces, work, slots, spread, costs)
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
    tasks: list[list[tuple[int, int, int]]]
    work: float


def _group_slots(batch: MicroBatch, pieces: Pieces) -> tuple[int, Ints]:
    """Return the number of zones, and the zone of each slot; -1 for slots without pieces."""
    is_used = np.bincount(pieces.slot, minlength=batch.slots) > 0
    if batch.zones is None:
        return 1, np.where(is_used, 0, -1)
    zone = batch.zones.zone_of_executor[batch.slot_executor]
    return len(batch.zones.names), np.where(is_used, zone, -1)


def _cut_zone(  # noqa: PLR0917
    batch: MicroBatch,
    weights: Weights,
    pieces: Pieces,
    work: Floats,
    slots: Ints,
    spread: float,
    costs: TailCosts,
) -> _Tail | None:
    """Shape a zone's tail, select its work, and divide it among tasks.

    If a task or a head would have too few records, the tail gets one round less.
    """
    settings, max_tasks = batch.settings, batch.settings.max_tail_tasks_per_slot
    if len(slots) < 2:
        return None
    speed = np.zeros(batch.slots)
    speed[slots] = 1 / weights.slowness[batch.slot_executor[slots]]
    index = np.flatnonzero(speed[pieces.slot] > 0)
    batch_s = float(work[index].sum() / speed.sum())
    moved_ranges, slowest = 0.0, max(1.0, float(1 / speed[slots].min()))
    while max_tasks:
        shape = shape_tail(spread, batch_s, len(slots), costs, max_tasks, moved_ranges, slowest)
        if shape is None:
            return None
        max_work = speed * batch_s * shape.head_share
        largest = math.inf if settings.split else shape.task_s[0]
        moved = _select_ends(pieces, work, index, max_work, costs, largest, settings.split)
        keep_heads = _count_kept_records(pieces, index, moved, batch.slots)
        min_records = settings.min_records_per_task or 0
        moved[keep_heads[pieces.slot[index]] < min_records] = 0
        moved_whole = float(np.count_nonzero(moved == (pieces.end - pieces.start)[index]))
        if moved_whole / len(slots) > moved_ranges:  # each of them is a cold read: does it pay?
            moved_ranges = moved_whole / len(slots)
            continue
        tail = _divide(batch, weights, pieces, index, moved, shape, costs)
        sizes = [sum(end - start for _, start, end in task) for task in tail.tasks]
        if tail.tasks and min(sizes) >= min_records:
            return tail
        max_tasks = min(max_tasks, len(shape.task_s) // len(slots)) - 1
    return None


def _count_kept_records(pieces: Pieces, index: Ints, moved: Ints, slots: int) -> Floats:
    kept = (pieces.end - pieces.start)[index] - moved
    return np.bincount(pieces.slot[index], kept.astype(np.float64), slots).astype(np.float64)


def _select_ends(  # noqa: PLR0917
    pieces: Pieces,
    work: Floats,
    index: Ints,
    max_work: Floats,
    costs: TailCosts,
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


def _divide(  # noqa: PLR0917
    batch: MicroBatch,
    weights: Weights,
    pieces: Pieces,
    index: Ints,
    moved: Ints,
    shape: TailShape,
    costs: TailCosts,
) -> _Tail:
    """Divide ends of pieces among tail tasks.

    Largest ends come first, and tasks are filled one after the other, so that few ends are cut. A
    task holds at most one part of a range. Without `split`, each end goes to the emptiest task.
    """
    settings = batch.settings
    row, chosen = pieces.row[index], np.flatnonzero(moved)
    variable = (weights.work - weights.fixed)[row] / batch.size[row]
    amount = variable * moved
    chosen = chosen[np.lexsort((index[chosen], -amount[chosen]))]
    total = float(amount.sum())
    scale = total / sum(shape.task_s)
    rooms, max_records = [seconds * scale for seconds in shape.task_s], settings.task_cap_records
    tasks: list[list[tuple[int, int, int]]] = []
    ends = pieces.end[index]
    columns = (index[chosen], row[chosen], ends[chosen], moved[chosen], variable[chosen])
    parts = list(zip(*(column.tolist() for column in columns), strict=True))
    if not settings.split:
        heap = [(-room, number) for number, room in enumerate(rooms)]
        heapq.heapify(heap)
        tasks = [[] for _ in rooms]
        for piece, _, end, count, per_record in parts:
            negative_room, number = heap[0]
            tasks[number].append((piece, end - count, end))
            heapq.heapreplace(heap, (negative_room + count * per_record, number))
        return _Tail(index, moved, [task for task in tasks if task], total)
    number, room, records, rows, task = 0, rooms[0], 0, set[int](), list[tuple[int, int, int]]()
    sliver_s = costs.cold_read_s + costs.range_s
    for piece, part_row, end, count, per_record in parts:
        start = end - count
        while start < end:
            cap = (max_records - records) if max_records else end - start
            if task and (room <= min(sliver_s, rooms[number] / 4) or part_row in rows or cap <= 0):
                tasks.append(task)
                number, records, rows, task = min(number + 1, len(rooms) - 1), 0, set(), []
                room = rooms[number] + min(room, 0.0)
                continue
            part = max(1, min(end - start, round(room / per_record) if room > 0 else 1))
            if (end - start - part) * per_record < sliver_s:  # a remainder is not worth a task
                part = end - start
            part = min(part, max(cap, 1))
            task.append((piece, start, start + part))
            rows.add(part_row)
            start, room, records = start + part, room - part * per_record, records + part
    if task:
        tasks.append(task)
    return _Tail(index, moved, tasks, total)


def _join_zones(
    pieces: Pieces, work: Floats, moved: Ints, tails: list[tuple[tuple[int, ...], _Tail]]
) -> TailCut:
    """Return the heads, and all zones' tail tasks, longest first."""
    head_end = pieces.end - moved
    kept = np.flatnonzero(head_end > pieces.start)
    heads = Pieces(pieces.row, pieces.start, head_end, pieces.slot).take(kept)
    per_offset = work / (pieces.end - pieces.start)
    tasks: list[tuple[float, tuple[int, ...], list[tuple[int, int, int]]]] = []
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
    locations = tuple(
        spread_locations(executors, number) for number, (_, executors, _) in enumerate(tasks)
    )
    share = sum(each[0] for each in tasks) / float(work.sum())
    return TailCut(heads, tail_pieces, task, locations, share)


def spread_locations(executors: Sequence[int], number: int) -> tuple[int, ...]:
    """Return the executors that a tail task prefers, at most `MAX_LOCATIONS`.

    Consecutive tasks start at consecutive executors, and each round over the executors has another
    stride, so that each executor is preferred by equally many tasks. Without locations, Spark would
    let heads move between executors of a host.

    >>> [spread_locations(range(20), number)[:3] for number in (0, 1, 20)]
    [(0, 1, 2), (1, 2, 3), (0, 19, 18)]
    """
    count = len(executors)
    if count <= MAX_LOCATIONS:
        return tuple(executors)
    strides = _find_strides(count)
    stride = strides[(number // count * _STRIDE_STEP) % len(strides)]
    return tuple(executors[(number + stride * place) % count] for place in range(MAX_LOCATIONS))


@cache
def _find_strides(count: int) -> list[int]:
    """Return the strides that visit all executors before they repeat one."""
    return [stride for stride in range(1, count) if math.gcd(stride, count) == 1] or [1]


def find_lines_in_tail(table: PartitionTable, cut: TailCut | None) -> Flags:
    """Return for each line of the table whether only tail tasks read its partition."""
    in_tail = np.zeros(len(table.key), np.bool_)
    if cut is not None:
        in_tail[table.line[cut.pieces.row]] = True
        in_tail[table.line[cut.heads.row]] = False
    return in_tail

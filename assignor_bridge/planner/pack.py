"""Packing: how the pieces of each slot become Spark tasks.

One task a slot unless an option asks for others. In order of rank: at most 64 tasks a slot or
10,000, whichever is more, for the driver's sake; no task above `maxRecordsPerTask` (a partition
that may not be split excepted); at least `minPartitions` tasks; none below `minRecordsPerTask` as
long as there is another to take from or to join it to; at most `tasksPerSlot` tasks a slot. Tasks
come out longest first, so that what Spark starts last is short. A task holds at most one piece of a
range, so its consumer never has to jump back.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.pieces import Pieces
from checkpoints.sorting import stable_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.options import PlannerOptions
    from assignor_bridge.planner.batch import Ints, MicroBatch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.demand import Demand

    #: A piece: row, start, end. A task: its slot, and its number among those of the slot.
    Piece = tuple[int, int, int]
    Task = tuple[int, int]

#: Tasks of a batch: at most so many, or so many a slot, whichever is more.
_MAX_TASKS, _MAX_TASKS_PER_SLOT = 10_000, 64


@dataclass(frozen=True, eq=False)
class TaskList:
    """Tasks as columns, and the pieces in the order in which they are listed and read."""

    pieces: Pieces
    #: Task of each piece: rises.
    task: Ints
    #: Slot (over all executors) of each task.
    slot: Ints
    #: Names the task's consumer on its executor: the slot's number; further tasks of a slot add
    #: the executor's slots once, twice, …
    number: Ints
    #: Index of the executor of each task, -1 for those that may run anywhere.
    executor: Ints
    #: What had to give way, for people.
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.slot)


def pack(
    batch: MicroBatch, pieces: Pieces, weights: Weights, demand: Demand, *, top_up: bool = True
) -> TaskList:
    """Make tasks of the pieces, and as many as ask for executors, if there are offsets for them.

    Without `top_up` slots below the minimum get no ends of others' pieces, only whole tasks.
    """
    options = batch.settings.with_tasks(demand.tasks)
    least = options.min_records_per_task
    if least and options.split and top_up:
        pieces = _top_up_small_slots(pieces, batch.slots, least)
    parts, notes = _count_tasks_per_slot(pieces, batch.slots, options)
    number = np.zeros(len(pieces), np.int64)
    if len(pieces) and (least or (parts > 1).any()):
        tasks = _divide_among_tasks(_group_by_slot(pieces), parts, options)
        if least:
            _join_small_tasks(tasks, least, batch.slot_executor)
        rows = [(*piece, *task) for task, group in tasks.items() for piece in group]
        *columns, number = _sort_rows(rows)
        pieces = Pieces(*columns)
    most = int(number.max(initial=0)) + 1
    key = pieces.slot * most + number
    used = np.bincount(key) > 0
    keys, index = np.flatnonzero(used), (np.cumsum(used) - 1)[key]
    load = np.bincount(index, pieces.work(batch, weights), len(keys))
    ranked = np.argsort(-load, kind="stable")
    rank = np.empty(len(keys), np.int64)
    rank[ranked] = np.arange(len(keys))
    task = rank[index]
    order = stable_order(task)  # then by range and offset, as they are
    slot, further = keys[ranked] // most, keys[ranked] % most
    executor = batch.slot_executor[slot]
    consumer = batch.slot_number[slot] + further * batch.executor_slots[executor]
    anywhere = batch.anonymous | (demand.is_open & (further > 0))
    executor = np.where(anywhere, -1, executor)
    return TaskList(pieces.take(order), task[order], slot, consumer, executor, notes)


def _count_tasks_per_slot(
    pieces: Pieces, slots: int, options: PlannerOptions
) -> tuple[Ints, tuple[str, ...]]:
    """Return the tasks of each slot that has any work; and what was asked for in vain."""
    sizes, counts = pieces.records_by_slot(slots), np.bincount(pieces.slot, minlength=slots)
    used, notes = counts > 0, []
    ceiling = max(_MAX_TASKS, _MAX_TASKS_PER_SLOT * slots)
    parts = np.where(used, np.minimum(counts, options.tasks_per_slot), 0)
    if least := options.min_records_per_task:
        parts = np.where(used, np.clip(parts, 1, np.maximum(sizes // least, 1)), 0)
    if cap := options.task_cap_records:
        needed = np.ceil(sizes / cap)
        if needed.sum() > ceiling:
            notes.append(
                _explain_task_limit(f"a cap of {cap:,} records a task", needed.sum(), ceiling)
            )
            needed = np.ceil(sizes * ((ceiling - used.sum()) / sizes.sum()))
        parts = np.maximum(parts, needed)
    parts = parts.astype(np.int64)
    floor = min(options.min_partitions or 0, int(sizes.sum()))
    if floor > ceiling:
        notes.append(_explain_task_limit("minPartitions", floor, ceiling))
    most = sizes if options.split else counts
    missing = min(floor, ceiling) - int(parts.sum())
    with_work = np.flatnonzero(used).tolist() if missing > 0 else []
    heap = [(-sizes[slot] / parts[slot], slot) for slot in with_work]
    heapq.heapify(heap)
    while missing > 0 and heap:
        _, slot = heapq.heappop(heap)
        if parts[slot] < most[slot]:
            parts[slot] += 1
            missing -= 1
            heapq.heappush(heap, (-sizes[slot] / parts[slot], slot))
    return parts, tuple(notes)


def _explain_task_limit(what: str, asked: float, ceiling: int) -> str:
    return f"{what} asks for {asked:,.0f} tasks: a batch has at most {ceiling:,} here"


def _group_by_slot(pieces: Pieces) -> dict[int, list[Piece]]:
    of_slot: dict[int, list[Piece]] = {slot: [] for slot in np.unique(pieces.slot).tolist()}
    columns = (column.tolist() for column in (pieces.slot, pieces.row, pieces.start, pieces.end))
    for slot, row, start, end in zip(*columns, strict=True):
        of_slot[slot].append((row, start, end))
    return of_slot


def _sort_rows(rows: Sequence[tuple[int, ...]]) -> Ints:
    """Return rows that begin with a piece as columns, by range and offset."""
    columns = np.array(rows, np.int64).T
    return np.asarray(columns[:, np.lexsort(columns[1::-1])])


def _divide_among_tasks(
    of_slot: dict[int, list[Piece]], parts: Ints, options: PlannerOptions
) -> dict[Task, list[Piece]]:
    """Deal the pieces of each slot to its tasks; cut them only where an option forces it."""
    cap, tasks = options.task_cap_records, {}
    for slot, group in of_slot.items():
        count = int(parts[slot])
        groups = _group_whole_pieces(group, count)
        largest = max(map(_count_offsets, groups))
        if options.split and (len(groups) < count or (cap and count > 1 and largest > cap)):
            groups = _cut_into_even_groups(group, count)
        tasks.update({(slot, i): group for i, group in enumerate(groups)})
    return tasks


def _count_offsets(group: list[Piece]) -> int:
    return sum(end - start for _, start, end in group)


def _group_whole_pieces(pieces: list[Piece], count: int) -> list[list[Piece]]:
    """Divide without cutting: largest first, to the smallest group."""
    groups: list[list[Piece]] = [[] for _ in range(min(count, len(pieces)))]
    heap = [(0, i) for i in range(len(groups))]
    for piece in sorted(pieces, key=lambda p: (p[1] - p[2], p)):
        size, i = heap[0]
        groups[i].append(piece)
        heapq.heapreplace(heap, (size + piece[2] - piece[1], i))
    return groups


def _cut_into_even_groups(pieces: list[Piece], count: int) -> list[list[Piece]]:
    """Divide into equal numbers of offsets, cutting where a boundary falls inside a piece."""
    total, read = _count_offsets(pieces), 0
    groups: list[list[Piece]] = [[]]
    for row, first, last in pieces:
        start = first
        while start < last:
            until = total * len(groups) // count
            if read >= until:
                groups.append([])
                continue
            size = min(last - start, until - read)
            groups[-1].append((row, start, start + size))
            start, read = start + size, read + size
    return [group for group in groups if group]


def _top_up_small_slots(pieces: Pieces, slots: int, least: int) -> Pieces:
    """Return the pieces after `_top_up`, in the order of ranges and offsets."""
    records = pieces.records_by_slot(slots)
    if not ((records > 0) & (records < least)).any():
        return pieces
    of_slot = _group_by_slot(pieces)
    _top_up(of_slot, least)
    rows = [(*piece, slot) for slot, group in of_slot.items() for piece in group]
    return Pieces(*_sort_rows(rows))


def _top_up(of_slot: dict[int, list[Piece]], least: int) -> None:
    """Give slots below the minimum the ends of the fullest slots' largest pieces.

    Joining two tasks would double the load of a slot. No slot that gives falls below the minimum.
    """
    sizes = {slot: _count_offsets(group) for slot, group in of_slot.items()}
    givers = [(-size, slot) for slot, size in sizes.items() if size > least]
    heapq.heapify(givers)
    for slot, size in sizes.items():
        missing, passed_over = least - size, []
        while missing > 0 and givers:
            negative, giver = heapq.heappop(givers)
            taken = _move_end_of_piece(
                of_slot[giver], of_slot[slot], min(missing, -negative - least)
            )
            missing -= taken
            if not taken:
                passed_over.append((negative, giver))
            elif -negative - taken > least:
                heapq.heappush(givers, (negative + taken, giver))
        for each in passed_over:
            heapq.heappush(givers, each)


def _move_end_of_piece(giver: list[Piece], taker: list[Piece], most: int) -> int:
    """Move up to so many records from the end of a piece; return how many.

    Not of a range that the taker reads a part of already.
    """
    rows = {row for row, _, _ in taker}
    sizes = [(end - start, -row, i) for i, (row, start, end) in enumerate(giver) if row not in rows]
    if not sizes:
        return 0
    size, _, i = max(sizes)
    row, start, end = giver[i]
    taken = min(size, most)
    taker.append((row, end - taken, end))
    giver[i : i + 1] = [(row, start, end - taken)] if taken < size else []
    return taken


def _join_small_tasks(tasks: dict[Task, list[Piece]], least: int, slot_executor: Ints) -> None:
    """Join tasks below the minimum to others: to the smallest that can take it, near by first."""
    sizes = {task: _count_offsets(group) for task, group in tasks.items()}
    small = [(size, task) for task, size in sizes.items() if size < least]
    heapq.heapify(small)
    while small and len(sizes) > 1:
        size, task = heapq.heappop(small)
        if sizes.get(task) != size:
            continue
        home = slot_executor[task[0]]
        for other in sorted(
            (t for t in sizes if t != task),
            key=lambda t: (slot_executor[t[0]] != home, sizes[t], t),
        ):
            joined = _join_pieces(tasks[other], tasks[task])
            if joined is not None:
                tasks[other] = joined
                sizes[other] += size
                del tasks[task], sizes[task]
                if sizes[other] < least:
                    heapq.heappush(small, (sizes[other], other))
                break


def _join_pieces(one: list[Piece], other: list[Piece]) -> list[Piece] | None:
    """All pieces, touching ones as one; None if a range would be read in two places."""
    joined: list[Piece] = []
    for row, start, end in sorted(one + other):
        if joined and joined[-1][0] == row:
            if joined[-1][2] != start:
                return None
            joined[-1] = (row, joined[-1][1], end)
        else:
            joined.append((row, start, end))
    return joined

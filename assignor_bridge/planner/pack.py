"""Pack each slot's pieces into Spark tasks: one task per slot, unless options require otherwise.

Promises, in order:

1. At most 10,000 tasks, or 64 per slot on average if that is more, to limit the driver's work.
2. No task above `maxRecordsPerTask`, except with a partition that may not be split.
3. At least `minPartitions` tasks.
4. No task below `minRecordsPerTask` while another can give records or be joined to it.
5. At most `tasksPerSlot` tasks per slot.

Limits on records apply to offsets. Tasks are sorted by work, the longest first, because Spark
starts them in this order; tail tasks (`planner.tail`) follow. A task has at most one piece of a
range, so that its consumer never seeks back.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.pieces import Pieces
from assignor_bridge.planner.task_list import TaskList
from checkpoints.sorting import stable_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.options import PlannerOptions
    from assignor_bridge.planner.batch import Ints, MicroBatch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.demand import Demand

    Piece = tuple[int, int, int]  # row, start, end
    Task = tuple[int, int]  # slot, number of the task on its slot

_MAX_TASKS = 10_000  # maximum tasks of a batch, unless the next limit allows more
_MAX_MEAN_TASKS_PER_SLOT = 64  # maximum mean number of tasks per slot


def pack(
    batch: MicroBatch,
    pieces: Pieces,
    weights: Weights,
    demand: Demand,
    *,
    top_up: bool = True,
    tail_count: int = 0,
) -> TaskList:
    """Top up slots if `top_up` is set, divide their pieces among tasks, and sort the tasks.

    `tail_count`: number of tail tasks that will be appended; they count towards `minPartitions`.
    """
    options = batch.options.raise_min_partitions(demand.min_tasks)
    if tail_count and options.min_partitions:
        options = replace(options, min_partitions=max(1, options.min_partitions - tail_count))
    min_records = options.min_records_per_task
    if min_records and options.split and top_up:
        pieces = _top_up(pieces, batch.slots, min_records)
    task_counts, notes = _count_tasks(pieces, batch.slots, options)
    task_number = np.zeros(len(pieces), np.int64)  # of each piece, on its slot
    if len(pieces) and (min_records or (task_counts > 1).any()):
        tasks = _divide_among_tasks(_group_by_slot(pieces), task_counts, options)
        if min_records:
            _join_small_tasks(tasks, min_records, batch.slot_executor)
        rows = [(*piece, *task) for task, group in tasks.items() for piece in group]
        *columns, task_number = _sort_into_columns(rows)
        pieces = Pieces(*columns)
    stride = int(task_number.max(initial=0)) + 1
    key = pieces.slot * stride + task_number
    is_used = np.bincount(key) > 0
    keys, task_of_piece = np.flatnonzero(is_used), (np.cumsum(is_used) - 1)[key]
    work = np.bincount(task_of_piece, pieces.predict_work(batch, weights), len(keys))
    by_work = np.argsort(-work, kind="stable")
    rank = np.empty(len(keys), np.int64)
    rank[by_work] = np.arange(len(keys))
    task = rank[task_of_piece]
    order = stable_order(task)  # within a task, by range and offset
    slot, number_on_slot = keys[by_work] // stride, keys[by_work] % stride
    planned_executor = batch.slot_executor[slot]
    consumer = batch.slot_number[slot] + number_on_slot * batch.executor_slots[planned_executor]
    is_open = batch.anonymous | (demand.is_open & (number_on_slot > 0))
    executor = np.where(is_open, -1, planned_executor)
    return TaskList(pieces.take(order), task[order], slot, consumer, executor, notes)


def _count_tasks(
    pieces: Pieces, slots: int, options: PlannerOptions
) -> tuple[Ints, tuple[str, ...]]:
    """Return the number of tasks of each slot, and notes on options that require too many."""
    sizes = pieces.count_offsets_by_slot(slots)
    piece_counts = np.bincount(pieces.slot, minlength=slots)
    in_use, notes = piece_counts > 0, []
    max_tasks = max(_MAX_TASKS, _MAX_MEAN_TASKS_PER_SLOT * slots)
    task_counts = np.where(in_use, np.minimum(piece_counts, options.tasks_per_slot), 0)
    if min_records := options.min_records_per_task:
        max_full_tasks = np.maximum(sizes // min_records, 1)
        task_counts = np.where(in_use, np.clip(task_counts, 1, max_full_tasks), 0)
    if max_records := options.task_cap_records:
        needed_tasks = np.ceil(sizes / max_records)
        if needed_tasks.sum() > max_tasks:
            option = f"a limit of {max_records:,} records per task"
            notes.append(_explain_limit(option, needed_tasks.sum(), max_tasks))
            needed_tasks = np.ceil(sizes * ((max_tasks - in_use.sum()) / sizes.sum()))
        task_counts = np.maximum(task_counts, needed_tasks)
    task_counts = task_counts.astype(np.int64)
    min_tasks = min(options.min_partitions or 0, int(sizes.sum()))
    if min_tasks > max_tasks:
        notes.append(_explain_limit("minPartitions or dynamic allocation", min_tasks, max_tasks))
    max_counts = sizes if options.split else piece_counts
    missing_tasks = min(min_tasks, max_tasks) - int(task_counts.sum())
    slots_in_use = np.flatnonzero(in_use).tolist() if missing_tasks > 0 else []
    heap = [(-sizes[slot] / task_counts[slot], slot) for slot in slots_in_use]
    heapq.heapify(heap)
    while missing_tasks > 0 and heap:
        _, slot = heapq.heappop(heap)
        if task_counts[slot] < max_counts[slot]:
            task_counts[slot] += 1
            missing_tasks -= 1
            heapq.heappush(heap, (-sizes[slot] / task_counts[slot], slot))
    return task_counts, tuple(notes)


def _explain_limit(option: str, tasks: float, max_tasks: int) -> str:
    return f"{option} needs {tasks:,.0f} tasks, but this batch may have at most {max_tasks:,}"


def _group_by_slot(pieces: Pieces) -> dict[int, list[Piece]]:
    by_slot: dict[int, list[Piece]] = {slot: [] for slot in np.unique(pieces.slot).tolist()}
    columns = (column.tolist() for column in (pieces.slot, pieces.row, pieces.start, pieces.end))
    for slot, row, start, end in zip(*columns, strict=True):
        by_slot[slot].append((row, start, end))
    return by_slot


def _sort_into_columns(rows: Sequence[tuple[int, ...]]) -> Ints:
    """Sort rows that begin with a piece by range and offset; return them as columns."""
    columns = np.array(rows, np.int64).T
    return np.asarray(columns[:, np.lexsort(columns[1::-1])])


def _divide_among_tasks(
    by_slot: dict[int, list[Piece]], task_counts: Ints, options: PlannerOptions
) -> dict[Task, list[Piece]]:
    """Divide the pieces of each slot among its tasks; cut them only if an option requires it."""
    max_records, tasks = options.task_cap_records, {}
    for slot, group in by_slot.items():
        count = int(task_counts[slot])
        groups = _group_whole_pieces(group, count)
        is_too_large = max_records and count > 1 and max(map(_count_offsets, groups)) > max_records
        if options.split and (len(groups) < count or is_too_large):
            groups = _cut_into_even_groups(group, count)
        tasks.update({(slot, i): task_pieces for i, task_pieces in enumerate(groups)})
    return tasks


def _count_offsets(group: list[Piece]) -> int:
    return sum(end - start for _, start, end in group)


def _group_whole_pieces(pieces: list[Piece], count: int) -> list[list[Piece]]:
    """Divide pieces into at most `count` groups: add the next largest to the smallest group."""
    groups: list[list[Piece]] = [[] for _ in range(min(count, len(pieces)))]
    heap = [(0, i) for i in range(len(groups))]
    for piece in sorted(pieces, key=lambda p: (p[1] - p[2], p)):
        size, i = heap[0]
        groups[i].append(piece)
        heapq.heapreplace(heap, (size + piece[2] - piece[1], i))
    return groups


def _cut_into_even_groups(pieces: list[Piece], count: int) -> list[list[Piece]]:
    """Cut pieces into `count` groups of about equally many offsets; fewer if offsets are fewer."""
    total, grouped_offsets = _count_offsets(pieces), 0
    groups: list[list[Piece]] = [[]]
    for row, first, end in pieces:
        start = first
        while start < end:
            boundary = total * len(groups) // count
            if grouped_offsets >= boundary:
                groups.append([])
                continue
            size = min(end - start, boundary - grouped_offsets)
            groups[-1].append((row, start, start + size))
            start, grouped_offsets = start + size, grouped_offsets + size
    return [group for group in groups if group]


def _top_up(pieces: Pieces, slots: int, min_records: int) -> Pieces:
    """Move ends of the fullest slots' largest pieces to slots in use that are below the minimum.

    Joining two tasks would double a slot's load instead. No giver falls below the minimum.
    """
    offsets = pieces.count_offsets_by_slot(slots)
    if not ((offsets > 0) & (offsets < min_records)).any():
        return pieces
    by_slot = _group_by_slot(pieces)
    sizes = {slot: _count_offsets(group) for slot, group in by_slot.items()}
    givers = [(-size, slot) for slot, size in sizes.items() if size > min_records]
    heapq.heapify(givers)
    for slot, size in sizes.items():
        missing_offsets, skipped_givers = min_records - size, []
        while missing_offsets > 0 and givers:
            negative_size, giver = heapq.heappop(givers)
            max_offsets = min(missing_offsets, -negative_size - min_records)
            moved_offsets = _move_end_of_piece(by_slot[giver], by_slot[slot], max_offsets)
            missing_offsets -= moved_offsets
            if not moved_offsets:
                skipped_givers.append((negative_size, giver))
            elif -negative_size - moved_offsets > min_records:
                heapq.heappush(givers, (negative_size + moved_offsets, giver))
        for skipped_giver in skipped_givers:
            heapq.heappush(givers, skipped_giver)
    rows = [(*piece, slot) for slot, group in by_slot.items() for piece in group]
    return Pieces(*_sort_into_columns(rows))


def _move_end_of_piece(giver: list[Piece], taker: list[Piece], max_offsets: int) -> int:
    """Move the end of the largest piece whose range the taker lacks; return its size or 0."""
    rows = {row for row, _, _ in taker}
    sizes = [(end - start, -row, i) for i, (row, start, end) in enumerate(giver) if row not in rows]
    if not sizes:
        return 0
    size, _, i = max(sizes)
    row, start, end = giver[i]
    moved_offsets = min(size, max_offsets)
    taker.append((row, end - moved_offsets, end))
    giver[i : i + 1] = [(row, start, end - moved_offsets)] if moved_offsets < size else []
    return moved_offsets


def _join_small_tasks(
    tasks: dict[Task, list[Piece]], min_records: int, slot_executor: Ints
) -> None:
    """Join each task below the minimum to another, if `_join_pieces` can join them.

    The smallest task of its executor is preferred, then the smallest of all.
    """
    sizes = {task: _count_offsets(group) for task, group in tasks.items()}
    small_tasks = [(size, task) for task, size in sizes.items() if size < min_records]
    heapq.heapify(small_tasks)
    while small_tasks and len(sizes) > 1:
        size, task = heapq.heappop(small_tasks)
        if sizes.get(task) != size:
            continue
        executor = slot_executor[task[0]]
        for other in sorted(
            (t for t in sizes if t != task),
            key=lambda t: (slot_executor[t[0]] != executor, sizes[t], t),
        ):
            joined_pieces = _join_pieces(tasks[other], tasks[task])
            if joined_pieces is not None:
                tasks[other] = joined_pieces
                sizes[other] += size
                del tasks[task], sizes[task]
                if sizes[other] < min_records:
                    heapq.heappush(small_tasks, (sizes[other], other))
                break


def _join_pieces(one: list[Piece], other: list[Piece]) -> list[Piece] | None:
    """Join two tasks and merge adjacent pieces; None if pieces of a range are not adjacent."""
    joined_pieces: list[Piece] = []
    for row, start, end in sorted(one + other):
        if joined_pieces and joined_pieces[-1][0] == row:
            if joined_pieces[-1][2] != start:
                return None
            joined_pieces[-1] = (row, joined_pieces[-1][1], end)
        else:
            joined_pieces.append((row, start, end))
    return joined_pieces

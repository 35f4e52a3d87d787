"""Divide the ends of pieces among tail tasks, and choose executors that these tasks prefer."""

from __future__ import annotations

import heapq
import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.planner.batch import Ints, MicroBatch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.pieces import Pieces
    from assignor_bridge.planner.tail_shape import TailCosts, TailShape

    Part = tuple[int, int, int]  # piece, start, end
    _End = tuple[int, int, int, int, float]  # piece, row, start, end, seconds per offset

#: Maximum number of executors that a task prefers; each costs the driver memory and time.
MAX_EXECUTORS = 16
#: A prime beyond the number of strides, so that consecutive rounds have unrelated strides.
_STRIDE_STEP = 7919


def divide_ends(
    batch: MicroBatch,
    weights: Weights,
    pieces: Pieces,
    piece_index: Ints,
    tail_offsets: Ints,
    *,
    shape: TailShape,
    costs: TailCosts,
) -> list[list[Part]]:
    """Divide ends of pieces among tail tasks, longest ends first; drop tasks without any.

    `tail_offsets`: number of offsets of the end of each piece in `piece_index`; 0 for none.
    """
    options, row = batch.options, pieces.row[piece_index]
    seconds_per_offset = (weights.work - weights.fixed_work)[row] / batch.size[row]
    end_s = seconds_per_offset * tail_offsets
    order = np.flatnonzero(tail_offsets)
    order = order[np.lexsort((piece_index[order], -end_s[order]))]
    scale = float(end_s.sum()) / sum(shape.task_s)
    room_s_by_task = [seconds * scale for seconds in shape.task_s]
    end = pieces.end[piece_index]
    columns = (piece_index, row, end - tail_offsets, end, seconds_per_offset)
    ends = list(zip(*(column[order].tolist() for column in columns), strict=True))
    if options.split:
        overhead_s = costs.cold_read_s + costs.range_s
        return _fill_tasks(ends, room_s_by_task, overhead_s, options.task_cap_records)
    heap = [(-room_s, number) for number, room_s in enumerate(room_s_by_task)]
    heapq.heapify(heap)
    tasks: list[list[Part]] = [[] for _ in room_s_by_task]
    for piece, _, start, end, s_per_offset in ends:  # give each to the task with most room
        negative_room_s, number = heap[0]
        tasks[number].append((piece, start, end))
        heapq.heapreplace(heap, (negative_room_s + (end - start) * s_per_offset, number))
    return [task for task in tasks if task]


def _fill_tasks(
    ends: list[_End], room_s_by_task: list[float], overhead_s: float, max_records: int | None
) -> list[list[Part]]:
    """Fill tasks one after the other, so that few ends are cut.

    A task has at most one part of a range, and at most `max_records` offsets if that is set. So
    more tasks may be needed than `room_s_by_task` has; they get its last length. `overhead_s`: cost
    of a part. A remainder below it stays with its part if the limit allows.
    """
    tasks: list[list[Part]] = []
    task: list[Part] = []
    number, room_s, task_offsets, task_rows = 0, room_s_by_task[0], 0, set[int]()
    for piece, row, first, end, s_per_offset in ends:
        start = first
        while start < end:
            max_offsets = (max_records - task_offsets) if max_records else end - start
            is_full = room_s <= min(overhead_s, room_s_by_task[number] / 4) or max_offsets <= 0
            if task and (is_full or row in task_rows):
                tasks.append(task)
                number = min(number + 1, len(room_s_by_task) - 1)
                task_offsets, task_rows, task = 0, set(), []
                room_s = room_s_by_task[number] + min(room_s, 0.0)  # less what was overfilled
                continue
            offsets = max(1, min(end - start, round(room_s / s_per_offset) if room_s > 0 else 1))
            if (end - start - offsets) * s_per_offset < overhead_s:
                offsets = end - start
            offsets = min(offsets, max(max_offsets, 1))
            task.append((piece, start, start + offsets))
            task_rows.add(row)
            start, task_offsets = start + offsets, task_offsets + offsets
            room_s -= offsets * s_per_offset
    return [*tasks, task] if task else tasks


def spread_executors(executors: Sequence[int], number: int) -> tuple[int, ...]:
    """Return the executors that a tail task prefers: all, or `MAX_EXECUTORS` of them.

    `number`: number of the task. Consecutive tasks start at consecutive executors, and each round
    over the executors has another stride, so that each executor is preferred by equally many tasks.
    Without preferred executors, Spark would let heads move between executors of a host.

    >>> [spread_executors(range(20), number)[:3] for number in (0, 1, 20)]
    [(0, 1, 2), (1, 2, 3), (0, 19, 18)]
    """
    executor_count = len(executors)
    if executor_count <= MAX_EXECUTORS:
        return tuple(executors)
    strides = _find_strides(executor_count)
    stride = strides[(number // executor_count * _STRIDE_STEP) % len(strides)]
    indices = ((number + stride * step) % executor_count for step in range(MAX_EXECUTORS))
    return tuple(executors[i] for i in indices)


@cache
def _find_strides(count: int) -> list[int]:
    """Return the strides that visit all of `count` executors before they repeat one."""
    return [stride for stride in range(1, count) if math.gcd(stride, count) == 1] or [1]

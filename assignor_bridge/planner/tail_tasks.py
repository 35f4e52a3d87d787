"""Divide the ends of pieces among tail tasks, and choose the executors that the tasks prefer."""

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
    _End = tuple[int, int, int, int, float]  # piece, row, end, offsets, seconds per offset

#: Maximum number of executors that a task prefers; each costs the driver memory and time.
MAX_EXECUTORS = 16
#: A prime beyond the number of strides, so that consecutive rounds have unrelated strides.
_STRIDE_STEP = 7919


def divide_ends(
    batch: MicroBatch,
    weights: Weights,
    pieces: Pieces,
    index: Ints,
    moved: Ints,
    *,
    shape: TailShape,
    costs: TailCosts,
) -> list[list[Part]]:
    """Divide ends of pieces among tail tasks, largest ends first."""
    settings = batch.settings
    row, chosen = pieces.row[index], np.flatnonzero(moved)
    variable = (weights.work - weights.fixed)[row] / batch.size[row]
    amount = variable * moved
    chosen = chosen[np.lexsort((index[chosen], -amount[chosen]))]
    scale = float(amount.sum()) / sum(shape.task_s)
    rooms = [seconds * scale for seconds in shape.task_s]
    columns = (index, row, pieces.end[index], moved, variable)
    ends = list(zip(*(column[chosen].tolist() for column in columns), strict=True))
    if settings.split:
        sliver_s = costs.cold_read_s + costs.range_s
        return _fill_tasks(ends, rooms, sliver_s, settings.task_cap_records)
    heap = [(-room, number) for number, room in enumerate(rooms)]
    heapq.heapify(heap)
    tasks: list[list[Part]] = [[] for _ in rooms]
    for piece, _, end, count, per_record in ends:  # each end goes to the emptiest task
        negative_room, number = heap[0]
        tasks[number].append((piece, end - count, end))
        heapq.heapreplace(heap, (negative_room + count * per_record, number))
    return [task for task in tasks if task]


def _fill_tasks(
    ends: list[_End], rooms: list[float], sliver_s: float, max_records: int | None
) -> list[list[Part]]:
    """Fill tasks one after the other, so that few ends are cut.

    A task holds at most one part of a range. `rooms`: seconds of each task. `sliver_s`: seconds
    that a part costs; a remainder below it is not worth a task.
    """
    tasks: list[list[Part]] = []
    task: list[Part] = []
    number, room, records, rows = 0, rooms[0], 0, set[int]()
    for piece, row, end, count, per_record in ends:
        start = end - count
        while start < end:
            cap = (max_records - records) if max_records else end - start
            if task and (room <= min(sliver_s, rooms[number] / 4) or row in rows or cap <= 0):
                tasks.append(task)
                number, records, rows, task = min(number + 1, len(rooms) - 1), 0, set(), []
                room = rooms[number] + min(room, 0.0)
                continue
            part = max(1, min(end - start, round(room / per_record) if room > 0 else 1))
            if (end - start - part) * per_record < sliver_s:
                part = end - start
            part = min(part, max(cap, 1))
            task.append((piece, start, start + part))
            rows.add(row)
            start, room, records = start + part, room - part * per_record, records + part
    return [*tasks, task] if task else tasks


def spread_executors(executors: Sequence[int], number: int) -> tuple[int, ...]:
    """Return the executors that a tail task prefers, at most `MAX_EXECUTORS`.

    Consecutive tasks start at consecutive executors, and each round over the executors has another
    stride, so that each executor is preferred by equally many tasks. Without preferred executors,
    Spark would let heads move between executors of a host.

    >>> [spread_executors(range(20), number)[:3] for number in (0, 1, 20)]
    [(0, 1, 2), (1, 2, 3), (0, 19, 18)]
    """
    count = len(executors)
    if count <= MAX_EXECUTORS:
        return tuple(executors)
    strides = _find_strides(count)
    stride = strides[(number // count * _STRIDE_STEP) % len(strides)]
    return tuple(executors[(number + stride * place) % count] for place in range(MAX_EXECUTORS))


@cache
def _find_strides(count: int) -> list[int]:
    """Return the strides that visit all executors before they repeat one."""
    return [stride for stride in range(1, count) if math.gcd(stride, count) == 1] or [1]

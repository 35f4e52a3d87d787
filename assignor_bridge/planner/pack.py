"""Packing: how the pieces of each slot become Spark tasks.

One task a slot unless an option asks for others. In order of rank: at most 64 tasks a slot or
10,000, whichever is more, for the driver's sake; no task above `maxRecordsPerTask` (a partition
that may not be split excepted); at least `minPartitions` tasks; none below `minRecordsPerTask` as
long as there is another to join it to; at most `tasksPerSlot` tasks a slot. Tasks come out longest
first, so that what Spark starts last is short. A task holds at most one piece of a range, so its
consumer never has to jump back.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.ordering import stable_order
from assignor_bridge.planner.pieces import Pieces

if TYPE_CHECKING:
    from assignor_bridge.options import PlannerOptions
    from assignor_bridge.planner.batch import Batch, Floats, Ints
    from assignor_bridge.planner.weights import Weights

    #: A piece: row, start, end.
    Piece = tuple[int, int, int]


#: Tasks of a batch: at most so many, or so many a slot, whichever is more.
_MOST_TASKS, _MOST_TASKS_PER_SLOT = 10_000, 64


@dataclass(frozen=True, eq=False)
class Tasks:
    """Tasks as columns, and the pieces in the order in which they are listed and read."""

    pieces: Pieces
    #: Task of each piece: rises.
    task: Ints
    #: Slot (over all executors) of each task.
    slot: Ints
    #: Names the task's consumer on its executor: the slot's number; further tasks of a slot add
    #: the executor's slots once, twice, …
    number: Ints
    #: What had to give way, for people.
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.slot)


def slots_worth_using(batch: Batch, options: PlannerOptions) -> int:
    """Count the slots to plan for, when `minRecordsPerTask` makes tasks few."""
    least = options.min_records_per_task
    if not least:
        return batch.slots
    return int(max(1, min(batch.slots, batch.total // least)))


def pack(batch: Batch, pieces: Pieces, weights: Weights, options: PlannerOptions) -> Tasks:
    """Make tasks of the pieces."""
    sizes = np.bincount(pieces.slot, (pieces.end - pieces.start).astype(np.float64), batch.slots)
    counts = np.bincount(pieces.slot, minlength=batch.slots)
    parts, notes = _tasks_wanted(np.asarray(sizes, np.float64), counts, options)
    sub = np.zeros(len(pieces), np.int64)
    if (parts > 1).any():
        pieces, sub = _divide(pieces, parts, options)
    if options.min_records_per_task:
        pieces, sub = _join_small(pieces, sub, options.min_records_per_task, batch)
    key = pieces.slot * (int(sub.max(initial=0)) + 1) + sub
    used = np.bincount(key) > 0
    keys, index = np.flatnonzero(used), (np.cumsum(used) - 1)[key]
    load = np.bincount(index, pieces.weight(batch, weights.work, weights.fixed), len(keys))
    ranked = np.lexsort((keys, -load))
    rank = np.empty(len(keys), np.int64)
    rank[ranked] = np.arange(len(keys))
    task = rank[index]
    order = stable_order(task)  # then by range and offset, as they are
    slot = np.empty(len(keys), np.int64)
    slot[task] = pieces.slot
    further = np.empty(len(keys), np.int64)
    further[task] = sub
    slots = batch.executor_slots[batch.slot_executor[slot]]
    number = batch.slot_number[slot] + further * slots
    return Tasks(_taken(pieces, order), task[order], slot, number, notes)


def _taken(pieces: Pieces, order: Ints) -> Pieces:
    return Pieces(pieces.row[order], pieces.start[order], pieces.end[order], pieces.slot[order])


def _tasks_wanted(
    sizes: Floats, counts: Ints, options: PlannerOptions
) -> tuple[Ints, tuple[str, ...]]:
    """Tasks of each slot that has any work; and what was asked for, where it is too many."""
    used, notes = counts > 0, []
    ceiling = max(_MOST_TASKS, _MOST_TASKS_PER_SLOT * len(sizes))
    wanted = np.where(used, np.minimum(counts, options.tasks_per_slot), 0)
    least = options.min_records_per_task
    if least:
        wanted = np.where(used, np.clip(wanted, 1, np.maximum(sizes // least, 1)), 0)
    cap = options.task_cap_records
    if cap:
        needed = np.ceil(sizes / cap)
        if needed.sum() > ceiling:
            notes.append(_too_many(f"a cap of {cap:,} records a task", needed.sum(), ceiling))
            needed = np.ceil(sizes * ((ceiling - used.sum()) / sizes.sum()))
        wanted = np.maximum(wanted, needed)
    wanted = wanted.astype(np.int64)
    floor = min(options.min_partitions or 0, int(sizes.sum()))
    if floor > ceiling:
        notes.append(_too_many("minPartitions", floor, ceiling))
    missing = min(floor, ceiling) - int(wanted.sum())
    if missing > 0:
        most = sizes if options.split else counts
        heap = [(-sizes[s] / wanted[s], s) for s in np.flatnonzero(used).tolist()]
        heapq.heapify(heap)
        while missing > 0 and heap:
            _, slot = heapq.heappop(heap)
            if wanted[slot] < most[slot]:
                wanted[slot] += 1
                missing -= 1
                heapq.heappush(heap, (-sizes[slot] / wanted[slot], slot))
    return np.asarray(wanted), tuple(notes)


def _too_many(what: str, asked: float, ceiling: int) -> str:
    return f"{what} asks for {asked:,.0f} tasks: a batch has at most {ceiling:,} here"


def _divide(pieces: Pieces, parts: Ints, options: PlannerOptions) -> tuple[Pieces, Ints]:
    """Deal the pieces of each slot to its tasks; cut them only where an option forces it."""
    cap = options.task_cap_records
    rows: list[Piece] = []
    slots: list[int] = []
    subs: list[int] = []
    order = stable_order(pieces.slot)
    first = np.searchsorted(pieces.slot[order], np.arange(len(parts) + 1)).tolist()
    row, start, end = pieces.row.tolist(), pieces.start.tolist(), pieces.end.tolist()
    for slot, count in enumerate(parts.tolist()):
        mine = [(row[i], start[i], end[i]) for i in order[first[slot] : first[slot + 1]].tolist()]
        if count <= 1:
            groups = [mine] if mine else []
        else:
            groups = _whole_groups(mine, count)
            if options.split and (
                len(groups) < count
                or (cap and max(sum(e - s for _, s, e in g) for g in groups) > cap)
            ):
                groups = _even_groups(mine, count)
        for sub, group in enumerate(groups):
            rows += group
            slots += [slot] * len(group)
            subs += [sub] * len(group)
    columns = np.array(rows, np.int64).reshape(-1, 3)
    divided = Pieces(columns[:, 0], columns[:, 1], columns[:, 2], np.array(slots, np.int64))
    order = np.lexsort((divided.start, divided.row))
    return _taken(divided, order), np.array(subs, np.int64)[order]


def _whole_groups(pieces: list[Piece], count: int) -> list[list[Piece]]:
    """Divide without cutting: largest first, to the smallest group."""
    groups: list[list[Piece]] = [[] for _ in range(min(count, len(pieces)))]
    heap = [(0, i) for i in range(len(groups))]
    for piece in sorted(pieces, key=lambda p: (p[1] - p[2], p)):
        size, i = heap[0]
        groups[i].append(piece)
        heapq.heapreplace(heap, (size + piece[2] - piece[1], i))
    return groups


def _even_groups(pieces: list[Piece], count: int) -> list[list[Piece]]:
    """Divide into equal numbers of offsets, cutting where a boundary falls inside a piece."""
    total = sum(end - start for _, start, end in pieces)
    groups: list[list[Piece]] = [[]]
    done = 0
    for row, first, last in pieces:
        start = first
        while start < last:
            until = total * len(groups) // count
            if done >= until:
                groups.append([])
                continue
            size = min(last - start, until - done)
            groups[-1].append((row, start, start + size))
            start += size
            done += size
    return [group for group in groups if group]


def _join_small(pieces: Pieces, sub: Ints, least: int, batch: Batch) -> tuple[Pieces, Ints]:
    """Join tasks below the minimum to others: to the smallest that can take it, near by first."""
    tasks: dict[tuple[int, int], list[Piece]] = {}
    for row, start, end, slot, part in zip(
        pieces.row.tolist(), pieces.start.tolist(), pieces.end.tolist(), pieces.slot.tolist(),
        sub.tolist(), strict=True,
    ):  # fmt: skip
        tasks.setdefault((slot, part), []).append((row, start, end))
    sizes = {key: sum(e - s for _, s, e in group) for key, group in tasks.items()}
    small = [(size, key) for key, size in sizes.items() if size < least]
    heapq.heapify(small)
    while small and len(sizes) > 1:
        size, key = heapq.heappop(small)
        if sizes.get(key) != size:
            continue
        home = batch.slot_executor[key[0]]
        for other in sorted(
            (k for k in sizes if k != key),
            key=lambda k: (batch.slot_executor[k[0]] != home, sizes[k], k),
        ):
            joined = _joined(tasks[other], tasks[key])
            if joined is not None:
                tasks[other] = joined
                sizes[other] += size
                del tasks[key], sizes[key]
                if sizes[other] < least:
                    heapq.heappush(small, (sizes[other], other))
                break
    flat = sorted((row, s, e, key) for key, group in tasks.items() for row, s, e in group)
    columns = np.array([(r, s, e, k[0], k[1]) for r, s, e, k in flat], np.int64).reshape(-1, 5)
    return Pieces(*(columns[:, i] for i in range(4))), columns[:, 4]


def _joined(one: list[Piece], other: list[Piece]) -> list[Piece] | None:
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

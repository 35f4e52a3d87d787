"""Figures of one stage: which heads moved, in which order tails ran, and which slots were idle."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True)
class LaunchedTask:
    """A finished task from Spark's status store; `task_id` is the order of launches."""

    index: int
    task_id: int
    executor: str
    locality: str
    launch_ms: int
    end_ms: int


@dataclass(frozen=True)
class Placement:
    """The figures of one stage, or the sums of several."""

    heads: int
    #: Heads that ran on another executor than their own.
    moved_heads: int
    #: Of these, heads that were launched while a tail was still to be launched.
    moved_before_tails: int
    tails: int
    #: Tails that were launched after a tail of a higher index.
    tails_out_of_order: int
    #: Seconds of all slots from the first launch to the launch of the last tail.
    slot_s: float
    #: Of these, seconds in which a slot ran no task, nor one of the other job.
    idle_s: float
    #: Longest time in which an executor had an idle slot before the last tail was launched.
    longest_gap_s: float
    #: Seconds from the first launch to the last end.
    stage_s: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure_placement(
    tasks: Sequence[LaunchedTask],
    owners: Sequence[str],
    slots: Mapping[str, int],
    other_job: Sequence[LaunchedTask] = (),
) -> Placement:
    """Return the figures of a stage.

    Args:
        tasks: all tasks of the stage
        owners: executor of each head; the heads are the tasks with the lowest indices
        slots: number of slots of each executor
        other_job: tasks of another job, which hold slots
    """
    launched = sorted(tasks, key=lambda task: task.task_id)
    heads = [task for task in launched if task.index < len(owners)]
    tails = [task for task in launched if task.index >= len(owners)]
    moved = [task for task in heads if task.executor != owners[task.index]]
    begin_ms, last = launched[0].launch_ms, tails[-1]
    gaps = [
        _find_gaps([t for t in (*tasks, *other_job) if t.executor == executor], count,
                   begin_ms, last.launch_ms)
        for executor, count in slots.items()
    ]  # fmt: skip
    return Placement(
        heads=len(heads),
        moved_heads=len(moved),
        moved_before_tails=sum(task.task_id < last.task_id for task in moved),
        tails=len(tails),
        tails_out_of_order=_count_overtaken([task.index for task in tails]),
        slot_s=sum(slots.values()) * (last.launch_ms - begin_ms) / 1000,
        idle_s=sum(idle_ms for idle_ms, _ in gaps) / 1000,
        longest_gap_s=max(longest_ms for _, longest_ms in gaps) / 1000,
        stage_s=(max(task.end_ms for task in tasks) - begin_ms) / 1000,
    )


def sum_placements(placements: Sequence[Placement]) -> Placement:
    """Return the sums of several stages; the longest gap is the longest of all."""
    rows = [placement.to_dict() for placement in placements]
    sums = {name: round(sum(row[name] for row in rows), 3) for name in rows[0]}
    return Placement(**(sums | {"longest_gap_s": max(row["longest_gap_s"] for row in rows)}))


def _count_overtaken(indices: Iterable[int]) -> int:
    highest, count = -1, 0
    for index in indices:
        count += index < highest
        highest = max(highest, index)
    return count


def _find_gaps(
    tasks: Iterable[LaunchedTask], slots: int, begin_ms: int, end_ms: int
) -> tuple[int, int]:
    """Return an executor's idle slot milliseconds, and its longest time with an idle slot."""
    changes = [(begin_ms, 0), (end_ms, 0)]
    for task in tasks:
        start, end = (min(max(ms, begin_ms), end_ms) for ms in (task.launch_ms, task.end_ms))
        changes += [(start, 1), (end, -1)]
    changes.sort()
    idle_ms = longest_ms = gap_ms = running = 0
    for (at_ms, change), (next_ms, _) in itertools.pairwise(changes):
        running += change
        idle_ms += max(0, slots - running) * (next_ms - at_ms)
        if next_ms > at_ms:
            gap_ms = gap_ms + next_ms - at_ms if running < slots else 0
            longest_ms = max(longest_ms, gap_ms)
    return idle_ms, longest_ms

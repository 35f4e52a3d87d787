"""Heads and tails as Spark's scheduler sees them: durations and preferred locations."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Locations of a tail, by the name of the marking.
MARKINGS = {
    "A": "none",
    "B": "all executors",
    "B3": "three executors",
    "C": "the executors of the head's host",
    "D": "all hosts",
}
CAPPED_LOCATIONS = 3
TAILS_PER_SLOT = 4
HEAD_MS, STALL_FACTOR = 300, 5
#: A prime beyond the number of strides, so that consecutive rounds have unrelated strides.
_STRIDE_STEP = 7919
#: Durations of the tails, largest first.
MAX_TAIL_MS, MIN_TAIL_MS = 160, 60


@dataclass(frozen=True)
class Slot:
    """One of an executor's task slots."""

    host: str
    executor: str

    @property
    def location(self) -> str:
        """Spark's string for a location on an executor."""
        return f"executor_{self.host}_{self.executor}"


@dataclass(frozen=True)
class MarkedTask:
    """The duration and the preferred locations of a task; its index is its place in the stage."""

    ms: int
    locations: tuple[str, ...]


def mark_tasks(slots: Sequence[Slot], marking: str) -> list[MarkedTask]:
    """Return one head per slot, then the tails; the first head stalls.

    >>> slots = [Slot("a", "0"), Slot("a", "1"), Slot("b", "2")]
    >>> tasks = mark_tasks(slots, "C")
    >>> [task.ms for task in tasks[:3]], tasks[2].locations
    ([1500, 300, 300], ('executor_b_2',))
    >>> tasks[3].locations, tasks[5].locations
    (('executor_a_0', 'executor_a_1'), ('executor_b_2',))
    """
    heads = [
        MarkedTask(HEAD_MS * (1 if index else STALL_FACTOR), (slot.location,))
        for index, slot in enumerate(slots)
    ]
    count = TAILS_PER_SLOT * len(slots)
    step_ms = (MAX_TAIL_MS - MIN_TAIL_MS) / (count - 1)
    return heads + [
        MarkedTask(round(MAX_TAIL_MS - step_ms * number), locate_tail(slots, number, marking))
        for number in range(count)
    ]


def locate_tail(slots: Sequence[Slot], number: int, marking: str) -> tuple[str, ...]:
    """Return the locations of a tail, which was cut from the work of slot `number % slots`."""
    owner = slots[number % len(slots)]
    executors = list(dict.fromkeys(slot.location for slot in slots))
    if marking == "A":
        return ()
    if marking == "B":
        return tuple(executors)
    if marking == "B3":
        numbers = spread_numbers(number, len(executors), CAPPED_LOCATIONS)
        return tuple(executors[n] for n in numbers)
    if marking == "C":
        return tuple(dict.fromkeys(s.location for s in slots if s.host == owner.host))
    return tuple(dict.fromkeys(slot.host for slot in slots))


def spread_numbers(tail: int, executors: int, max_locations: int) -> list[int]:
    """Return the executors of a tail, so that each executor is on equally many lists.

    Consecutive tails take consecutive executors; each round over the executors has another stride.

    >>> [spread_numbers(tail, 6, 3) for tail in (0, 1, 5, 6)]
    [[0, 1, 2], [1, 2, 3], [5, 0, 1], [0, 5, 4]]
    """
    strides = _find_strides(executors)
    stride = strides[(tail // executors * _STRIDE_STEP) % len(strides)]
    return [(tail + stride * place) % executors for place in range(min(max_locations, executors))]


@functools.cache
def _find_strides(executors: int) -> list[int]:
    """Return the strides that visit all executors before they repeat one."""
    return [s for s in range(1, executors) if math.gcd(s, executors) == 1] or [1]

"""What Spark's scheduler makes of tasks: where each runs, and when it ends.

Delay scheduling, as in `TaskSetManager`: a free slot takes the next task that prefers its executor,
else one without preference, else, when nobody has started a task where it wanted for
`locality_wait` seconds, any task. Tasks are considered in the order of the plan.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assignor_bridge.model import Executor


@dataclass(frozen=True, slots=True)
class Run:
    """One task's run: where, and when it ended."""

    task: int
    executor: str
    end_seconds: float


def schedule(
    preferred: Sequence[str | None],
    seconds: Callable[[int, str], float],
    executors: Sequence[Executor],
    locality_wait: float = 3.0,
) -> list[Run]:
    """Run tasks on the slots; `seconds(task, executor)` says how long one takes there."""
    local: dict[str, deque[int]] = {e.id: deque() for e in executors}
    anywhere: deque[int] = deque()
    for index, place in enumerate(preferred):
        (anywhere if place is None else local.get(place, anywhere)).append(index)
    slots = [(e.id, n) for n, e in enumerate(e for e in executors for _ in range(e.slots))]
    free = [(0.0, slot, executor) for executor, slot in slots]
    heapq.heapify(free)
    started: set[int] = set()
    order = deque(range(len(preferred)))
    runs: list[Run] = []
    last_local = 0.0
    while len(runs) < len(preferred):
        now, slot, executor = heapq.heappop(free)
        task: int | None = _next(local[executor], started)
        if task is None:
            task = _next(anywhere, started)
        else:
            last_local = now
        if task is None:
            if now < last_local + locality_wait:
                heapq.heappush(free, (last_local + locality_wait, slot, executor))
                continue
            task = _next(order, started)
        if task is None:
            continue
        started.add(task)
        end = now + seconds(task, executor)
        runs.append(Run(task, executor, end))
        heapq.heappush(free, (end, slot, executor))
    return runs


def _next(queue: deque[int], started: set[int]) -> int | None:
    """Take the first task of a queue that nobody has started."""
    while queue:
        task = queue.popleft()
        if task not in started:
            return task
    return None

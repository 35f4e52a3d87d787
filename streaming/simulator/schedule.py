"""Simulate Spark's scheduler, which decides where and when each task runs.

It uses delay scheduling as in `TaskSetManager`. A free slot takes, in the order of the plan:

1. the next task that prefers its executor,
2. or a task that prefers no executor, or only absent ones,
3. or any task, if no task has started on an executor that it prefers for `locality_wait_s`.
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
class TaskRun:
    """A task's executor and end time, in seconds since the start of the batch."""

    task: int
    executor: str
    end_seconds: float


def schedule(
    preferred_executors: Sequence[tuple[str, ...]],
    compute_seconds: Callable[[int, str], float],
    executors: Sequence[Executor],
    locality_wait_s: float = 3.0,
) -> list[TaskRun]:
    """Return the task runs in start order; `compute_seconds(task, executor)` is a run's time."""
    queue_by_executor: dict[str, deque[int]] = {e.id: deque() for e in executors}
    unbound_tasks: deque[int] = deque()
    for index, executor_ids in enumerate(preferred_executors):
        queues = [queue_by_executor[id_] for id_ in executor_ids if id_ in queue_by_executor]
        for queue in queues or [unbound_tasks]:
            queue.append(index)
    slot_heap = [(0.0, n, e.id) for n, e in enumerate(e for e in executors for _ in range(e.slots))]
    heapq.heapify(slot_heap)
    started_tasks: set[int] = set()
    all_tasks = deque(range(len(preferred_executors)))
    runs: list[TaskRun] = []
    last_local_s = 0.0
    while len(runs) < len(preferred_executors):
        now_s, slot, executor = heapq.heappop(slot_heap)
        task: int | None = _take_next(queue_by_executor[executor], started_tasks)  # 1
        if task is None:
            task = _take_next(unbound_tasks, started_tasks)  # 2
        else:
            last_local_s = now_s
        if task is None:
            if now_s < last_local_s + locality_wait_s:
                heapq.heappush(slot_heap, (last_local_s + locality_wait_s, slot, executor))
                continue
            task = _take_next(all_tasks, started_tasks)  # 3
        if task is None:
            continue
        started_tasks.add(task)
        end_s = now_s + compute_seconds(task, executor)
        runs.append(TaskRun(task, executor, end_s))
        heapq.heappush(slot_heap, (end_s, slot, executor))
    return runs


def _take_next(queue: deque[int], started_tasks: set[int]) -> int | None:
    """Remove and return the queue's first task that has not started, or None."""
    while queue:
        task = queue.popleft()
        if task not in started_tasks:
            return task
    return None

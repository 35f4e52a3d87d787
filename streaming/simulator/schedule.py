"""Simulate Spark's scheduler, which decides where and when each task runs.

It uses delay scheduling as in `TaskSetManager` of Spark 4.0 to 4.2. A free slot takes, in the order
of the plan:

1. the next task that prefers its executor,
2. or, without waiting, one that prefers another executor of its host, if the stage has tasks
   without a preference: Spark offers such a stage the level NO_PREF, which includes NODE_LOCAL,
3. or a task without a preference,
4. or any task, if no task has started on its preferred executor for `locality_wait_s`. In a stage
   with tasks without a preference, the start of any task restarts this wait.
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
    """A task's executor and end time."""

    task: int
    executor: str
    end_seconds: float


def schedule(
    preferred: Sequence[str | None],
    seconds: Callable[[int, str], float],
    executors: Sequence[Executor],
    locality_wait_s: float = 3.0,
) -> list[TaskRun]:
    """Run tasks on slots; `seconds(task, executor)` is the duration of a task on an executor."""
    local: dict[str, deque[int]] = {e.id: deque() for e in executors}
    on_host: dict[str, deque[int]] = {e.host: deque() for e in executors}
    host = {e.id: e.host for e in executors}
    anywhere: deque[int] = deque()
    for index, executor_id in enumerate(preferred):
        if executor_id is not None and executor_id in local:
            local[executor_id].append(index)
            on_host[host[executor_id]].append(index)
        else:
            anywhere.append(index)
    has_no_pref = None in preferred
    slots = [(e.id, n) for n, e in enumerate(e for e in executors for _ in range(e.slots))]
    free = [(0.0, 0, slot, executor) for executor, slot in slots]
    heapq.heapify(free)
    started: set[int] = set()
    order = deque(range(len(preferred)))
    runs: list[TaskRun] = []
    last_start_s = 0.0
    while len(runs) < len(preferred):
        now_s, visit, slot, executor = heapq.heappop(free)
        task: int | None = _take_next(local[executor], started)  # 1
        is_local = task is not None
        if task is None and has_no_pref:
            if now_s == visit == 0:  # the first offer has all slots: step 1 precedes 2 for all
                heapq.heappush(free, (now_s, 1, slot, executor))
                continue
            task = _take_next(on_host[host[executor]], started)  # 2
        if task is None:
            task = _take_next(anywhere, started)  # 3
        if task is not None and (is_local or has_no_pref):
            last_start_s = now_s
        if task is None:
            if now_s < last_start_s + locality_wait_s:
                heapq.heappush(free, (last_start_s + locality_wait_s, 0, slot, executor))
                continue
            task = _take_next(order, started)  # 4
        if task is None:
            continue
        started.add(task)
        end_s = now_s + seconds(task, executor)
        runs.append(TaskRun(task, executor, end_s))
        heapq.heappush(free, (end_s, 0, slot, executor))
    return runs


def _take_next(queue: deque[int], started: set[int]) -> int | None:
    """Remove and return the first task of a queue that has not started."""
    while queue:
        task = queue.popleft()
        if task not in started:
            return task
    return None

"""Simulate how evenly tails are shared if each lists only some executors.

One slot per executor. A slot runs its head, then the tails that list its executor, by index. It is
idle when none of these is left, because Spark then waits for a more local task. Nothing else is
simulated, so this is an upper bound of what a cap costs.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from typing import TYPE_CHECKING

from tests.lab.tails.markings import spread_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Share of the work in tails, tails per slot, and log standard deviation of the heads' seconds.
TAIL_SHARE, TAILS_PER_SLOT, HEAD_SPREAD = 0.3, 6, 0.1


def draw_stage(executors: int, seed: int) -> tuple[list[float], list[float]]:
    """Return the seconds of the heads and of the tails, largest first; a slot's mean is 1 s."""
    rng = random.Random(seed)
    noise = [rng.gauss(0, HEAD_SPREAD) - HEAD_SPREAD**2 / 2 for _ in range(executors)]
    heads = [(1 - TAIL_SHARE) * math.exp(each) for each in noise]
    sizes = [1 - (tail / (executors * TAILS_PER_SLOT)) * 0.8
             for tail in range(executors * TAILS_PER_SLOT)]  # fmt: skip
    scale = TAIL_SHARE * executors / sum(sizes)
    return heads, [scale * size for size in sizes]


def simulate_stage(
    heads: Sequence[float], tails: Sequence[float], max_locations: int | None
) -> float:
    """Return the seconds of the stage; None is a tail without a limit of its locations.

    >>> simulate_stage([1.0, 3.0], [1.0, 1.0], None), simulate_stage([1.0, 3.0], [1.0, 1.0], 1)
    (3.0, 4.0)
    """
    executors = len(heads)
    if max_locations is None or max_locations >= executors:
        shared = deque(range(len(tails)))
        lists = [shared] * executors
    else:
        lists = [deque[int]() for _ in heads]
        for tail in range(len(tails)):
            for executor in spread_numbers(tail, executors, max_locations):
                lists[executor].append(tail)
    free = [(seconds, executor) for executor, seconds in enumerate(heads)]
    heapq.heapify(free)
    launched: set[int] = set()
    end_s = 0.0
    while free:
        now_s, executor = heapq.heappop(free)
        end_s = max(end_s, now_s)
        pending = lists[executor]
        while pending and pending[0] in launched:
            pending.popleft()
        if pending:
            launched.add(tail := pending.popleft())
            heapq.heappush(free, (now_s + tails[tail], executor))
    return end_s


def compare_caps(executors: int, caps: Sequence[int], seeds: Sequence[int]) -> dict[int, float]:
    """Return the mean seconds of stages with each cap, divided by those without a cap."""
    stages = [draw_stage(executors, seed) for seed in seeds]
    unlimited = sum(simulate_stage(*stage, None) for stage in stages)
    return {cap: sum(simulate_stage(*stage, cap) for stage in stages) / unlimited for cap in caps}

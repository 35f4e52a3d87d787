"""Choose how much of their work the slots' heads keep, and how long the tasks of the tail are.

This is loop scheduling (guided self-scheduling, Polychronopoulos and Kuck 1987; factoring, Hummel
et al. 1992). Assumptions: the errors of predicted task times are log-normal and independent, and
the next batch is as unpredictable as the last ones.

Example: four slots with 10 s each and times that deviate by 20%. A head keeps 67% of its slot's
work, and two tail tasks per slot share the remainder.

>>> costs = TailCosts(cold_read_s=0.02, start_s=0.01)
>>> shape = shape_tail(0.2, 10.0, 4, costs, max_tasks_per_slot=2)
>>> print(round(shape.head_share, 2), [round(seconds, 2) for seconds in shape.task_s])
0.67 [2.48, 2.48, 2.48, 2.48, 0.82, 0.82, 0.82, 0.82]
>>> shape_tail(0.01, 10.0, 4, costs, max_tasks_per_slot=2) is None  # nothing is unpredictable
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

#: A head ends before its batch does, unless it is this many standard deviations too slow.
_HEAD_SIGMAS = 2.0
#: Minimum saving, as a share of the batch. Without it, predictable streams would get a tail.
_MIN_SAVING = 0.02
#: Slots that finish a list of tasks differ by up to the last task's length, on average by half.
_UNEVEN_END = 0.5


@dataclass(frozen=True)
class TailCosts:
    """Seconds that a tail task costs in addition to its records."""

    #: First read of a range that the consumer did not read last (see `planner.cold_reads`).
    cold_read_s: float
    #: Fixed cost of a range, which each additional piece repeats.
    range_s: float = 0.0
    #: Start of the task.
    start_s: float = 0.005

    @property
    def total_s(self) -> float:
        """Cost of a tail task with one range."""
        return self.start_s + self.cold_read_s + self.range_s


@dataclass(frozen=True)
class TailShape:
    """How much of their work the heads keep, and the lengths of the tail tasks."""

    #: Share of its slot's work that a head keeps.
    head_share: float
    #: Seconds of each tail task, longest first.
    task_s: tuple[float, ...]


def shape_tail(
    unpredictability: float,
    batch_s: float,
    slots: int,
    costs: TailCosts,
    max_tasks_per_slot: int,
    *,
    cold_per_slot: float = 0.0,
    max_slowness: float = 1.0,
) -> TailShape | None:
    """Return the shape with the least expected time; None if no tail saves enough.

    1. A head keeps 1/x of its slot's work, `x = exp(2 unpredictability)`.
    2. With k tasks per slot, each round is `1 - 1/x` of the previous one, or more if an executor is
       slow, because that executor may take one of the longest tasks.
    3. Estimate the seconds above `batch_s` with each k, and choose the least. The slowest of the
       last tasks delays the batch, so more and shorter rounds pay if times deviate.

    `batch_s`: predicted seconds of the batch. `cold_per_slot`: whole ranges in the tail, per slot.
    `max_slowness`: slowness of the slowest executor.
    """
    if slots < 2 or batch_s <= 0 or unpredictability <= 0:
        return None
    # 1. Compute the heads.
    tail_share = 1 - math.exp(-_HEAD_SIGMAS * unpredictability)
    tail_s, max_sigmas = tail_share * batch_s, _expect_maximum(slots)
    late_heads_s = batch_s * max(0.0, math.exp((max_sigmas - _HEAD_SIGMAS) * unpredictability) - 1)
    late_factor = math.exp(min(max_sigmas * unpredictability, 50.0))  # slowest of `slots` tasks
    least_excess_s = batch_s * (late_factor - 1 - _MIN_SAVING)  # no tail, less the minimum saving
    decay, best_round_s = max(tail_share, 1 - 1 / max_slowness), list[float]()
    for rounds in range(1, max_tasks_per_slot + 1):
        # 2. Compute the lengths of the rounds.
        first_s = tail_s * (1 - decay) / (1 - decay**rounds)
        round_s = [first_s * decay**i for i in range(rounds)]
        if round_s[-1] < costs.total_s:
            break
        # 3. Estimate, and choose. A head of a range with a tail starts with a cold read, too.
        cold_s = costs.cold_read_s * (1 + cold_per_slot)
        late_s = max(late_heads_s, first_s * max_slowness - tail_s)
        end_s = _UNEVEN_END * round_s[-1] * max_slowness * late_factor
        excess_s = late_s + end_s + rounds * costs.total_s + cold_s
        if excess_s < least_excess_s:
            least_excess_s, best_round_s = excess_s, round_s
    if not best_round_s:
        return None
    return TailShape(1 - tail_share, tuple(task_s for task_s in best_round_s for _ in range(slots)))


@cache
def _expect_maximum(count: int) -> float:
    """Return the expected maximum of `count` standard normal numbers (Blom's approximation)."""
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25))

"""The recipe: budgets, floors, who waited longest, fair shares, and what to remember.

What it promises, in order:

1. Each partition ends where records are, and the batch has at least one record.
2. Never more records than Spark's limit.
3. Floors of topics, even where a batch takes longer or has more bytes than was asked for.
4. Nobody starves: of those that got nothing, the ones that wait longest get a record each, from
   half of what floors leave (the reserve, one record at least). So each partition is admitted
   within 1 + partitions / reserve batches.
5. With `deadline`, what retention deletes soon.
6. The rest by weight: by what waits (`proportional`), else alike for all, up to the target time and
   the bytes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.admission.deadline import compare_with_margin, raise_urgent
from assignor_bridge.admission.fill import fill
from assignor_bridge.admission.lag import Admission, Budget, Memory
from assignor_bridge.admission.times import (
    FIRST_RECORDS,
    MAX_REMEMBERED_BATCHES,
    MIN_SHARE,
    fit_reading_seconds,
    limit_growth,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.admission.lag import BatchTime, Floats, Ints, Lag, Limits

#: Beyond this a float does not hold every whole number; no batch has so many records.
_MAX_RECORDS = 2**52


def admit(lag: Lag, limits: Limits, memory: Memory) -> Admission:
    """Say how far each partition goes in this batch."""
    waiting = np.zeros(len(lag.start), np.int64)
    if memory.waiting:
        waiting[:] = [memory.waiting.get(name, 0) for name in lag.names]
    order = np.argsort(-waiting, kind="stable")
    most = np.minimum(lag.size, _MAX_RECORDS)
    budgets = _build_budgets(lag, limits, memory.times)
    if limits.fixed_end:
        budgets = _equalize_batches(most, budgets)
    least = _share_floors(lag, limits, most, order)
    oldest = order[waiting[order] > 0]
    oldest = oldest[: _count_reserved_records(oldest, least, budgets)]
    least[oldest] = np.maximum(least[oldest], 1)
    weight = _compute_weights(lag, limits)
    if limits.fairness == "deadline":
        share = compare_with_margin(lag, memory.times)
        soon = raise_urgent(least, most, weight, budgets, order, share)
        least = _trim_to_limit(soon, least, limits.records)
    taken, held_by = fill(least, most, weight, budgets, order)
    taken = _trim_to_limit(taken, least, limits.records)
    if not taken.any():  # one record alone is more than fits
        taken[order[0]] = 1
    left_out = np.flatnonzero(taken == 0).tolist()
    names = lag.names if left_out else []
    after = {names[i]: int(waiting[i]) + 1 for i in left_out}
    return Admission(lag.start + taken, held_by, replace(memory, waiting=after))


def remember_batch_time(memory: Memory, time: BatchTime) -> Memory:
    """Remember what a batch took."""
    return replace(memory, times=(*memory.times, time)[-MAX_REMEMBERED_BATCHES:])


def _build_budgets(lag: Lag, limits: Limits, times: Sequence[BatchTime]) -> list[Budget]:
    ones = np.ones(len(lag.start))
    budgets = []
    if limits.records is not None:
        budgets.append(Budget("records", ones, float(min(limits.records, _MAX_RECORDS))))
    if limits.bytes is not None:
        if np.isnan(lag.bytes).any():  # nobody has reported any
            budgets.append(Budget("growth", ones, limit_growth(times, lag.slots)))
        else:
            budgets.append(Budget("bytes", lag.bytes, float(limits.bytes)))
    if limits.seconds is not None:
        amount = fit_reading_seconds(times, limits.seconds)
        amount = max(amount - float(lag.fixed.sum()) / lag.slots, amount / 2)
        # Quiet batches before a backlog must not leave it a record at a time.
        start = FIRST_RECORDS * float(lag.work.mean())
        amount = max(amount, min(MIN_SHARE * limits.seconds, start))
        budgets.append(Budget("seconds", lag.work / lag.slots, amount))
        budgets.append(Budget("growth", ones, limit_growth(times, lag.slots)))
    return budgets


def _equalize_batches(most: Ints, budgets: Sequence[Budget]) -> list[Budget]:
    """Lower the scarcest budget, so that the last batch to come is as large as the others."""
    needed = [float(budget.cost @ most) / budget.amount for budget in budgets]
    batches = math.ceil(max(needed, default=1.0))
    if batches <= 1:
        return list(budgets)
    scarcest = needed.index(max(needed))
    return [
        budget._replace(amount=budget.amount * need / batches) if i == scarcest else budget
        for i, (budget, need) in enumerate(zip(budgets, needed, strict=True))
    ]


def _count_reserved_records(oldest: Ints, floors: Ints, budgets: Sequence[Budget]) -> int:
    """Return how many of those that waited get a record before others get more."""
    reserve = len(oldest)
    for budget in budgets:
        half = (budget.amount - float(budget.cost @ floors)) / 2
        used = np.cumsum(budget.cost[oldest])
        reserve = min(reserve, int(np.searchsorted(used, half, "right")))
    return max(1, reserve)


def _share_floors(lag: Lag, limits: Limits, most: Ints, order: Ints) -> Ints:
    """Share the floor of each topic alike between its partitions."""
    floors = np.zeros(len(most), np.int64)
    for code, topic in enumerate(lag.topics):
        if floor := limits.floors.get(topic.lower()):
            rows = order[lag.topic[order] == code]
            ones, none = np.ones(len(rows)), np.zeros(len(rows), np.int64)
            budget = Budget("floor", ones, float(min(floor, _MAX_RECORDS)))
            taken, _ = fill(none, most[rows], ones, [budget], np.arange(len(rows)))
            floors[rows] = _trim_to_limit(taken, none, floor)
    return _trim_to_limit(floors, np.zeros_like(floors), limits.records and limits.records - 1)


def _compute_weights(lag: Lag, limits: Limits) -> Floats:
    of_topic = np.array([limits.weights.get(topic.lower(), 1.0) for topic in lag.topics])
    weight = of_topic[lag.topic]
    return weight * lag.size if limits.fairness == "proportional" else weight


def _trim_to_limit(taken: Ints, least: Ints, records: int | None) -> Ints:
    """Take back from the largest what is beyond the limit: floors, or what rounding has added."""
    over = 0 if records is None else int(taken.sum()) - records
    for i in np.argsort(least - taken, kind="stable").tolist() if over > 0 else ():
        back = min(over, int(taken[i] - least[i]))
        taken[i] -= back
        over -= back
    return taken

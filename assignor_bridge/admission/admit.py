"""Decide where each partition's batch ends; `admit` calls one function per step.

Promises, in order:

1. Each end is within the partition's unread offsets, and the batch has at least one offset.
2. The batch never exceeds Spark's limit of offsets.
3. Each topic gets its floor, even if the batch exceeds its target time or bytes.
4. No partition starves. Half of the budget after floors (at least one offset) is a reserve: it
   gives one offset each to the partitions that waited longest. So each partition is admitted
   within 1 + partitions / reserve batches.
5. With `deadline`, records that retention deletes soon are admitted first.
6. The remaining budgets are shared by weight, or by weight times lag with `proportional`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.admission.batch_inputs import Admission, Budget, Memory
from assignor_bridge.admission.deadline import compare_with_margin, raise_urgent_minimums
from assignor_bridge.admission.fill import fill
from assignor_bridge.admission.times import (
    FIRST_OFFSETS,
    MAX_BATCHES,
    MIN_READING_SHARE,
    compute_reading_s,
    limit_growth,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.admission.batch_inputs import BatchTime, Floats, Ints, Lag, Limits

#: Maximum offsets of a partition, floor or limit; floats represent every integer up to it.
_MAX_OFFSETS = 2**52


def admit(lag: Lag, limits: Limits, memory: Memory) -> Admission:
    """Return where each partition's batch ends.

    1. Rank partitions by how many batches they have waited.
    2. Turn the limits into budgets.
    3. Set minimums: topic floors, one offset per partition from the reserve, urgent offsets.
    4. Share the remaining budgets by weight (`fill`).
    5. Update how many batches each partition has waited.
    """
    # 1. Rank partitions.
    waited_batches = np.zeros(len(lag.start), np.int64)
    if memory.waited_batches:
        waited_batches[:] = [memory.waited_batches.get(name, 0) for name in lag.names]
    order = np.argsort(-waited_batches, kind="stable")
    # 2. Make budgets.
    max_offsets = np.minimum(lag.size, _MAX_OFFSETS)
    budgets = _build_budgets(lag, limits, memory.times)
    if limits.fixed_end:
        budgets = _equalize_batches(max_offsets, budgets)
    # 3. Set minimums.
    min_offsets = _share_floors(lag, limits, max_offsets, order)
    waiting_rows = order[waited_batches[order] > 0]
    waiting_rows = waiting_rows[: _count_reserve(waiting_rows, min_offsets, budgets)]
    min_offsets[waiting_rows] = np.maximum(min_offsets[waiting_rows], 1)
    weight = _compute_weights(lag, limits)
    if limits.fairness == "deadline":
        margin_share = compare_with_margin(lag, memory.times)
        raised_minimums = raise_urgent_minimums(
            min_offsets, max_offsets, weight, budgets, order, margin_share=margin_share
        )
        min_offsets = _trim_to_limit(raised_minimums, min_offsets, limits.offsets)
    # 4. Share the remaining budgets.
    offsets, held_back_by = fill(min_offsets, max_offsets, weight, budgets, order)
    offsets = _trim_to_limit(offsets, min_offsets, limits.offsets)
    if not offsets.any():  # the budgets are too small for one offset
        offsets[order[0]] = 1
    # 5. Count this batch for the partitions without offsets.
    rows_without_offsets = np.flatnonzero(offsets == 0).tolist()
    names = lag.names if rows_without_offsets else []
    new_waited_batches = {names[i]: int(waited_batches[i]) + 1 for i in rows_without_offsets}
    new_memory = replace(memory, waited_batches=new_waited_batches)
    return Admission(lag.start + offsets, held_back_by, new_memory)


def remember_batch_time(memory: Memory, time: BatchTime) -> Memory:
    """Add the size and duration of a completed batch; remember at most `MAX_BATCHES` batches."""
    return replace(memory, times=(*memory.times, time)[-MAX_BATCHES:])


def _build_budgets(lag: Lag, limits: Limits, times: Sequence[BatchTime]) -> list[Budget]:
    ones = np.ones(len(lag.start))
    budgets = []
    if limits.offsets is not None:
        budgets.append(Budget("records", ones, float(min(limits.offsets, _MAX_OFFSETS))))
    if limits.bytes is not None:
        if np.isnan(lag.bytes_per_offset).any():  # no bytes are reported yet
            budgets.append(Budget("growth", ones, limit_growth(times, lag.slots)))
        else:
            budgets.append(Budget("bytes", lag.bytes_per_offset, float(limits.bytes)))
    if limits.seconds is not None:
        reading_s = compute_reading_s(times, limits.seconds)
        reading_s = max(reading_s - float(lag.seconds_per_range.sum()) / lag.slots, reading_s / 2)
        # Costs learned in quiet batches must not limit a backlog's first batch to a few offsets.
        first_batch_s = FIRST_OFFSETS * float(lag.seconds_per_offset.mean())
        reading_s = max(reading_s, min(MIN_READING_SHARE * limits.seconds, first_batch_s))
        budgets.append(Budget("seconds", lag.seconds_per_offset / lag.slots, reading_s))
        budgets.append(Budget("growth", ones, limit_growth(times, lag.slots)))
    return budgets


def _equalize_batches(max_offsets: Ints, budgets: Sequence[Budget]) -> list[Budget]:
    """Lower the scarcest budget so that all batches up to the fixed end have equal sizes."""
    batches_by_budget = [float(budget.cost @ max_offsets) / budget.amount for budget in budgets]
    batch_count = math.ceil(max(batches_by_budget, default=1.0))
    if batch_count <= 1:
        return list(budgets)
    lowered_budgets, max_batches = list(budgets), max(batches_by_budget)
    scarcest_index = batches_by_budget.index(max_batches)
    new_amount = budgets[scarcest_index].amount * max_batches / batch_count
    lowered_budgets[scarcest_index] = budgets[scarcest_index]._replace(amount=new_amount)
    return lowered_budgets


def _count_reserve(waiting_rows: Ints, floors: Ints, budgets: Sequence[Budget]) -> int:
    """Return how many waiting partitions get one offset each from the reserve (at least 1)."""
    count = len(waiting_rows)
    for budget in budgets:
        reserve = (budget.amount - float(budget.cost @ floors)) / 2
        used_amounts = np.cumsum(budget.cost[waiting_rows])
        count = min(count, int(np.searchsorted(used_amounts, reserve, "right")))
    return max(1, count)


def _share_floors(lag: Lag, limits: Limits, max_offsets: Ints, order: Ints) -> Ints:
    """Divide each topic's floor equally among its partitions; leave an offset for the reserve."""
    floors = np.zeros(len(max_offsets), np.int64)
    for code, topic in enumerate(lag.topics):
        if floor := limits.floors.get(topic.lower()):
            rows = order[lag.topic[order] == code]
            ones, zeros = np.ones(len(rows)), np.zeros(len(rows), np.int64)
            budget = Budget("floor", ones, float(min(floor, _MAX_OFFSETS)))
            offsets, _ = fill(zeros, max_offsets[rows], ones, [budget], np.arange(len(rows)))
            floors[rows] = _trim_to_limit(offsets, zeros, floor)
    return _trim_to_limit(floors, np.zeros_like(floors), limits.offsets and limits.offsets - 1)


def _compute_weights(lag: Lag, limits: Limits) -> Floats:
    topic_weight = np.array([limits.weights.get(topic.lower(), 1.0) for topic in lag.topics])
    weight = topic_weight[lag.topic]
    return weight * lag.size if limits.fairness == "proportional" else weight


def _trim_to_limit(offsets: Ints, min_offsets: Ints, limit: int | None) -> Ints:
    """Reduce the sum of `offsets` to `limit`, in place, those furthest above minimum first."""
    excess = 0 if limit is None else int(offsets.sum()) - limit
    for i in np.argsort(min_offsets - offsets, kind="stable").tolist() if excess > 0 else ():
        removed_offsets = min(excess, int(offsets[i] - min_offsets[i]))
        offsets[i] -= removed_offsets
        excess -= removed_offsets
    return offsets

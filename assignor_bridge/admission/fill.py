"""Weighted max-min fair shares by progressive filling.

Each partition gets `weight x level` offsets, but at least its minimum and at most its maximum. All
partitions have the same level: the highest that exceeds no budget. So, apart from minimums, no
partition gets more, relative to its weight, than another partition that could take more.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.admission.batch_inputs import Budget, Floats, Ints


def fill(
    min_offsets: Ints, max_offsets: Ints, weight: Floats, budgets: Sequence[Budget], order: Ints
) -> tuple[Ints, str | None]:
    """Return how many offsets each partition gets, and the name of the budget that limits them.

    Each partition gets at least `min_offsets`, even beyond a budget, and at most `max_offsets`. The
    name is None if the budgets cover all `max_offsets`. Weights are above 0.
    Offsets lost to rounding go to partitions that have none, then by fraction, then by `order`.

    >>> from assignor_bridge.admission.batch_inputs import Budget
    >>> zeros, lag, ones = np.zeros(3, int), np.array([2, 90, 90]), np.ones(3)
    >>> fill(zeros, lag, ones, [Budget("records", ones, 21)], np.arange(3))[0].tolist()
    [2, 10, 9]
    """
    levels = [_find_level(min_offsets, max_offsets, weight, budget) for budget in budgets]
    level = min(levels, default=math.inf)
    if math.isinf(level):
        return max_offsets.copy(), None
    share = np.minimum(weight * level, max_offsets)
    offsets = np.clip(np.floor(share).astype(np.int64), min_offsets, max_offsets)
    queue = order[np.lexsort(((offsets - share)[order], (offsets > 0)[order]))]
    queue = queue[(offsets < max_offsets)[queue]]
    extra_offsets = len(queue)
    for budget in budgets:
        usage = float(budget.cost @ offsets) + np.cumsum(budget.cost[queue])
        extra_offsets = min(extra_offsets, int(np.searchsorted(usage, budget.amount, "right")))
    offsets[queue[:extra_offsets]] += 1
    return offsets, budgets[levels.index(level)].name


def _find_level(min_offsets: Ints, max_offsets: Ints, weight: Floats, budget: Budget) -> float:
    """Return the level that uses up a budget: 0 if minimums exceed it, inf if it covers all."""
    cost, amount = budget.cost, budget.amount
    if float(cost @ max_offsets) <= amount:
        return math.inf
    breakpoints = np.concatenate((min_offsets / weight, max_offsets / weight))
    order = np.argsort(breakpoints, kind="stable")
    breakpoints = breakpoints[order]
    slope = np.cumsum(np.concatenate((cost * weight, -cost * weight))[order])
    usage = float(cost @ min_offsets) + np.append(0.0, np.cumsum(slope[:-1] * np.diff(breakpoints)))
    i = int(np.searchsorted(np.maximum.accumulate(usage), amount, "right")) - 1
    if i < 0:
        return 0.0
    if i + 1 >= len(breakpoints) or slope[i] <= 0:
        return float(breakpoints[i])
    return float(min(breakpoints[i] + (amount - usage[i]) / slope[i], breakpoints[i + 1]))

"""Weighted max-min fair shares: vessels filled to one level (progressive filling).

Each partition gets `weight x level` of its offsets, but no less than its minimum and no more than
it has; the level is the highest at which no budget is exceeded. So nobody has more, by weight, than
one who could still take some.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.admission.lag import Budget, Floats, Ints


def fill(
    least: Ints, most: Ints, weight: Floats, budgets: Sequence[Budget], order: Ints
) -> tuple[Ints, str | None]:
    """Return how many offsets each partition gets, and the budget that held the others back.

    Parameters
    ----------
    least, most
        Offsets that each partition gets at least, whatever the budgets, and that it has.
    order
        Who comes first where single offsets are left over.

    Examples
    --------
    >>> from assignor_bridge.admission.lag import Budget
    >>> none, lag, ones = np.zeros(3, int), np.array([2, 90, 90]), np.ones(3)
    >>> fill(none, lag, ones, [Budget("records", ones, 21)], np.arange(3))[0].tolist()
    [2, 10, 9]
    """
    levels = [_find_level(least, most, weight, budget) for budget in budgets]
    level = min(levels, default=math.inf)
    if math.isinf(level):
        return most.copy(), None
    share = np.minimum(weight * level, most)
    taken = np.clip(np.floor(share).astype(np.int64), least, most)
    queue = order[np.lexsort(((taken - share)[order], (taken > 0)[order]))]
    queue = queue[(taken < most)[queue]]
    one_more = len(queue)
    for budget in budgets:
        used = float(budget.cost @ taken) + np.cumsum(budget.cost[queue])
        one_more = min(one_more, int(np.searchsorted(used, budget.amount, "right")))
    taken[queue[:one_more]] += 1
    return taken, budgets[levels.index(level)].name


def _find_level(least: Ints, most: Ints, weight: Floats, budget: Budget) -> float:
    """Return the level at which a budget is used up; infinite if it is enough for everything."""
    cost, amount = budget.cost, budget.amount
    if float(cost @ most) <= amount:
        return math.inf
    at = np.concatenate((least / weight, most / weight))
    order = np.argsort(at, kind="stable")
    at = at[order]
    slope = np.cumsum(np.concatenate((cost * weight, -cost * weight))[order])
    used = float(cost @ least) + np.append(0.0, np.cumsum(slope[:-1] * np.diff(at)))
    i = int(np.searchsorted(np.maximum.accumulate(used), amount, "right")) - 1
    if i < 0:
        return 0.0
    if i + 1 >= len(at) or slope[i] <= 0:
        return float(at[i])
    return float(min(at[i] + (amount - used[i]) / slope[i], at[i + 1]))

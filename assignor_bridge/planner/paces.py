"""Learn executors' paces by comparing their read reports.

Once costs are known, they absorb the slowness of an executor that always reads the same partitions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.costs import compute_log_slowness
from assignor_bridge.planner.robust_statistics import (
    MIN_WORK,
    SIGMAS,
    compute_medians,
    update_means,
)

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Flags, Floats, Ints
    from checkpoints.sticky_state import Common

#: Batches in a running mean. With fewer, one of two executors is never found to be slow.
_MAX_BATCHES = 16.0
#: Upper bound of a slowness. Without it, one stall leaves an executor without work for long.
_MAX_LOG_SLOWNESS = math.log(20)
#: Efficiency of a median compared with a mean if noise is normal.
_MEDIAN_EFFICIENCY = 2 / math.pi
#: Rounds in which executors are compared. With one, readers of a slow one's partitions look fast.
_ROUNDS = 6


def update_paces(
    paces: Floats, line: Ints, executor: Ints, error: Floats, trust: Floats, *, common: Common
) -> Floats:
    """Return the executors' paces, updated with the reports of a batch.

    `error`: logarithm of each report's seconds over those expected of its executor. Once costs are
    known, they absorb what an executor's own partitions share. So only reports of partitions with
    several readers are compared, unless an executor's median error shows that it changed.
    """
    executors = len(paces)
    if len(np.unique(executor)) < 2:  # no other executor to compare with
        return paces
    # 1. Executors that changed.
    changed, center = _find_changed(executor, error, trust, executors, common)
    # 2. Comparison with the other readers of a partition, whose slowness is compared, too.
    rows = np.flatnonzero((np.bincount(line)[line] > 1) | changed[executor])
    line, executor, error, trust = line[rows], executor[rows], error[rows] - center, trust[rows]
    _, pair = np.unique(line * executors + executor, return_inverse=True)
    others = np.bincount(line, trust)[line] - np.bincount(pair, trust)[pair]
    weights = trust * np.where(changed[executor], 1.0, others / (trust + others))
    slowness = log_slowness = compute_log_slowness(paces)
    error += log_slowness[executor]
    for _ in range(_ROUNDS):
        weighted = trust * (error - slowness[executor])
        total = np.bincount(line, weighted)[line] - np.bincount(pair, weighted)[pair]
        excess = error - total / np.maximum(others, MIN_WORK)
        median, weight = compute_medians(executor, excess, weights, executors)
        slowness = np.where(weight > 0, (slowness + median) / 2, log_slowness)
    spread, count = _measure_spread(executor, excess, weights, median)
    precision = weight / max(common.noise, spread) ** 2 * _MEDIAN_EFFICIENCY
    precision *= np.where(changed, count / (1 + count), 1.0) / (1 - 1 / executors)
    # 3. Running means. Unknown costs distort the first two batches alike.
    paces = np.where(((log_slowness == 0) & (common.noise_batches < 2))[:, None], 0.0, paces)
    rows = np.flatnonzero(precision)
    sample = np.clip(median[rows], -_MAX_LOG_SLOWNESS, _MAX_LOG_SLOWNESS)
    paces[rows] = update_means(paces[rows].T, sample, precision[rows], 1.0, _MAX_BATCHES).T
    paces[:, :2] -= np.median(paces[:, 0])
    return paces


def _find_changed(
    executor: Ints, error: Floats, trust: Floats, executors: int, common: Common
) -> tuple[Flags, float]:
    """Return which executors' median errors stand out, and the usual executor's median error.

    Before costs are known, all executors' errors are news.
    """
    median, weight = compute_medians(executor, error, trust, executors)
    center = float(np.median(median[weight > 0]))
    spread, _ = _measure_spread(executor, error - center, trust, median - center)
    precision = weight / max(common.noise, spread) ** 2 * _MEDIAN_EFFICIENCY
    stands_out = np.abs(median - center) * np.sqrt(precision) > SIGMAS
    return stands_out | (common.noise_batches == 0), center


def _measure_spread(
    group: Ints, values: Floats, weight: Floats, median: Floats
) -> tuple[float, Floats]:
    """Return the standard deviation of a trusted value from its group's median.

    Also return each group's number of independent values. Groups of less than two have no spread,
    so the distance to the usual group at 0 is used.
    """
    total = np.bincount(group, weight, len(median))
    count = total**2 / np.maximum(np.bincount(group, weight**2, len(median)), MIN_WORK**2)
    has_spread = count >= 2
    deviation = np.abs(values - np.where(has_spread, median, 0.0)[group]) * np.sqrt(weight)
    deviation *= np.where(has_spread, count / np.maximum(count - 1, 1), 1.0)[group]
    return 1.25 * float(weight @ deviation) / max(float(weight.sum()), MIN_WORK), count

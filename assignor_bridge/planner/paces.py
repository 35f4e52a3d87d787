"""Learn how slow each executor is, by comparing the read reports of executors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.averages import MIN_POSITIVE, SIGMAS, compute_medians, update_means
from assignor_bridge.planner.costs import compute_log_slowness

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
    """Return the executors' paces, updated with a batch's reports; unchanged if one sent them all.

    1. Find the executors that changed: their median error stands out.
    2. Compare the readers of a partition. Costs absorb what an executor's own partitions share, so
       only partitions with several readers are evidence, unless an executor has changed.
    3. Move the running means, and center them.

    `executor`: row of each report in `paces`. `error`: logarithm of its seconds over those expected
    of that executor. `trust`: its weight.
    """
    executor_count = len(paces)
    if len(np.unique(executor)) < 2:  # no other executor to compare with
        return paces
    # 1. Executors that changed.
    changed, center = _find_changed_executors(executor, error, trust, executor_count, common)
    # 2. Comparison with the other readers of a partition, each at its own slowness.
    rows = np.flatnonzero((np.bincount(line)[line] > 1) | changed[executor])
    line, executor, error, trust = line[rows], executor[rows], error[rows] - center, trust[rows]
    _, pair = np.unique(line * executor_count + executor, return_inverse=True)
    trust_of_others = np.bincount(line, trust)[line] - np.bincount(pair, trust)[pair]
    share = np.where(changed[executor], 1.0, trust_of_others / (trust + trust_of_others))
    weights = trust * share
    slowness = log_slowness = compute_log_slowness(paces)
    error += log_slowness[executor]
    for _ in range(_ROUNDS):
        weighted_error = trust * (error - slowness[executor])
        error_of_others = (
            np.bincount(line, weighted_error)[line] - np.bincount(pair, weighted_error)[pair]
        )
        excess = error - error_of_others / np.maximum(trust_of_others, MIN_POSITIVE)
        median, weight = compute_medians(executor, excess, weights, executor_count)
        slowness = np.where(weight > 0, (slowness + median) / 2, log_slowness)
    spread, counts = _measure_spread_in_groups(executor, excess, weights, median)
    precision = weight / max(common.noise, spread) ** 2 * _MEDIAN_EFFICIENCY
    precision *= np.where(changed, counts / (1 + counts), 1.0) / (1 - 1 / executor_count)
    # 3. Running means. Unknown costs distort the first two batches: keep only significant paces.
    paces = np.where(((log_slowness == 0) & (common.noise_batches < 2))[:, None], 0.0, paces)
    rows = np.flatnonzero(precision)
    sample = np.clip(median[rows], -_MAX_LOG_SLOWNESS, _MAX_LOG_SLOWNESS)
    paces[rows] = update_means(paces[rows].T, sample, precision[rows], 1.0, _MAX_BATCHES).T
    paces[:, :2] -= np.median(paces[:, 0])
    return paces


def _find_changed_executors(
    executor: Ints, error: Floats, trust: Floats, executor_count: int, common: Common
) -> tuple[Flags, float]:
    """Return which executors' median errors stand out, and the median of them all.

    Until the noise has been measured, all stand out, because no cost is known.
    """
    median, weight = compute_medians(executor, error, trust, executor_count)
    center = float(np.median(median[weight > 0]))
    spread, _ = _measure_spread_in_groups(executor, error - center, trust, median - center)
    precision = weight / max(common.noise, spread) ** 2 * _MEDIAN_EFFICIENCY
    stands_out = np.abs(median - center) * np.sqrt(precision) > SIGMAS
    return stands_out | (common.noise_batches == 0), center


def _measure_spread_in_groups(
    group: Ints, values: Floats, weight: Floats, median: Floats
) -> tuple[float, Floats]:
    """Return the standard deviation of a value of weight 1 from its group's median.

    Also return each group's number of independent values. A group of fewer than two has no spread,
    so its distance from 0, the median of all groups, is used.
    """
    total = np.bincount(group, weight, len(median))
    counts = total**2 / np.maximum(np.bincount(group, weight**2, len(median)), MIN_POSITIVE**2)
    has_spread = counts >= 2
    deviation = np.abs(values - np.where(has_spread, median, 0.0)[group]) * np.sqrt(weight)
    deviation *= np.where(has_spread, counts / np.maximum(counts - 1, 1), 1.0)[group]
    return 1.25 * float(weight @ deviation) / max(float(weight.sum()), MIN_POSITIVE), counts

"""Learn how slow each executor is, from the prediction errors that its reports share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.costs import GOOD_NOISE
from assignor_bridge.planner.evidence import SIGMA_PER_MAD, update_running_mean

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints
    from assignor_bridge.planner.evidence import UsableReports

#: Maximum good reports in an executor's mean; fewer for a partition, whose cost changes faster.
_MAX_EVIDENCE = 8.0
#: Maximum slowness of an executor, as a logarithm.
_MAX_LOG_SLOWNESS = math.log(20)
#: Minimum reports of an executor before their median is used.
_MIN_REPORTS = 3
#: Efficiency of a median compared with a mean if noise is normal (2 / pi).
_MEDIAN_EFFICIENCY = 0.64


def update_paces(
    before: Floats,
    log_slowness: Floats,
    reports: UsableReports,
    excess: Floats,
    *,
    noise: float,
    own_costs: bool,
) -> Floats:
    """Return the executors' paces, updated with the reports of a batch.

    `log_slowness` is the slowness used in predictions. `excess` is the logarithm of each report's
    seconds divided by the predicted seconds. `own_costs`: whether costs per partition are used.
    """
    executors = len(before)
    overall, weight = _compare_all_reports(reports.executor, excess, noise, executors, own_costs)
    shared = np.bincount(reports.line)[reports.line] > 1
    direct, direct_weight = _compare_readers(reports.only(shared), excess[shared], noise, executors)
    total = weight + direct_weight
    updated, paces = np.flatnonzero(total), before.copy()
    mean = (overall * weight + direct * direct_weight) / np.maximum(total, 1e-9)
    paces[updated] = update_running_mean(
        before[updated].T, (log_slowness + mean)[updated], total[updated], GOOD_NOISE, _MAX_EVIDENCE
    ).T
    paces[:, :2] = np.clip(paces[:, :2], -_MAX_LOG_SLOWNESS, _MAX_LOG_SLOWNESS)
    return np.asarray(paces)


def _weigh_report(noise: float) -> float:
    """Return a report's weight in good reports; noise is larger until costs are learned."""
    return (GOOD_NOISE / max(GOOD_NOISE, noise)) ** 2


def _compare_all_reports(
    executor: Ints, excess: Floats, noise: float, executors: int, own_costs: bool
) -> tuple[Floats, Floats]:
    """Return each executor's median excess relative to the other executors, and its evidence."""
    median, count = _compute_medians(executor, excess, executors)
    usable = count >= _MIN_REPORTS
    if np.count_nonzero(usable) < 2:  # no other executor to compare with
        return np.zeros(executors), np.zeros(executors)
    distance = np.abs(excess - median[executor])[usable[executor]]
    spread = SIGMA_PER_MAD * float(np.median(distance))
    relative_median = median - np.median(median[usable])
    noise = max(noise, spread)
    if own_costs:  # costs per partition absorb small differences, so ignore the noise
        usable &= np.abs(relative_median) * np.sqrt(count) > noise
    return relative_median, np.where(usable, _MEDIAN_EFFICIENCY * count * _weigh_report(noise), 0.0)


def _compare_readers(
    reports: UsableReports, excess: Floats, noise: float, executors: int
) -> tuple[Floats, Floats]:
    """Return each executor's slowness relative to others on the same partitions, and evidence.

    This is the only direct evidence: same partition, same batch, different executor.
    """
    pair, pair_index = np.unique(reports.line * executors + reports.executor, return_inverse=True)
    if len(pair) < 2:
        return np.zeros(executors), np.zeros(executors)
    mean_excess = np.bincount(pair_index, excess) / np.bincount(pair_index)
    _, line_of_pair, readers = np.unique(pair // executors, return_inverse=True, return_counts=True)
    compared_pairs = np.flatnonzero(readers[line_of_pair] > 1)
    others = (np.bincount(line_of_pair, mean_excess)[line_of_pair] - mean_excess)[compared_pairs]
    slower = mean_excess[compared_pairs] - others / (readers[line_of_pair] - 1)[compared_pairs]
    median, comparisons = _compute_medians((pair % executors)[compared_pairs], slower, executors)
    # A single comparison does not show which of the two executors is unusual.
    evidence = np.where(comparisons > 0, 2 * (comparisons + 1) * _weigh_report(noise), 0.0)
    return median * comparisons / (comparisons + 1), evidence


def _compute_medians(group: Ints, values: Floats, groups: int) -> tuple[Floats, Ints]:
    """Return the median (0 if there are no values) and the number of values of each group."""
    ranked = values[np.lexsort((values, group))]
    sizes = np.bincount(group, minlength=groups)
    non_empty, median = np.flatnonzero(sizes), np.zeros(groups)
    first, size = (np.cumsum(sizes) - sizes)[non_empty], sizes[non_empty]
    median[non_empty] = (ranked[first + (size - 1) // 2] + ranked[first + size // 2]) / 2
    return median, sizes

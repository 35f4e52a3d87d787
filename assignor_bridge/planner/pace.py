"""How slow executors are: by what their reports have in common, and beside those of others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.costs import GOOD_NOISE
from assignor_bridge.planner.evidence import SIGMAS_PER_MEDIAN_DISTANCE, update_running_mean

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints
    from assignor_bridge.planner.evidence import UsableReports

#: An executor's mean rests on so many reports at most; on more than a partition's, which has to
#: follow.
_MOST_EVIDENCE = 8.0
#: No executor counts as slower or faster than this.
_MOST_SLOWNESS = math.log(20)
#: Reports that an executor must have given before what they have in common is judged.
_LEAST_REPORTS = 3
#: How many reports one is worth in a median, as against a mean (2 / pi), if noise is normal.
_OF_MEDIAN = 0.64


def update_paces(  # noqa: PLR0917
    before: Floats, slow: Floats, reports: UsableReports, gap: Floats, chance: float, own: bool
) -> Floats:
    """Follow the pace of the executors.

    Parameters
    ----------
    before, slow
        What was known of the pace of each, and how slow it was believed to be.
    gap
        How much longer than expected each report is: a logarithm.
    own
        Whether costs of partitions are of use; they may have taken what is the executor's.
    """
    common, evidence = _compare_with_all_executors(reports.executor, gap, chance, len(before), own)
    shared = np.bincount(reports.line)[reports.line] > 1
    beside, direct = _compare_with_other_readers(
        reports.only(shared), gap[shared], chance, len(before)
    )
    total = evidence + direct
    seen, paces = np.flatnonzero(total), before.copy()
    slower = (slow + (common * evidence + beside * direct) / np.maximum(total, 1e-9))[seen]
    paces[seen] = update_running_mean(
        before[seen].T, slower, total[seen], GOOD_NOISE, _MOST_EVIDENCE
    ).T
    paces[:, :2] = np.clip(paces[:, :2], -_MOST_SLOWNESS, _MOST_SLOWNESS)
    return np.asarray(paces)


def _count_good_reports(noise: float) -> float:
    """Return how many good reports one is worth; the noise is more while costs are unknown."""
    return (GOOD_NOISE / max(GOOD_NOISE, noise)) ** 2


def _compare_with_all_executors(
    executor: Ints, gap: Floats, noise: float, count: int, own: bool
) -> tuple[Floats, Floats]:
    """Return how far each executor's reports lie off the others', and how many good ones say so."""
    middle, reports = _find_medians(executor, gap, count)
    judged = reports >= _LEAST_REPORTS
    if np.count_nonzero(judged) < 2:  # nothing to compare with
        return np.zeros(count), np.zeros(count)
    spread = SIGMAS_PER_MEDIAN_DISTANCE * float(
        np.median(np.abs(gap - middle[executor])[judged[executor]])
    )
    relative = middle - np.median(middle[judged])
    noise = max(noise, spread)
    if own:  # costs of partitions may have taken the rest: less than chance says nothing
        judged &= np.abs(relative) * np.sqrt(reports) > noise
    return relative, np.where(judged, _OF_MEDIAN * reports * _count_good_reports(noise), 0.0)


def _compare_with_other_readers(
    reports: UsableReports, gap: Floats, noise: float, count: int
) -> tuple[Floats, Floats]:
    """Return how much slower each executor read partitions that others read in the same batch.

    The only direct evidence: same partition, same time, other executor.
    """
    pair, which = np.unique(reports.line * count + reports.executor, return_inverse=True)
    if len(pair) < 2:
        return np.zeros(count), np.zeros(count)
    off = np.bincount(which, gap) / np.bincount(which)
    _, which, readers = np.unique(pair // count, return_inverse=True, return_counts=True)
    compared = np.flatnonzero(readers[which] > 1)
    others = (np.bincount(which, off)[which] - off)[compared] / (readers[which] - 1)[compared]
    slower, pieces = _find_medians((pair % count)[compared], off[compared] - others, count)
    # One comparison does not say which of the two is the unusual one.
    evidence = np.where(pieces > 0, 2 * (pieces + 1) * _count_good_reports(noise), 0.0)
    return slower * pieces / (pieces + 1), evidence


def _find_medians(group: Ints, values: Floats, count: int) -> tuple[Floats, Ints]:
    """Return the median of the values of each group, 0 for one without any, and their number."""
    ranked = values[np.lexsort((values, group))]
    sizes = np.bincount(group, minlength=count)
    first = np.cumsum(sizes) - sizes
    some, middle = np.flatnonzero(sizes), np.zeros(count)
    low, high = first[some] + (sizes[some] - 1) // 2, first[some] + sizes[some] // 2
    middle[some] = (ranked[low] + ranked[high]) / 2
    return middle, sizes

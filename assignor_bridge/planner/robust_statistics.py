"""Statistics that single outliers hardly change: weighted medians, running means, shrinkage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from checkpoints.sorting import stable_order

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints

#: Standard errors that are treated as noise. With less, noise of 20% moves partitions.
SIGMAS = 3.5
#: Smaller deviations are no outliers. Without it, a low estimate of the noise rejects all reports.
_MIN_OUTLIER = 0.25
MIN_WORK = 1e-12  # without it, divisions by work fail


def shrink_towards_zero(deviation: Floats, error: Floats | float) -> Floats:
    """Return deviations without the part that may be due to `error`: 0 up to `error`.

    With a lower power than 8, a slowness that has just been found is applied by half.

    >>> shrink_towards_zero(np.array([-0.5, 1.0, -2.0]), 1.0).tolist()
    [0.0, 0.0, -1.9921875]
    """
    size = np.abs(deviation)
    with np.errstate(invalid="ignore"):
        shrunk = deviation * (1 - (error / np.maximum(size, error)) ** 8)
    return np.where(size > error, shrunk, 0.0)


def compute_medians(
    group: Ints, values: Floats, weight: Floats, groups: int
) -> tuple[Floats, Floats]:
    """Return each group's weighted median (0 if it is empty), and its total weight."""
    order = np.argsort(values)
    order = order[stable_order(group[order])]
    total, median = np.bincount(group, weight, groups).astype(np.float64), np.zeros(groups)
    used = np.flatnonzero(total > 0)
    reached = np.cumsum(weight[order])
    half = np.cumsum(total)[used] - total[used] / 2
    lower, upper = (np.searchsorted(reached, half * (1 + e)) for e in (-1e-9, 1e-9))
    last = np.cumsum(np.bincount(group, minlength=groups))[used] - 1
    ranked = values[order]
    median[used] = (ranked[np.minimum(lower, last)] + ranked[np.minimum(upper, last)]) / 2
    return median, total


def update_means(
    columns: Floats, sample: Floats, weight: Floats, noise: float, max_batches: float
) -> Floats:
    """Move running means towards samples, each worth `weight` reports with this noise.

    An outlier does not move the mean. But if the previous sample was an outlier on the same side,
    the mean restarts as the average of both. The rows of `columns` and of the result are the mean,
    the previous sample, and the evidence: the number of reports.

    >>> columns, sample = np.array([[0.0], [0.0], [4.0]]), np.array([1.0])
    >>> for _ in range(2):
    ...     columns = update_means(columns, sample, np.ones(1), 0.1, 8.0)
    ...     print("mean", columns[0, 0])
    mean 0.0
    mean 1.0
    """
    mean, last_sample, evidence = columns
    with np.errstate(divide="ignore"):
        sigmas = SIGMAS * noise * np.sqrt(1 / weight + 1 / evidence)
    max_distance = np.maximum(_MIN_OUTLIER, sigmas)
    distance, last_distance = sample - mean, last_sample - mean
    is_outlier = (evidence > 0) & (np.abs(distance) > max_distance)
    changed = is_outlier & (np.abs(last_distance) > max_distance) & (distance * last_distance > 0)
    total = evidence * (1 - 1 / max_batches) + weight
    moved_mean = mean + distance * np.minimum(1.0, weight / total)
    mean = np.where(changed, (sample + last_sample) / 2, np.where(is_outlier, mean, moved_mean))
    evidence = np.where(changed, 2 * weight, np.where(is_outlier, evidence, total))
    return np.array([mean, sample, evidence])

"""Averages that outliers hardly change (medians, running means), and shrinkage by their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from checkpoints.sorting import stable_order

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints

#: Deviations of up to this many standard errors are noise. With fewer, noise of 20% moves ranges.
SIGMAS = 3.5
#: Smaller distances from a (logarithmic) mean are no outliers. Without it, low noise rejects all.
_MIN_OUTLIER = 0.25
MIN_POSITIVE = 1e-12  # lower bound of divisors, and of numbers whose logarithm is taken


def shrink_towards_zero(deviation: Floats, error: Floats | float) -> Floats:
    """Return deviations without the part that may be due to `error`.

    Deviations of at most `error` become 0; much larger ones hardly change. With a lower power than
    8, a slowness that has just been found is applied only by half.

    >>> shrink_towards_zero(np.array([-0.5, 1.0, -2.0]), 1.0).tolist()
    [0.0, 0.0, -1.9921875]
    """
    distance = np.abs(deviation)
    with np.errstate(invalid="ignore"):
        shrunk = deviation * (1 - (error / np.maximum(distance, error)) ** 8)
    return np.where(distance > error, shrunk, 0.0)


def compute_medians(
    group: Ints, values: Floats, weight: Floats, group_count: int
) -> tuple[Floats, Floats]:
    """Return each group's weighted median (0 if it has no weight), and its total weight."""
    order = np.argsort(values)
    order = order[stable_order(group[order])]
    total = np.bincount(group, weight, group_count).astype(np.float64)
    weighted_groups = np.flatnonzero(total > 0)
    running_sum = np.cumsum(weight[order])
    middle = np.cumsum(total)[weighted_groups] - total[weighted_groups] / 2
    # If the middle is between two values, up to rounding, the median is their mean.
    lower, upper = (np.searchsorted(running_sum, middle * (1 + e)) for e in (-1e-9, 1e-9))
    last_index = np.cumsum(np.bincount(group, minlength=group_count)) - 1
    last_index, sorted_values = last_index[weighted_groups], values[order]
    low_value, high_value = (sorted_values[np.minimum(i, last_index)] for i in (lower, upper))
    median = np.zeros(group_count)
    median[weighted_groups] = (low_value + high_value) / 2
    return median, total


def update_means(
    means: Floats, sample: Floats, weight: Floats, noise: float, max_batches: float
) -> Floats:
    """Move running means towards samples, each worth `weight` reports with this noise.

    An outlier does not move the mean. But if the previous sample was an outlier on the same side,
    the mean restarts as the average of both. `means` and the result have three rows: the means, the
    previous samples, and the evidence (the weight of past reports, fading over `max_batches`).

    >>> means, sample = np.array([[0.0], [0.0], [4.0]]), np.array([1.0])
    >>> for _ in range(2):
    ...     means = update_means(means, sample, np.ones(1), 0.1, 8.0)
    ...     print("mean", means[0, 0])
    mean 0.0
    mean 1.0
    """
    mean, last_sample, evidence = means
    with np.errstate(divide="ignore"):
        max_noise = SIGMAS * noise * np.sqrt(1 / weight + 1 / evidence)
    max_distance = np.maximum(_MIN_OUTLIER, max_noise)
    distance, last_distance = sample - mean, last_sample - mean
    is_outlier = (evidence > 0) & (np.abs(distance) > max_distance)
    changed = is_outlier & (np.abs(last_distance) > max_distance) & (distance * last_distance > 0)
    total = evidence * (1 - 1 / max_batches) + weight
    moved_mean = mean + distance * np.minimum(1.0, weight / total)
    mean = np.where(changed, (sample + last_sample) / 2, np.where(is_outlier, mean, moved_mean))
    evidence = np.where(changed, 2 * weight, np.where(is_outlier, evidence, total))
    return np.array([mean, sample, evidence])

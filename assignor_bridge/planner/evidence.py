"""The usable read reports of a batch, and running averages that ignore single outliers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assignor_bridge.planner.batch import Flags, Floats

_OUTLIER_SIGMAS = 3.0  # number of standard deviations beyond which a report is an outlier
_MIN_OUTLIER_DISTANCE = 0.25  # minimum distance of an outlier from the mean
SIGMA_PER_MAD = 1.48  # standard deviation of normal noise over its median absolute deviation


class UsableReports(NamedTuple):
    """Columns of read reports; `line` is the partition's line in the partition table."""

    line: NDArray[Any]
    executor: NDArray[Any]
    records: NDArray[Any]
    bytes: NDArray[Any]
    seconds: NDArray[Any]
    offsets: NDArray[Any]

    def only(self, flags: Flags) -> UsableReports:
        """Return the reports whose flag is set."""
        rows = np.flatnonzero(flags)
        return UsableReports(*(column[rows] for column in self))


def update_running_mean(
    columns: Floats, sample: Floats, weight: Floats, noise: float, max_weight: float
) -> Floats:
    """Move running means towards samples, each worth `weight` good reports.

    An outlier does not move the mean. But if the previous sample was an outlier on the same side,
    the mean restarts as the average of both. The rows of `columns` and of the result are the mean,
    the previous sample, and the evidence: the number of good reports, at most `max_weight`.

    >>> columns, sample = np.array([[0.0], [0.0], [4.0]]), np.array([1.0])
    >>> for _ in range(2):
    ...     columns = update_running_mean(columns, sample, np.ones(1), 0.1, 4.0)
    ...     print("mean", columns[0, 0])
    mean 0.0
    mean 1.0
    """
    mean, last_sample, evidence = columns
    with np.errstate(divide="ignore"):
        sigmas = _OUTLIER_SIGMAS * noise * np.sqrt(1 / weight + 1 / evidence)
    max_distance = np.maximum(_MIN_OUTLIER_DISTANCE, sigmas)
    distance, last_distance = sample - mean, last_sample - mean
    is_outlier = (evidence > 0) & (np.abs(distance) > max_distance)
    changed = is_outlier & (np.abs(last_distance) > max_distance) & (distance * last_distance > 0)
    total_evidence = np.minimum(evidence + weight, max_weight)
    moved_mean = mean + distance * np.minimum(1.0, weight / total_evidence)
    mean = np.where(changed, (sample + last_sample) / 2, np.where(is_outlier, mean, moved_mean))
    new_evidence = np.where(is_outlier, evidence, total_evidence)
    evidence = np.where(changed, np.minimum(weight, max_weight), new_evidence)
    return np.array([mean, sample, evidence])

"""What was reported of a batch, and how a running mean follows it without believing it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assignor_bridge.planner.batch import Flags, Floats

#: Standard deviations from which a report is far off; and never less than this.
_FAR, _LEAST_FAR = 3.0, 0.25
#: Standard deviation for a median distance, if noise is normal.
SIGMAS_PER_MEDIAN_DISTANCE = 1.48


class UsableReports(NamedTuple):
    """Columns of what was reported of known partitions, by line."""

    line: NDArray[Any]
    executor: NDArray[Any]
    records: NDArray[Any]
    bytes: NDArray[Any]
    seconds: NDArray[Any]
    offsets: NDArray[Any]

    def only(self, which: Flags) -> UsableReports:
        """Return those of which it is true."""
        rows = np.flatnonzero(which)
        return UsableReports(*(column[rows] for column in self))


def update_running_mean(
    column: Floats, report: Floats, weight: Floats, chance: float, most: float
) -> Floats:
    """Move running means towards reports, each worth `weight` good ones.

    A report far off the mean is not followed unless the one before was as far off on that side.

    Parameters
    ----------
    column
        Rows of the mean, the report before, and the evidence: how many good reports the mean rests
        on, `most` at most. Such rows are returned.
    chance
        Standard deviation of a good report.
    """
    mean, last, evidence = column
    with np.errstate(divide="ignore"):
        far = np.maximum(_LEAST_FAR, _FAR * chance * np.sqrt(1 / weight + 1 / evidence))
    off, off_before = report - mean, last - mean
    is_far = (evidence > 0) & (np.abs(off) > far)
    changed = is_far & (np.abs(off_before) > far) & (off * off_before > 0)
    gathered = np.minimum(evidence + weight, most)
    moved = mean + off * np.minimum(1.0, weight / gathered)
    mean = np.where(changed, (report + last) / 2, np.where(is_far, mean, moved))
    evidence = np.where(changed, np.minimum(weight, most), np.where(is_far, evidence, gathered))
    return np.array([mean, report, evidence])

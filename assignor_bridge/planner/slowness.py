"""How slow each executor is: what its reports have in common beyond the other executors'.

How much of that is believed depends on how well reports agree, so that costly partitions do not
make their executor look slow. Where several executors read one partition in the same batch, they
are compared directly. All in logarithms of seconds, see `weights`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints

#: Reports that an executor must have given before what they have in common is judged.
_LEAST_REPORTS = 3
#: Standard deviation of a good report.
GOOD_NOISE = 0.1
#: Standard deviation for a median distance, if noise is normal.
_OF_DISTANCE = 1.48
#: A median is as good as the mean of so many fewer reports (2 / pi, if noise is normal).
_OF_MEDIAN = 0.64


def believed(deviation: Floats, error: Floats | float) -> Floats:
    """Say how much of a deviation counts if `error` of it may be chance.

    Nothing of one up to `error`, half of one 1.4 times as large, nearly all of a much larger one.

    >>> believed(np.array([-0.5, 1.0, -4.0]), 1.0).tolist()
    [0.0, 0.0, -3.75]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        part = deviation * (1 - (error / deviation) ** 2)
    return np.where(np.abs(deviation) > error, part, 0.0)


def good_reports(noise: float) -> float:
    """Say how many good reports one with this noise is worth: 1 at most.

    Evidence of executors is counted so, because the noise of the reports that it was gathered from
    changes: while costs of partitions are unknown they are noise.
    """
    return (GOOD_NOISE / max(GOOD_NOISE, noise)) ** 2


def in_common(
    executor: Ints, gap: Floats, noise: float, count: int, own: bool
) -> tuple[Floats, Floats]:
    """Say how far each executor's reports lie off the others', and how many good reports say so."""
    middle, reports = _medians(executor, gap, count)
    judged = reports >= _LEAST_REPORTS
    if np.count_nonzero(judged) < 2:  # nothing to compare with
        return np.zeros(count), np.zeros(count)
    spread = _OF_DISTANCE * float(np.median(np.abs(gap - middle[executor])[judged[executor]]))
    relative = middle - np.median(middle[judged])
    noise = max(noise, spread)
    if own:  # costs of partitions may have taken the rest: less than chance says nothing
        judged &= np.abs(relative) * np.sqrt(reports) > noise
    return relative, np.where(judged, _OF_MEDIAN * reports * good_reports(noise), 0.0)


def beside_others(
    line: Ints, executor: Ints, gap: Floats, noise: float, count: int
) -> tuple[Floats, Floats]:
    """Say how much slower each executor read partitions that others read in the same batch.

    The only direct evidence: same partition, same time, other executor. `line` rises.
    """
    pair, which, _ = _groups(line * count + executor)
    if len(pair) < 2:
        return np.zeros(count), np.zeros(count)
    at, who = pair // count, pair % count
    off = np.bincount(which, gap) / np.bincount(which)
    _, which, readers = _groups(at)
    compared = np.flatnonzero(readers[which] > 1)
    others = (np.bincount(which, off)[which] - off)[compared] / (readers[which] - 1)[compared]
    slower, pieces = _medians(who[compared], off[compared] - others, count)
    # One comparison does not say which of the two is the unusual one.
    evidence = np.where(pieces > 0, 2 * (pieces + 1) * good_reports(noise), 0.0)
    return slower * pieces / (pieces + 1), evidence


def _medians(group: Ints, values: Floats, count: int) -> tuple[Floats, Ints]:
    """Median of the values of each group, 0 for one without any, and how many it has."""
    ranked = values[np.lexsort((values, group))]
    sizes = np.bincount(group, minlength=count)
    first = np.cumsum(sizes) - sizes
    middle = np.zeros(count)
    some = np.flatnonzero(sizes)
    low, high = first[some] + (sizes[some] - 1) // 2, first[some] + sizes[some] // 2
    middle[some] = (ranked[low] + ranked[high]) / 2
    return middle, sizes


def _groups(rising: Ints) -> tuple[Ints, Ints, Ints]:
    """Distinct numbers of a column that rises, which of them each cell holds, and how many do."""
    new = np.ones(len(rising), np.bool_)
    new[1:] = rising[1:] != rising[:-1]
    which = np.cumsum(new) - 1
    return rising[new], which, np.bincount(which)

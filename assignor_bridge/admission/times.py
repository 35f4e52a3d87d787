"""How much fits into a target time: a line through what batches took so far.

    seconds of a batch = a + b x seconds of its reading (by slot)

`a` is what a batch costs whatever it reads: scheduling, the sink's commit. Until batches of
different sizes say otherwise, `b` is 1. What they say counts as far as it stands out from noise,
and a stall counts nothing. If all of the time were charged to the records, a batch whose fixed cost
is beyond the target would be made smaller and smaller, and be no faster for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.admission.lag import BatchTime, Floats

#: Batches that are remembered; for `a`, one counts this much of the next one.
MAX_REMEMBERED_BATCHES, _DECAY_PER_BATCH = 16, 0.8
#: Records a slot that are admitted before anything is known; a batch grows so many times at most.
FIRST_RECORDS, _MAX_GROWTH = 1000, 4
#: What `b` may be at least, and how far from 1 it is thought to be (a standard deviation).
_MIN_SLOPE, _SLOPE_SIGMA = 0.1, 30.0
#: Standard deviation of the seconds of a batch at least, as a share; and for a median distance.
_MIN_NOISE, _SIGMAS_PER_MEDIAN_DISTANCE = 0.05, 1.48
#: Part of the target that records get even if the rest of the batch takes all of it; batches that
#: take too long grow up to that so many times.
MIN_SHARE, _SLOW_GROWTH = 0.25, 1.5
#: Part of the target that reading may take while it is not known what else a batch costs.
_FIRST_SHARE = 0.5


def limit_growth(times: Sequence[BatchTime], slots: float) -> int:
    """Return how many records a batch may have, by how many the last ones had.

    >>> most_records((), 2.0)
    2000
    """
    largest = max((time.records for time in times), default=0.0)
    return int(max(FIRST_RECORDS * max(slots, 1.0), _MAX_GROWTH * largest))


def fit_reading_seconds(times: Sequence[BatchTime], target: float) -> float:
    """Return for how many seconds each slot may read, so that a batch takes `target` seconds."""
    if not times:
        return _FIRST_SHARE * target
    x, y = np.array([time.reading for time in times]), np.array([time.seconds for time in times])
    newest = np.power(_DECAY_PER_BATCH, np.arange(len(x))[::-1], dtype=np.float64)
    slope = _estimate_slope(x, y)
    fixed = max(_find_weighted_median(y - slope * x, newest), 0.0)
    least = min(MIN_SHARE * target / slope, _SLOW_GROWTH * _find_weighted_median(x, newest))
    return max((target - fixed) / slope, least)


def _estimate_slope(x: Floats, y: Floats) -> float:
    """Return `b`: the median slope of pairs (Theil, Sen), as far as it stands out from noise."""
    i, j = np.triu_indices(len(x), 1)
    run = np.abs(x[j] - x[i])
    apart = run > 0
    if not apart.any():
        return 1.0
    slope = _find_weighted_median(
        ((y[j] - y[i]) / np.where(apart, x[j] - x[i], 1.0))[apart], run[apart]
    )
    rest = y - slope * x
    off = float(np.median(np.abs(rest - np.median(rest))))
    noise = max(_SIGMAS_PER_MEDIAN_DISTANCE * off, _MIN_NOISE * float(np.median(y)))
    known, lean = float(((x - x.mean()) ** 2).sum()), (noise / _SLOPE_SIGMA) ** 2
    return max((known * slope + lean) / (known + lean), _MIN_SLOPE)


def _find_weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values, kind="stable")
    half = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
    return float(values[order][half])

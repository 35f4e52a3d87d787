"""Estimate how much fits into a target time, with a line through the durations of past batches.

    seconds of a batch = fixed + slope x seconds of reading per slot

The fixed part is scheduling and the sink's commit. Without it, a batch whose fixed part exceeds the
target would become smaller and smaller without becoming faster. The slope is 1 until batches of
different sizes show another value; it is shrunk towards 1 by the noise, and outliers are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.admission.lag import BatchTime, Floats

#: Batches remembered, and the weight of a batch's fixed part relative to that of the next batch.
MAX_BATCHES, _DECAY_PER_BATCH = 16, 0.8
#: Records per slot in the first batch, and the largest growth from batch to batch.
FIRST_RECORDS, _MAX_GROWTH = 1000, 4
#: Lower limit of the slope, and the standard deviation of its prior around 1.
_MIN_SLOPE, _PRIOR_SIGMA = 0.1, 30.0
#: Least noise, as a share of a batch's seconds; standard deviation per median distance.
_MIN_NOISE, _SIGMA_PER_MAD = 0.05, 1.48
#: Part of the target for reading even if the fixed part takes all of it, and the growth of batches
#: that take too long up to that part.
MIN_SHARE, _SLOW_GROWTH = 0.25, 1.5
#: Part of the target for reading in the first batch.
_FIRST_SHARE = 0.5


def limit_growth(times: Sequence[BatchTime], slots: float) -> int:
    """Return the most records of a batch, given the sizes of the last ones.

    >>> limit_growth((), 2.0)
    2000
    """
    largest = max((time.records for time in times), default=0.0)
    return int(max(FIRST_RECORDS * max(slots, 1.0), _MAX_GROWTH * largest))


def fit_read_s(times: Sequence[BatchTime], target_s: float) -> float:
    """Return how many seconds each slot may read so that a batch takes `target_s` seconds."""
    if not times:
        return _FIRST_SHARE * target_s
    reading_s = np.array([time.reading for time in times])
    batch_s = np.array([time.seconds for time in times])
    weights = np.power(_DECAY_PER_BATCH, np.arange(len(reading_s))[::-1], dtype=np.float64)
    slope = _estimate_slope(reading_s, batch_s)
    fixed = max(_find_median(batch_s - slope * reading_s, weights), 0.0)
    grown = _SLOW_GROWTH * _find_median(reading_s, weights)
    return max((target_s - fixed) / slope, min(MIN_SHARE * target_s / slope, grown))


def _estimate_slope(reading_s: Floats, batch_s: Floats) -> float:
    """Return the median slope of all pairs (Theil-Sen), shrunk towards 1 by the noise."""
    i, j = np.triu_indices(len(reading_s), 1)
    distance = np.abs(reading_s[j] - reading_s[i])
    differs = distance > 0
    if not differs.any():
        return 1.0
    slopes = (batch_s[j] - batch_s[i]) / np.where(differs, reading_s[j] - reading_s[i], 1.0)
    slope = _find_median(slopes[differs], distance[differs])
    fixed = batch_s - slope * reading_s
    deviation = float(np.median(np.abs(fixed - np.median(fixed))))
    noise = max(_SIGMA_PER_MAD * deviation, _MIN_NOISE * float(np.median(batch_s)))
    evidence = float(((reading_s - reading_s.mean()) ** 2).sum())
    prior = (noise / _PRIOR_SIGMA) ** 2
    return max((evidence * slope + prior) / (evidence + prior), _MIN_SLOPE)


def _find_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values, kind="stable")
    half = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
    return float(values[order][half])

"""Estimate the reading time that fits into a target time, from a line fitted to past batches.

    batch seconds = fixed + slope x reading seconds per slot

The fixed part is scheduling and the sink's commit. Without it, a batch whose fixed part exceeds the
target would become smaller and smaller without becoming faster. The slope is 1 until batches of
different sizes show another value. It is shrunk towards 1 by the noise, and outliers are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.admission.batch_inputs import BatchTime, Floats

MAX_BATCHES = 16  # maximum number of remembered batches
_DECAY_PER_BATCH = 0.8  # weight of a past batch relative to the next one
FIRST_OFFSETS = 1000  # offsets per slot that every batch may have, even the first
_MAX_GROWTH = 4  # maximum size of a batch relative to the largest remembered batch
_MIN_SLOPE = 0.1  # lower bound of the slope
_PRIOR_SIGMA = 30.0  # standard deviation of the slope's prior around 1
_MIN_NOISE = 0.05  # lower bound of the noise, as a share of the median batch duration
_SIGMA_PER_MAD = 1.48  # standard deviation of normal noise over its median absolute deviation
MIN_READING_SHARE = 0.25  # share of the target kept for reading, even if the fixed part is longer
_SLOW_GROWTH = 1.5  # maximum growth of the median reading time towards MIN_READING_SHARE
_FIRST_READING_SHARE = 0.5  # share of the target for reading in the first batch


def limit_growth(times: Sequence[BatchTime], slots: float) -> int:
    """Return the maximum offsets of a batch, given the sizes of the last batches.

    >>> limit_growth((), 2.0)
    2000
    """
    largest_offsets = max((time.offsets for time in times), default=0.0)
    return int(max(FIRST_OFFSETS * max(slots, 1.0), _MAX_GROWTH * largest_offsets))


def compute_reading_s(times: Sequence[BatchTime], target_s: float) -> float:
    """Return the reading seconds per slot of a batch that takes `target_s`, at least a minimum."""
    if not times:
        return _FIRST_READING_SHARE * target_s
    reading_s = np.array([time.reading_s for time in times])
    batch_s = np.array([time.seconds for time in times])
    weights = np.power(_DECAY_PER_BATCH, np.arange(len(reading_s))[::-1], dtype=np.float64)
    slope = _estimate_slope(reading_s, batch_s)
    fixed_s = max(_find_weighted_median(batch_s - slope * reading_s, weights), 0.0)
    max_grown_s = _SLOW_GROWTH * _find_weighted_median(reading_s, weights)
    return max((target_s - fixed_s) / slope, min(MIN_READING_SHARE * target_s / slope, max_grown_s))


def _estimate_slope(reading_s: Floats, batch_s: Floats) -> float:
    """Return the weighted Theil-Sen slope shrunk towards 1; 1 if all reading times are equal."""
    i, j = np.triu_indices(len(reading_s), 1)
    distance = np.abs(reading_s[j] - reading_s[i])
    differs = distance > 0
    if not differs.any():
        return 1.0
    slopes = (batch_s[j] - batch_s[i]) / np.where(differs, reading_s[j] - reading_s[i], 1.0)
    slope = _find_weighted_median(slopes[differs], distance[differs])
    fixed_s = batch_s - slope * reading_s
    deviation = float(np.median(np.abs(fixed_s - np.median(fixed_s))))
    noise = max(_SIGMA_PER_MAD * deviation, _MIN_NOISE * float(np.median(batch_s)))
    variation = float(((reading_s - reading_s.mean()) ** 2).sum())  # of reading times, in s²
    prior = (noise / _PRIOR_SIGMA) ** 2  # the variation at which the slope is halfway to 1
    return max((variation * slope + prior) / (variation + prior), _MIN_SLOPE)


def _find_weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values, kind="stable")
    median_index = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
    return float(values[order][median_index])

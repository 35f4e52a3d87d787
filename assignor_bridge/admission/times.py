"""How much fits into a target time: a line through what batches took so far.

    seconds of a batch = a + b x (reading by slot, or records while no seconds of reading are known)

`a` is what a batch costs whatever it reads: scheduling, the sink's commit. Points that lie close
together say little of a line; it leans towards one with `a = 0` then, which is the safe side:
scaling the last batches by target / seconds approaches the target from either side, batch by batch.
The slope is that of all batches that are remembered, the level that of the newest.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.admission.lag import BatchTime

#: Batches that are remembered; for the level, one counts this much of the next one.
KEPT, _FADING = 16, 0.8
#: Records a slot that are admitted before anything is known; a batch grows so many times at most.
FIRST_RECORDS, _GROWTH = 1000, 4
#: A spread of this share of the mean is as good as what is known without it.
_LEAN = 0.1
#: Least part of what a batch's time is to its records that grows with them.
_LEAST_SLOPE = 0.1
#: Part of the target that is spent on records even if the rest of the batch takes all of it:
#: smaller batches would be no faster, and the lag would grow without end.
_LEAST_SHARE = 0.25
#: Part of the target that reading may take while it is not known what else a batch costs.
_FIRST_SHARE = 0.5


def most_records(times: Sequence[BatchTime], slots: float) -> int:
    """Return how many records a batch may have, by how many the last ones had.

    >>> most_records((), 2.0)
    2000
    """
    largest = max((time.records for time in times), default=0.0)
    return int(max(FIRST_RECORDS * max(slots, 1.0), _GROWTH * largest))


def fitting(times: Sequence[BatchTime], target: float, *, by_reading: bool) -> float:
    """Return how much may be read so that a batch takes `target` seconds.

    In seconds of reading by slot with `by_reading`, else in records; infinite while nobody knows.
    """
    pairs = [(time.reading if by_reading else time.records, time.seconds) for time in times]
    known = [pair for pair in pairs if math.isfinite(pair[0]) and min(pair) > 0]
    if not known:
        return _FIRST_SHARE * target if by_reading else math.inf
    x, y = np.array(known).T
    newest = _FADING ** np.arange(len(known))[::-1]
    now_x, now_y = np.average(x, weights=newest), np.average(y, weights=newest)
    whole = now_y / now_x  # the slope if nothing were fixed
    lean = (_LEAN * x.mean()) ** 2
    covariance = np.mean((x - x.mean()) * (y - y.mean()))
    slope = (covariance + lean * whole) / (x.var() + lean)
    slope = float(np.clip(slope, _LEAST_SLOPE * whole, whole))
    fixed = float(now_y) - slope * float(now_x)
    return max(target - fixed, _LEAST_SHARE * target) / slope

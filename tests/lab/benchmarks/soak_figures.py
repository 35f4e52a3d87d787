"""Whether memory is level: the slope of a series, whatever single samples do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Samples whose pairs are looked at: more say no more.
_MOST = 1500


@dataclass(frozen=True)
class Slope:
    """The median of the slopes of all pairs (Theil and Sen), and where their middle half lies."""

    per_hour: float
    low: float
    high: float


def slope(values: Sequence[float], step_s: float) -> Slope:
    """Return the slope of evenly spaced values, in their unit an hour."""
    every = -(-len(values) // _MOST) or 1
    kept = np.asarray(values[::every], np.float64)
    one, other = np.triu_indices(len(kept), 1)
    if not len(one):
        return Slope(0.0, 0.0, 0.0)
    hours = (other - one) * every * step_s / 3600
    low, middle, high = np.percentile((kept[other] - kept[one]) / hours, (25, 50, 75)).tolist()
    return Slope(middle, low, high)


def after_first_quarter(values: Sequence[float]) -> Sequence[float]:
    """Leave out what caches, compiled code and the first growth of heaps take."""
    return values[len(values) // 4 :]


def tenths(values: Sequence[float]) -> list[Sequence[float]]:
    """Cut a series into ten, as even as can be."""
    return [values[len(values) * i // 10 : len(values) * (i + 1) // 10] for i in range(10)]


def over_time(batch_s: Sequence[float], heaps: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return how batches and the heaps after collections went on, by tenths of the run."""
    medians = [round(float(np.median(part)), 3) for part in tenths(batch_s)]
    least = {f"{name}, MB": [round(min(p)) for p in tenths(mb)] for name, mb in heaps.items()}
    return {"batch_s, median": medians, **least}

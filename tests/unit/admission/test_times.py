"""Learned batch times: a sink with a fixed cost and one with a cost by record."""

from __future__ import annotations

import math

import pytest

from assignor_bridge.admission.lag import BatchTime
from assignor_bridge.admission.times import KEPT, fitting


def played(fixed: float, each: float, target: float, batches: int, *, reading: bool) -> list[float]:
    """Seconds of each batch, if each takes what fits; reading is half of what a record costs."""
    times: tuple[BatchTime, ...] = (BatchTime(1000, 500 * each, fixed + 1000 * each),)
    took = []
    for _ in range(batches):
        fits = fitting(times, target, by_reading=reading)
        records = max(1.0, min(fits / (each / 2) if reading else fits, 4 * times[-1].records))
        seconds = fixed + records * each
        known = records * each / 2 if reading else math.nan
        times = (*times, BatchTime(records, known, seconds))[-KEPT:]
        took.append(seconds)
    return took


@pytest.mark.parametrize("reading", [True, False], ids=["seconds known", "records only"])
@pytest.mark.parametrize(
    ("fixed", "each"),
    [(0.0, 1e-4), (0.5, 1e-4), (1.5, 1e-5), (1.9, 1e-3), (0.1, 1e-6)],
)
def test_batches_come_to_take_what_was_asked_for(fixed, each, reading):
    target = 2.0
    took = played(fixed, each, target, 25, reading=reading)
    reachable = max(target, fixed + 0.25 * target)
    assert took[-10:] == pytest.approx([reachable] * 10, rel=0.15)
    assert max(took) < 1.5 * max(reachable, took[0])


def test_a_fixed_cost_beyond_the_target_does_not_starve_the_query():
    took = played(5.0, 1e-4, 1.0, 20, reading=False)
    assert took[-1] == pytest.approx(5.25, rel=0.05)


def test_nothing_known():
    assert fitting((), 3.0, by_reading=False) == math.inf
    assert fitting((), 3.0, by_reading=True) == 1.5

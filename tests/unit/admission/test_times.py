"""Learned batch durations: sinks with a fixed cost, with a cost per record, and noise."""

from __future__ import annotations

import numpy as np
import pytest

from assignor_bridge.admission.batch_inputs import BatchTime
from assignor_bridge.admission.times import (
    FIRST_OFFSETS,
    MAX_BATCHES,
    compute_reading_s,
    limit_growth,
)

READ = 1e-5


def played(
    fixed: float, each: float, target: float, batches: int, noise: float = 0.0, first: float = 1.0
) -> tuple[list[float], list[float]]:
    """Return seconds and records of each batch, if each reads what fits and a record costs `each`.

    The first batch takes `first` times as long, because its code is not compiled yet.
    """
    rng = np.random.default_rng(3)
    times: tuple[BatchTime, ...] = ()
    for i in range(batches):
        records = max(1.0, min(compute_reading_s(times, target) / READ, limit_growth(times, 1.0)))
        seconds = (fixed + records * each) * float(rng.lognormal(0, noise))
        seconds *= 1.0 if i else first
        times = (*times, BatchTime(records, records * READ, seconds))[-MAX_BATCHES:]
    return [t.seconds for t in times], [t.offsets for t in times]


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("first", [1.0, 20.0])
@pytest.mark.parametrize(
    ("fixed", "each"),
    [(0.0, 1e-4), (0.5, 1e-4), (0.5, 1e-5), (1.2, 2e-5), (0.5, 5e-6), (0.3, 3e-4), (1.0, 5e-4)],
)
def test_batches_approach_the_target_time(fixed, each, noise, first):
    took, _ = played(fixed, each, 2.0, 40, noise, first)
    assert float(np.median(took)) == pytest.approx(2.0, rel=0.2 + noise / 2)


@pytest.mark.parametrize("noise", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("fixed", [1.9, 4.0, 20.0])
def test_a_fixed_cost_beyond_the_target_does_not_starve_the_query(fixed, noise):
    """Batches of such a sink once shrank to one record without becoming faster."""
    took, records = played(fixed, 2e-5, 2.0, 60, noise, first=5.0)
    assert float(np.median(records[10:])) > FIRST_OFFSETS
    assert float(np.median(took)) < 1.2 * fixed + 2.0


def test_the_first_batch_reads_for_half_of_the_target():
    assert compute_reading_s((), 3.0) == 1.5

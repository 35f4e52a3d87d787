"""The slope of the soak's memory: right for a line, and not moved by single samples."""

from __future__ import annotations

import pytest

from tests.lab.benchmarks.soak_figures import after_first_quarter, over_time, slope


@pytest.mark.parametrize("count", [2, 100, 4000])
def test_the_slope_of_a_line_is_its_own(count: int):
    found = slope([500 + 3 * number * 5 / 3600 for number in range(count)], 5)
    assert found.per_hour == pytest.approx(3)
    assert (found.low, found.high) == pytest.approx((3, 3))


def test_single_samples_do_not_move_it():
    values = [700.0] * 200
    values[150] = values[199] = 9000.0
    assert slope(values, 5).per_hour == 0


def test_one_sample_has_none():
    assert slope([7.0], 5).per_hour == 0


def test_the_first_quarter_is_left_out():
    assert after_first_quarter([*range(8)]) == [*range(2, 8)]


def test_how_a_run_went_on_is_told_by_its_tenths():
    batches = [float(n) for n in range(30)]
    told = over_time(batches, {"driver, live heap": [9.0, 5.0] * 10})
    assert told["batch_s, median"] == [float(n) for n in range(1, 30, 3)]
    assert told["driver, live heap, MB"] == [5] * 10

"""Records that retention deletes soon come first: small cases, and a broker that deletes."""

from __future__ import annotations

import numpy as np
import pytest

from assignor_bridge.admission.admit import admit, remember_batch_time
from assignor_bridge.admission.batch_inputs import BatchTime, Limits, Memory
from assignor_bridge.admission.deadline import compare_with_margin, compute_seconds_left
from tests.support.lags import make_lag
from tests.support.retention import Broker, count_lost

DAY = 86_400.0
HURRY = Limits(100, fairness="deadline")


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        pytest.param([np.inf] * 3, [34, 33, 33], id="nothing is deleted: even"),
        pytest.param([5 * DAY, 3 * DAY, np.inf], [34, 33, 33], id="days to live: even"),
        pytest.param([np.inf, 100.0, 5 * DAY], [0, 100, 0], id="a hurry goes first"),
        pytest.param([100.0, 5.0, np.inf], [0, 100, 0], id="the soonest goes first"),
        pytest.param([100.0, 90.0, np.inf], [50, 50, 0], id="about as soon: alike"),
        pytest.param([-1.0, -500.0, 20.0], [50, 50, 0], id="overdue: alike, whatever the age"),
    ],
)
def test_urgent_partitions_come_first(left, expected):
    lag = make_lag({"t": [1000, 1000, 1000]}, left=left, retention=7 * DAY)
    assert (admit(lag, HURRY, Memory()).end - lag.start).tolist() == expected


def test_the_remainder_after_urgent_records_is_shared_equally():
    lag = make_lag({"t": [30, 1000, 1000]}, left=[5.0, 5 * DAY, np.inf], retention=7 * DAY)
    assert (admit(lag, HURRY, Memory()).end - lag.start).tolist() == [30, 35, 35]


def test_floors_and_waiting_partitions_come_before_urgent_ones():
    lag = make_lag({"a": [1000], "b": [1000, 1000]}, left=[5.0, np.inf, np.inf], retention=DAY)
    limits = Limits(100, fairness="deadline", floors={"b": 20})
    assert (admit(lag, limits, Memory()).end - lag.start).tolist() == [80, 10, 10]
    waited = Memory(waited_batches={("b", 1): 3})
    assert (admit(lag, HURRY, waited).end - lag.start).tolist() == [99, 0, 1]


def test_the_margin():
    lag = make_lag({"t": [1, 1, 1]}, left=700.0, retention=[DAY, 1000.0, np.inf])
    assert compare_with_margin(lag, ()).tolist() == pytest.approx([700 / 300, 700 / 300, 700 / 300])
    slow = remember_batch_time(Memory(), BatchTime(1000, 1.0, 110.0)).times
    assert compare_with_margin(lag, slow).tolist() == pytest.approx([0.5, 1.4, 0.5], rel=1e-3)
    long = make_lag({"t": [10_000]}, left=700.0, retention=DAY)
    assert compare_with_margin(long, slow).tolist() == pytest.approx([700 / (300 + 1100 + 2200)])


@pytest.mark.parametrize(
    ("retention", "due_in", "others"), [(1200, 600, 5), (3600, 1200, 5), (7200, 2000, 19)]
)
def test_urgency_begins_early_enough_for_a_long_backlog(retention, due_in, others):
    """Two fifths of each batch suffice; a margin of minutes once began too late."""
    urgent = 40 * due_in
    beside = (0.0, [(retention, (40 * retention - urgent) // others)])
    broker = Broker([(0.0, [(due_in, urgent)]), *[beside] * others], retention=retention)
    limits = Limits(100, fairness="deadline")
    assert count_lost(broker, limits, batches=due_in + 5) == 0


def test_no_retention_does_not_divide_by_zero():
    lag = make_lag({"t": [5, 5]}, left=[-3.0, np.inf], retention=[0.0, np.inf])
    limits = Limits(4, fairness="deadline")
    assert (admit(lag, limits, Memory()).end - lag.start).tolist() == [4, 0]


def test_seconds_left_need_a_timestamp_and_a_retention():
    stamps = np.array([0, 50_000, -1, 0, 90_000])
    kept = np.array([60.0, 60.0, 60.0, np.inf, 60.0])
    left = compute_seconds_left(stamps, kept, 80_000)
    assert left.tolist() == [-20.0, 30.0, np.inf, np.inf, 70.0]


OLD_BESIDE_YOUNG = [(1.0, [(3, 70)])] * 3 + [(1.0, [(99, 1200)])] * 6


@pytest.mark.parametrize("fairness", ["proportional", "even", "deadline"])
def test_only_deadline_reads_all_records_in_time(fairness):
    """Few records are deleted in 3 s, many in 99 s, and a batch of 100 records takes a second."""
    broker = Broker(OLD_BESIDE_YOUNG, retention=100)
    gone = count_lost(broker, Limits(100, fairness=fairness), batches=300)
    assert (gone == 0) == (fairness == "deadline")

"""Ends of partitions by event time: small cases, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from assignor_bridge.admission.align import (
    AlignedEnds,
    Alignment,
    admit_up_to,
    align,
    find_spread_s,
)
from assignor_bridge.admission.batch_inputs import Limits, Memory, RecordTimes
from tests.support.lags import make_lag

#: The clock is at 1,000, and partitions begin at offset 10.
ALIGNMENT = Alignment(span_ms=100, max_future_ms=50)
NOW = 1000


def asked(*stamp):
    """Return the requested time, or the end of each partition of 20 records."""
    times = RecordTimes(NOW, np.array(stamp))
    answer = align(make_lag({"t": [20] * len(stamp)}), times, ALIGNMENT, {})
    return answer if isinstance(answer, int) else answer.end.tolist()


@pytest.mark.parametrize(
    ("stamp", "answer"),
    [
        pytest.param([300, 500], 400, id="the slowest and the span"),
        pytest.param([300, 949, 5000], 400, id="of the future: does not pull ahead"),
        pytest.param([300, -1], 400, id="unknown: does not hold up"),
        pytest.param([950, 980], 1050, id="just not near now"),
        pytest.param([951, 980], [30, 30], id="nothing lags: no request"),
        pytest.param([300], [30], id="alone: no request"),
        pytest.param([300, 1051], 400, id="a time of the future, another one lags"),
        pytest.param([1051, 2000], [30, 30], id="all of the future"),
        pytest.param([-1, -1], [30, 30], id="nothing known"),
    ],
)
def test_requested_times(stamp, answer):
    assert asked(*stamp) == answer


def answered(stamp, at, horizon=400, steps=None, look_ups=1):
    lag = make_lag({"t": [20] * len(stamp)})
    times = RecordTimes(NOW, np.array(stamp), look_ups, horizon, np.array(at))
    return align(lag, times, ALIGNMENT, steps or {})


@pytest.mark.parametrize(
    ("stamp", "at", "end"),
    [
        pytest.param([300, 350], [15, 12], [15, 12], id="up to the first record that is too late"),
        pytest.param([300, 350], [-1, 12], [30, 12], id="none is too late"),
        pytest.param([300, 350], [900, 12], [30, 12], id="none of this batch is too late"),
        pytest.param([300, 400], [15, 10], [15, 10], id="the very next one is too late"),
        pytest.param([300, 800], [15, 3], [15, 10], id="one that was read was too late already"),
        pytest.param([300, 390], [15, 3], [15, 11], id="a stray before: a step"),
        pytest.param([300, 5000], [15, 10], [15, 11], id="the next one is of the future: a step"),
        pytest.param([300, -1], [15, 10], [15, 11], id="unknown: a step"),
        pytest.param([300, -1], [15, 14], [15, 14], id="unknown, but Kafka knows"),
    ],
)
def test_ends_of_partitions(stamp, at, end):
    assert answered(stamp, at).end.tolist() == end


def test_a_partition_that_is_later_than_assumed_is_not_the_slowest():
    """After a pause: the newest record read is from 300, the next one from 700."""
    assert answered([700, 650], [10, 10]) == 750
    assert answered([700, 650], [15, 18], horizon=750).end.tolist() == [15, 18]
    assert answered([960, 970], [10, 10]).end.tolist() == [30, 30]


def test_there_are_at_most_two_requests():
    """Then the slowest partition advances by one record, as if earlier ones had been deleted."""
    assert answered([700, 650], [10, 10], look_ups=2).end.tolist() == [10, 11]


def test_steps_double_while_times_are_not_usable():
    steps, ends = {}, []
    for _ in range(7):
        aligned = answered([300, 5000], [15, 10], steps=steps)
        ends.append(int(aligned.end[1]) - 10)
        steps = aligned.steps
    assert ends == [1, 2, 4, 8, 16, 20, 20]
    assert answered([300, 350], [15, 12], steps=steps).steps == {}


def test_a_partition_that_waits_for_others_keeps_its_place():
    lag = make_lag({"t": [20, 20, 20]})
    waiting = {("t", 0): 2, ("t", 1): 3}
    aligned = AlignedEnds(np.array([30, 10, 12]), {("t", 2): 2})
    memory = Memory(waited_batches=waiting)
    admitted = admit_up_to(lag, aligned, Limits(1), memory)
    assert (admitted.end.tolist(), admitted.held_back_by) == ([11, 10, 10], "records")
    assert admitted.memory.waited_batches == {("t", 1): 3, ("t", 2): 1}
    assert admitted.memory.steps == {("t", 2): 2}


@pytest.mark.parametrize(
    ("end", "limits", "taken", "held_by"),
    [
        ([30, 10, 12], Limits(), [20, 0, 2], "time"),
        ([30, 10, 12], Limits(100), [20, 0, 2], "time"),
        ([30, 10, 12], Limits(11), [10, 0, 1], "records"),
        ([30, 10, 30], Limits(10, fairness="even"), [5, 0, 5], "records"),
        ([30, 30, 30], Limits(), [20, 20, 20], None),
        ([30, 10, 10], Limits(14, fixed_end=True), [14, 0, 0], "records"),
    ],
)
def test_other_limits_apply_within_aligned_ends(end, limits, taken, held_by):
    lag = make_lag({"t": [20, 20, 20]})
    admitted = admit_up_to(lag, AlignedEnds(np.array(end), {}), limits, Memory())
    assert ((admitted.end - lag.start).tolist(), admitted.held_back_by) == (taken, held_by)


def test_the_spread_ignores_unusable_times():
    assert find_spread_s(RecordTimes(NOW, np.array([300, 5000, -1, 850])), ALIGNMENT) == 0.55
    assert find_spread_s(RecordTimes(NOW, np.array([-1])), ALIGNMENT) == 0.0

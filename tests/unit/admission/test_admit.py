"""How partitions share a limited batch: small cases, computed by hand."""

from __future__ import annotations

import pytest

from assignor_bridge.admission.admit import admit, remember_batch_time
from assignor_bridge.admission.batch_inputs import BatchTime, Limits, Memory
from tests.support.lags import make_lag


def taken(lag, limits, memory=None):
    admitted = admit(lag, limits, memory or Memory())
    return (admitted.end - lag.start).tolist(), admitted.held_back_by


BACKLOG = {"big": [1000], "live": [3, 2, 1]}


@pytest.mark.parametrize(
    ("waiting", "limits", "expected", "held_by"),
    [
        pytest.param(
            BACKLOG, Limits(5000, fairness="even"), [1000, 3, 2, 1], None, id="all of it fits"
        ),
        pytest.param(
            BACKLOG, Limits(1006, fairness="even"), [1000, 3, 2, 1], None, id="just fits"
        ),
        pytest.param(
            BACKLOG, Limits(100, fairness="even"), [94, 3, 2, 1], "records",
            id="even: the small ones whole, the backlog gets the rest",
        ),
        pytest.param(
            {"t": [50, 50, 50]}, Limits(100, fairness="even"), [34, 33, 33], "records",
            id="even: the remainder goes to the first",
        ),
        pytest.param(
            {"t": [50, 50, 50]}, Limits(2, fairness="even"), [1, 1, 0], "records",
            id="even: fewer records than partitions",
        ),
        pytest.param(
            {"t": [100, 300]}, Limits(100), [25, 75], "records", id="proportional: by what waits"
        ),
        pytest.param(
            {"t": [1, 1, 998]}, Limits(10), [1, 0, 9], "records",
            id="proportional: a small one gets what rounding leaves",
        ),
        pytest.param(
            {"a": [500], "b": [500]},
            Limits(100, fairness="even", weights={"a": 3.0}), [75, 25], "records",
            id="a weight of 3",
        ),
        pytest.param(
            {"a": [500], "b": [500]},
            Limits(100, weights={"b": 4.0}), [20, 80], "records", id="weights, proportional",
        ),
        pytest.param(
            {"A": [30, 40], "b": [10_000]}, Limits(100, floors={"a": 60}), [30, 30, 40], "records",
            id="a floor is shared by the topic's partitions",
        ),
        pytest.param(
            {"a": [7], "b": [10_000]}, Limits(100, floors={"a": 60}), [7, 93], "records",
            id="a floor that the topic cannot fill goes to the others",
        ),
        pytest.param(
            {"t": [10**18, 10**18]}, Limits(2**62, fairness="even"), [2**51, 2**51], "records",
            id="no batch has more records than a float can count",
        ),
    ],
)  # fmt: skip
def test_records(waiting, limits, expected, held_by):
    assert taken(make_lag(waiting), limits) == (expected, held_by)


def test_limits_of_bytes_and_records_apply_together():
    lag = make_lag({"t": [100, 100]}, size=[10, 90])
    assert taken(lag, Limits(bytes=1000, fairness="even")) == ([10, 10], "bytes")
    assert taken(lag, Limits(offsets=8, bytes=1000, fairness="even")) == ([4, 4], "records")
    assert taken(lag, Limits(bytes=19_000, fairness="even")) == ([100, 100], None)


def test_batches_are_small_until_bytes_are_reported():
    lag = make_lag({"t": [10**6]}, slots=2.0)
    assert taken(lag, Limits(bytes=10**9)) == ([2000], "growth")


def test_a_single_record_may_exceed_the_limits():
    assert taken(make_lag({"t": [5, 5]}, size=100), Limits(bytes=7)) == ([1, 0], "bytes")


def test_waiting_partitions_come_first_until_they_are_read():
    lag, limits = make_lag({"t": [9, 9, 9]}), Limits(1, fairness="even")
    memory, order = Memory(), []
    for _ in range(4):
        admitted = admit(lag, limits, memory)
        memory = admitted.memory
        order.append((admitted.end - lag.start).tolist().index(1))
    assert order == [0, 1, 2, 0]
    assert memory.waited_batches == {("t", 1): 2, ("t", 2): 1}


def test_availablenow_uses_batches_of_equal_size():
    left, sizes = 1010, []
    while left:
        [now], _ = taken(make_lag({"t": [left]}), Limits(300, fixed_end=True, fairness="even"))
        sizes.append(now)
        left -= now
    assert sizes == [252, 252, 253, 253]


def test_availablenow_uses_batches_of_equal_duration_after_growth():
    """The sink takes half a second, and reading twice as long as predicted."""
    left, memory, took = 5_000_000, Memory(), []
    limits = Limits(seconds=2.0, fixed_end=True, fairness="even")
    while left:
        lag = make_lag({"t": [left]}, work=1e-5)
        admitted = admit(lag, limits, memory)
        records = int((admitted.end - lag.start).sum())
        left -= records
        seconds = 0.5 + 2e-5 * records
        if admitted.held_back_by != "growth":
            took.append(seconds)
        memory = remember_batch_time(admitted.memory, BatchTime(records, 1e-5 * records, seconds))
    assert len(took) > 20
    assert max(took) <= 1.1 * min(took), took


def test_the_first_batch_is_small_and_growth_is_limited():
    lag, limits = make_lag({"t": [10**6]}, slots=2.0), Limits(seconds=10.0)
    assert taken(lag, limits) == ([2000], "growth")
    memory = remember_batch_time(Memory(), BatchTime(2000, 0.01, 0.5))
    assert taken(lag, limits, memory) == ([8000], "growth")


def test_seconds_include_the_fixed_cost_of_ranges():
    """One second of reading in two slots is 2 s, of which three ranges cost 0.1 s each."""
    memory = Memory(times=(BatchTime(10**6, 1.0, 2.0), BatchTime(10**6, 2.0, 3.0)) * 8)
    lag = make_lag({"t": [10**5] * 3}, work=1e-4, fixed=0.1, slots=2.0)
    counts, held_by = taken(lag, Limits(seconds=2.0, fairness="even"), memory)
    assert held_by == "seconds"
    assert sum(counts) == pytest.approx(1.7e4, rel=0.05)


def test_floors_apply_beyond_the_target_time():
    memory = Memory(times=(BatchTime(1000, 1.0, 5.0),))
    lag = make_lag({"a": [10**6], "b": [10**6]}, work=1e-3)
    counts, _ = taken(lag, Limits(seconds=1.0, fairness="even", floors={"a": 5000}), memory)
    assert counts == [5000, 0]


def test_a_backlog_after_quiet_batches_is_not_read_record_by_record():
    """With a sink beyond the target, batches once stayed at one record."""
    memory, limits = Memory(), Limits(None, seconds=2.0, fairness="even")
    for _ in range(60):
        memory = remember_batch_time(memory, BatchTime(1, 0.003, 4.0))
    records = []
    for _ in range(30):
        lag = make_lag({"t": [10_000_000]}, work=1e-5)
        admitted = admit(lag, limits, memory)
        records.append(int((admitted.end - lag.start).sum()))
        reading = 0.003 + 1e-5 * records[-1]
        memory = remember_batch_time(admitted.memory, BatchTime(records[-1], reading, 4.0))
    assert records[0] >= 1000
    assert min(records) >= 1000


def test_batches_grow_while_bytes_are_unknown():
    memory, limits = Memory(), Limits(None, bytes=10**9)
    lag = make_lag({"t": [10_000_000]})
    first = admit(lag, limits, memory)
    records = int((first.end - lag.start).sum())
    second = admit(lag, limits, remember_batch_time(first.memory, BatchTime(records, 0.1, 1.0)))
    assert int((second.end - lag.start).sum()) == 4 * records

"""The promises of admission, for any lag and any limits."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assignor_bridge.admission.admit import admit
from assignor_bridge.admission.batch_inputs import BatchTime, Limits, Memory
from tests.support.lags import make_lag
from tests.support.retention import Broker, count_lost
from tests.support.trials import trials

sizes = st.integers(1, 5) | st.integers(1, 10**6) | st.just(2**62)
waiting = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.lists(sizes, min_size=1, max_size=8), min_size=1
)
positive = st.floats(1e-6, 1e6)
seconds = st.floats(-1e6, 1e6) | st.just(np.inf)
per_topic = st.sampled_from(["a", "b", "c"])


@st.composite
def limits(draw, *, hard=False):
    records = draw(st.integers(1, 60) | st.integers(1, 10**7))
    floors = draw(st.dictionaries(per_topic, st.integers(1, 10**6), max_size=2))
    return Limits(
        records if hard else draw(st.none() | st.just(records)),
        draw(st.none() | st.integers(1, 10**9)),
        draw(st.none() | st.floats(0.01, 100)),
        draw(st.sampled_from(["proportional", "even", "deadline"])),
        draw(st.dictionaries(per_topic, st.floats(0.001, 1000), max_size=2)),
        floors if sum(floors.values()) < records else {},
        draw(st.booleans()),
    )


@st.composite
def lags(draw):
    given_lag = draw(waiting)
    count = sum(map(len, given_lag.values()))
    costs = st.lists(positive, min_size=count, max_size=count)
    left = st.lists(seconds, min_size=count, max_size=count)
    return make_lag(
        given_lag,
        work=draw(costs), fixed=draw(st.floats(0, 10)),
        size=draw(costs | st.just(np.nan)), slots=draw(st.floats(0.1, 100)),
        left=draw(left), retention=draw(st.floats(0, 1e6)),
    )  # fmt: skip


times = st.lists(st.builds(BatchTime, positive, positive, positive), max_size=5)


@trials(120)
@given(lags(), limits(), times)
def test_ends_lie_within_records_and_sparks_limit(lag, limit, history):
    admitted = admit(lag, limit, Memory(times=tuple(history)))
    assert (admitted.end >= lag.start).all()
    assert (admitted.end <= lag.latest).all()
    counts = (admitted.end - lag.start).tolist()
    assert sum(counts) >= 1
    if limit.offsets is not None:
        assert sum(counts) <= limit.offsets
        for topic, floor in limit.floors.items():
            rows = [i for i, t in enumerate(lag.topic.tolist()) if lag.topics[t] == topic]
            waits = sum(int(lag.size[i]) for i in rows)
            assert not rows or sum(counts[i] for i in rows) >= min(floor, waits)


@trials(70)
@given(lags(), limits(hard=True))
def test_a_limit_is_used_up_when_nothing_else_limits(lag, limit):
    only = Limits(limit.offsets, fairness=limit.fairness, weights=limit.weights)
    counts = (admit(lag, only, Memory()).end - lag.start).tolist()
    assert sum(counts) == min(limit.offsets, sum(lag.size.tolist()))


@trials(70)
@given(waiting, limits(hard=True), st.data())
def test_no_partition_starves(given_lag, limit, data):
    """Each partition with records is admitted within 1 + partitions / reserve batches."""
    count = sum(map(len, given_lag.values()))
    only = Limits(
        limit.offsets, fairness=limit.fairness, weights=limit.weights, floors=limit.floors
    )
    reserve = max(1, (limit.offsets - sum(limit.floors.values())) // 2)
    bound = 1 + math.ceil(count / reserve)
    memory, unread = Memory(), [0] * count
    for _ in range(3 * bound if bound < 20 else bound + 2):
        now = {t: [data.draw(sizes) for _ in rows] for t, rows in given_lag.items()}
        left = data.draw(st.lists(seconds, min_size=count, max_size=count))
        lag = make_lag(now, left=left, retention=1e5)
        admitted = admit(lag, only, memory)
        memory = admitted.memory
        counts = (admitted.end - lag.start).tolist()
        unread = [0 if n else before + 1 for n, before in zip(counts, unread, strict=True)]
        assert max(unread) < bound


@trials(70)
@given(waiting, st.integers(1, 10**6))
def test_even_is_max_min_fair(given_lag, records):
    """No partition gets two records more than another that could take more."""
    lag = make_lag(given_lag)
    counts = admit(lag, Limits(records, fairness="even"), Memory()).end - lag.start
    hungry = counts[counts < lag.size]
    assert not len(hungry) or counts.max() <= hungry.min() + 1


def test_many_partitions_are_admitted_quickly():
    lag = make_lag({"t": list(range(1, 100_001))})
    admitted = admit(lag, Limits(1_000_000, fairness="even"), Memory())
    assert int((admitted.end - lag.start).sum()) == 1_000_000


@st.composite
def brokers_that_can_be_read_in_time(draw):
    """Draw brokers whose records can all be read in time, with two fifths of each batch."""
    retention = draw(st.integers(40, 120))
    count = draw(st.integers(2, 6))
    bursts = st.tuples(st.integers(5, retention), st.integers(0, count - 1), st.integers(1, 5000))
    waiting, total = [[] for _ in range(count)], 0
    for left, partition, records in sorted(draw(st.lists(bursts, max_size=12))):
        fits = min(records, 40 * left - total)
        waiting[partition].append((left, fits))
        total += fits
    rates = draw(st.lists(st.floats(0, 40 / count), min_size=count, max_size=count))
    return Broker(list(zip(rates, waiting, strict=True)), retention=retention)


@trials(35)
@given(brokers_that_can_be_read_in_time())
def test_no_record_is_lost_if_reading_in_time_is_possible(broker):
    assert count_lost(broker, Limits(100, fairness="deadline"), batches=130) == 0

"""The promises of alignment, for any timestamps.

The driver is simulated: it knows the time of a record that Kafka returned, else that of the newest
record read before, else it reads the next record.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assignor_bridge.admission.align import Alignment, admit_up_to, align
from assignor_bridge.admission.batch_inputs import Limits, Memory, RecordTimes
from tests.support.lags import make_lag
from tests.support.trials import trials

NOW, AHEAD = 1000, 50
spans = st.integers(1, 400)
in_order = st.lists(st.integers(0, NOW), max_size=30).map(sorted)
#: Timestamps with strays, times in the future, and unknown times.
any_times = st.lists(st.integers(-1, NOW) | st.integers(NOW, 10**6), max_size=30)
limits = st.builds(
    Limits,
    st.none() | st.integers(1, 40),
    fairness=st.sampled_from(["proportional", "even"]),
    fixed_end=st.booleans(),
)


class Reading:
    """Partitions of one topic, and their read positions."""

    def __init__(self, stamps):
        self.stamps = stamps
        self.position = [0] * len(stamps)
        self.known = [{} for _ in stamps]
        self.memory = Memory()
        self.look_ups = 0

    @property
    def waiting(self):
        return [p for p, at in enumerate(self.position) if at < len(self.stamps[p])]

    def times(self):
        rows = self.waiting
        stamp = [self.known[p].get(self.position[p], self.next(p)) for p in rows]
        return RecordTimes(NOW, np.array(stamp, np.int64))

    def next(self, p):
        return self.stamps[p][self.position[p]]

    def look_up(self, time):
        self.look_ups += 1
        first = [
            next((at for at, stamp in enumerate(self.stamps[p]) if stamp >= time), -1)
            for p in self.waiting
        ]
        for p, at in zip(self.waiting, first, strict=True):
            if at >= self.position[p]:
                self.known[p][at] = self.stamps[p][at]
        at = np.array(first, np.int64)
        return self.times()._replace(look_ups=self.look_ups, asked_ms=time, first_offset=at)

    def admit(self, alignment, limit):
        """Read one batch, and return its start and end in each partition."""
        rows = self.waiting
        start = np.array([self.position[p] for p in rows])
        latest = np.array([len(self.stamps[p]) for p in rows])
        lag = replace(
            make_lag({"t": [1] * len(rows)}), partition=np.array(rows), start=start, latest=latest
        )
        self.look_ups = 0
        aligned = align(lag, self.times(), alignment, self.memory.steps)
        while isinstance(aligned, int):
            aligned = align(lag, self.look_up(aligned), alignment, self.memory.steps)
        admitted = admit_up_to(lag, aligned, limit, self.memory)
        self.memory = admitted.memory
        ends = dict(zip(rows, admitted.end.tolist(), strict=True))
        read = {p: (self.position[p], end) for p, end in ends.items()}
        for p, (begin, end) in read.items():
            self.position[p] = end
            if (newest := max(self.stamps[p][begin:end], default=-1)) >= 0:
                self.known[p].setdefault(end, newest)
        return read


@trials(100)
@given(st.lists(in_order, min_size=1, max_size=5), spans, limits)
def test_no_partition_is_read_beyond_the_horizon(stamps, span, limit):
    reading = Reading(stamps)
    while reading.waiting:
        slowest = min(reading.next(p) for p in reading.waiting)
        alone = len(reading.waiting) == 1
        read = reading.admit(Alignment(span, AHEAD), limit)
        newest = max(s for p, (begin, end) in read.items() for s in stamps[p][begin:end])
        assert alone or newest < slowest + span


@trials(100)
@given(st.lists(any_times, min_size=1, max_size=5), spans, limits)
def test_every_record_is_read_once_with_any_timestamps(stamps, span, limit):
    reading = Reading(stamps)
    for _ in range(sum(map(len, stamps))):
        if not reading.waiting:
            break

        before = list(reading.position)
        read = reading.admit(Alignment(span, AHEAD), limit)
        sizes = [end - begin for begin, end in read.values()]
        assert all(begin == before[p] for p, (begin, _) in read.items())
        assert min(sizes) >= 0
        assert 1 <= sum(sizes) <= (limit.offsets or 10**9)
        assert reading.look_ups <= 2
    assert not reading.waiting


@trials(50)
@given(st.integers(1, 2000), st.integers(0, 100))
def test_a_record_from_the_future_costs_few_batches(records, place):
    """Kafka finds it instead of later records; the other partition is far ahead."""
    own = [n // 10 for n in range(records)]
    own.insert(min(place, records), 10**6)
    reading = Reading([own, [900] * 10])
    batches = 0
    while 0 in reading.waiting:
        reading.admit(Alignment(300, AHEAD), Limits())
        batches += 1
    assert batches <= 30


@given(st.lists(any_times.filter(bool), min_size=2, max_size=6), spans, st.randoms())
def test_the_order_of_partitions_does_not_matter(stamps, span, random):
    def ends(order):
        reading = Reading(stamps)
        times = reading.times()
        found = reading.look_up(int(times.stamp_ms.min()) + span)
        lag = replace(
            make_lag({"t": list(map(len, stamps))}), start=np.zeros(len(stamps), np.int64)
        )
        lag = replace(lag, latest=lag.start + [len(s) for s in stamps]).only(np.array(order))
        stamp, first = found.stamp_ms[order], found.first_offset[order]
        found = found._replace(stamp_ms=stamp, first_offset=first)
        aligned = align(lag, found, Alignment(span, AHEAD), {})
        if isinstance(aligned, int):
            return aligned
        return dict(zip(order, aligned.end.tolist(), strict=True))

    order = list(range(len(stamps)))
    shuffled = random.sample(order, len(order))
    assert ends(order) == ends(shuffled)

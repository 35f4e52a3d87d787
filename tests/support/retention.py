"""Simulate retention: one batch per second is admitted and read at once."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.admission.admit import admit, remember_batch_time
from assignor_bridge.admission.batch_inputs import BatchTime, Memory
from assignor_bridge.admission.deadline import compute_seconds_left
from tests.support.lags import make_lag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.admission.batch_inputs import Limits


class Broker:
    """Partitions, each with its records per second and its unread records at the start.

    Unread records are pairs: seconds until their deletion, and their number.
    """

    def __init__(
        self, partitions: Sequence[tuple[float, Sequence[tuple[int, int]]]], *, retention: int
    ) -> None:
        self.retention = retention
        self.now = 0
        self.lost = 0
        self._rates = [rate for rate, _ in partitions]
        self._owed = [0.0] * len(partitions)
        #: Pairs of second and count for each partition, oldest first.
        self.logs = [
            deque([left - retention, count] for left, count in sorted(waiting) if count)
            for _, waiting in partitions
        ]

    def read(self, counts: Sequence[int]) -> None:
        for log, count in zip(self.logs, counts, strict=True):
            unread = count
            while unread:
                taken = min(unread, log[0][1])
                log[0][1] -= taken
                unread -= taken
                if not log[0][1]:
                    log.popleft()

    def pass_a_second(self) -> None:
        for i, (log, rate) in enumerate(zip(self.logs, self._rates, strict=True)):
            self._owed[i] += rate
            count = int(self._owed[i])
            self._owed[i] -= count
            if count:
                log.append([self.now, count])
        self.now += 1
        for log in self.logs:
            while log and self.now - log[0][0] > self.retention:
                self.lost += log.popleft()[1]


def count_lost(broker: Broker, limits: Limits, *, batches: int) -> int:
    """Read batches of one second; return the number of records deleted unread."""
    memory = Memory()
    for _ in range(batches):
        waiting = [sum(count for _, count in log) for log in broker.logs]
        rows = [i for i, count in enumerate(waiting) if count]
        if rows:
            stamps = np.array([1000 * broker.logs[i][0][0] + 10**9 for i in rows])
            limit = np.full(len(rows), broker.retention)
            lag = make_lag(
                {f"t{i:03}": [waiting[i]] for i in rows},
                left=compute_seconds_left(stamps, limit, 1000 * broker.now + 10**9),
                retention=limit,
            )  # fmt: skip
            admitted = admit(lag, limits, memory)
            memory = remember_batch_time(admitted.memory, BatchTime(100, 0.5, 1.0))
            counts = dict(zip(rows, (admitted.end - lag.start).tolist(), strict=True))
            broker.read([counts.get(i, 0) for i in range(len(broker.logs))])
        broker.pass_a_second()
    return broker.lost

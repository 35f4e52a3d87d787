"""The input of the long run: JSON, CSV and Avro records at a steady rate, and what they add up to.

One round is one record to each of three topics. Records are formatted on the fly, which is cheap
enough (`cpu_s` tells): the producer must not be what limits.
"""

from __future__ import annotations

import random
import struct
import threading
import time
from bisect import bisect_right

from confluent_kafka import Producer

KEYS = 100_000
_SLICE_S = 0.1
_END_LIMIT_S = 60.0


class Load:
    """Writes rounds at a rate, in slices of a tenth of a second, from `start` to `stop`."""

    def __init__(self, servers: str, topics: tuple[str, str, str], rounds_per_s: float) -> None:
        #: Rounds that were written.
        self.rounds = 0
        #: The last value of each key of the Avro topic.
        self.newest: dict[int, float] = {}
        #: CPU time of the producer, both of its threads.
        self.cpu_s = 0.0
        #: Rounds that were owed at the end of a slice and not yet written, at most.
        self.most_behind = 0
        self._topics = topics
        self._per_s = rounds_per_s
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "linger.ms": 50,
                "enable.idempotence": True,  # a batch that is sent again is not doubled
                "log_level": 3,
            }
        )
        self._draw = random.Random(8)
        self._times_s: list[float] = []
        self._counts: list[int] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def warm_up(self, rounds: int) -> None:
        """Write a few rounds before the start."""
        self._write_to(rounds)
        self._flush()

    def start(self) -> None:
        """Write at the rate from now on."""
        self._thread.start()

    def rounds_after(self, seconds: float) -> int:
        """Rounds that had been written so many seconds after the first."""
        index = bisect_right(self._times_s, self.began_s + seconds)
        return self._counts[index - 1] if index else 0

    @property
    def began_s(self) -> float:
        """When the first slice was written."""
        return self._times_s[0]

    @property
    def ended_s(self) -> float:
        """When the last slice was written."""
        return self._times_s[-1]

    def stop(self) -> None:
        """Write no more, and wait until all is delivered."""
        self._ended.set()
        self._thread.join(_END_LIMIT_S)
        self._flush()

    def _flush(self) -> None:
        left = self._producer.flush(_END_LIMIT_S)
        assert left == 0, f"{left} records were not delivered"

    def _work(self) -> None:
        began, cpu_before, before = time.monotonic(), time.process_time(), self.rounds
        self._note()
        while not self._ended.wait(_SLICE_S):
            self._write_to(before + int((time.monotonic() - began) * self._per_s))
            self._note()
            owed = before + int((time.monotonic() - began) * self._per_s)
            self.most_behind = max(self.most_behind, owed - self.rounds)
            self._producer.poll(0)
            self.cpu_s = time.process_time() - cpu_before

    def _note(self) -> None:
        self._times_s.append(time.time())
        self._counts.append(self.rounds)

    def _write_to(self, rounds: int) -> None:
        for number in range(self.rounds, rounds):
            self._send(number)
        self.rounds = rounds

    def _send(self, number: int) -> None:
        text, csv, avro = self._topics
        value = number / 8
        self._producer.produce(text, f'{{"id": {number}, "value": {value}}}')
        self._producer.produce(csv, f"{number},{value}")
        key = int(self._draw.random() * KEYS)
        self.newest[key] = value
        body = b"\0\0\0\0\1" + _zigzag(key) + struct.pack("<d", value)
        self._producer.produce(avro, body, str(key))


def _zigzag(number: int) -> bytes:
    rest, out = number << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])

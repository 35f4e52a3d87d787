"""A producer process at a steady rate: small JSON records, stamped when made (CreateTime).

    python -m tests.lab.benchmarks.freshness_load '{"servers": …}'

It first writes what a query starts with, as fast as it can, and says so with a line. Each line on
its stdin is a rate from then on, in records a second; `end` is the last one. Then it says what it
has written.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from confluent_kafka import Message, Producer

from tests.support.line_process import LineProcess

KEYS = 100_000
_ROOT = Path(__file__).parents[3]
_SLICE_S = 0.02
_DRAWN = 65_536
_END_LIMIT_S = 60.0
_END = "end"


@dataclass(frozen=True)
class Load:
    """What is written: `first` records at once, the others at a rate."""

    servers: str
    #: Or several, separated by commas: records go to them in turn.
    topic: str
    partitions: int
    #: Exponent of Zipf's law over the partitions; 0 for equal ones.
    zipf: float
    first: int
    #: Note the time to the acknowledgement of every so many records; 0: of none.
    sampled: int = 0


class LoadProcess(LineProcess):
    """The process, from its start to the last record; ended with the block."""

    def __init__(self, load: Load) -> None:
        super().__init__(
            [sys.executable, "-m", "tests.lab.benchmarks.freshness_load", json.dumps(asdict(load))],
            cwd=_ROOT,
        )
        self.read()  # the first records are there

    def write_at(self, rate: int) -> None:
        """Write so many records a second from now on."""
        self.send(str(rate))

    def end(self) -> dict[str, Any]:
        """Write no more; give what was written once the broker has it."""
        self.send(_END)
        written: dict[str, Any] = json.loads(self.read())
        return written


class _Writer:
    """Writes numbered records; partitions and keys are drawn by a seed."""

    def __init__(self, load: Load) -> None:
        self._topics = load.topic.split(",")
        self._producer = Producer(
            {
                "bootstrap.servers": load.servers,
                "linger.ms": 5,
                "queue.buffering.max.messages": 1_000_000,
                "log_level": 3,
            }
        )
        self._draw = random.Random(8)
        weights = [1 / rank**load.zipf for rank in range(1, load.partitions + 1)]
        # The heavy ones are spread over the numbers, as hashes of keys would.
        self._draw.shuffle(weights)
        self._partitions = self._draw.choices(range(load.partitions), weights, k=_DRAWN)
        self.written = 0
        self.sampled: list[tuple[float, float]] = []
        self._every = load.sampled

    def write_to(self, count: int) -> None:
        """Write records up to a number."""
        for number in range(self.written, count):
            key = number if number < KEYS else int(self._draw.random() * KEYS)
            self._producer.produce(
                self._topics[number % len(self._topics)],
                f'{{"key": {key}, "id": {number}}}',
                partition=self._partitions[number % _DRAWN],
                on_delivery=self._note if self._every and number % self._every == 0 else None,
            )
            if number % 1000 == 0:
                self._producer.poll(0)
        self.written = max(self.written, count)
        self._producer.poll(0)

    def _note(self, error: object, message: Message) -> None:
        assert error is None, error
        self.sampled.append((time.time(), message.latency()))

    def flush(self) -> None:
        """Wait until the broker has all."""
        left = self._producer.flush(_END_LIMIT_S)
        assert left == 0, f"{left} records were not delivered"


def _take(lines: SimpleQueue[str]) -> None:
    """Hand lines on, up to the end: of the run, or of the benchmark itself."""
    while (line := sys.stdin.readline().strip() or _END) != _END:
        lines.put(line)
    lines.put(_END)


def main() -> None:
    """Write as the first argument says."""
    load = Load(**json.loads(sys.argv[1]))
    writer = _Writer(load)
    writer.write_to(load.first)
    writer.flush()
    print("ready", flush=True)
    lines: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_take, args=(lines,), daemon=True).start()
    line = lines.get()
    began, cpu_s, most_behind_s = time.monotonic(), time.process_time(), 0.0
    owed, until, rate = float(load.first), began, 0.0
    while line != _END:
        rate = float(line or rate)
        try:
            line = lines.get(timeout=_SLICE_S)
        except Empty:
            line = ""
        now = time.monotonic()
        owed, until = owed + (now - until) * rate, now
        most_behind_s = max(most_behind_s, (owed - writer.written) / rate)
        writer.write_to(int(owed))
    lasted = time.monotonic() - began
    writer.flush()
    told = {
        "records": writer.written,
        "most_behind_s": most_behind_s,
        "cores": (time.process_time() - cpu_s) / lasted,
        "sampled": writer.sampled,
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()

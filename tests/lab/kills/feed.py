"""The records that are written all the while, and the table that an upsert must make of them."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from tests.lab.kills.places import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.kafka_topics import Topic

#: Name in a record that deletes its key.
GONE = "gone"
#: Some keys change all the time, most rarely: of these a batch may bring nothing but late records.
_KEYS = 2000
_SKEW = 3
#: Number of changes that share a `seq`: then Kafka's offset and partition decide.
_CHANGES_PER_SEQ = 40
#: By how many changes a record may be late; a batch is some hundreds or thousands of them.
_LATE = (0, 0, 0, 100, 1000, 20_000)
_REPEATED_FROM_LAST = 1000

Row = list[Any]


@dataclass(frozen=True)
class Change:
    """One record: what it says about a key, and when, as Kafka has it."""

    id: int
    seq: int
    name: str
    timestamp_ms: int


class Feed:
    """Writes changes to all partitions until it is stopped; some get more than others.

    Keys repeat, records come late, repeatedly and with equal `seq`, and each eighth deletes.
    """

    def __init__(self, topic: Topic, seed: int) -> None:
        #: By partition and offset.
        self.sent: list[list[Change]] = [[] for _ in range(PARTITIONS)]
        self._topic = topic
        self._rng = random.Random(seed)
        self._recent: deque[Change] = deque(maxlen=_REPEATED_FROM_LAST)
        self._made = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def counts(self) -> list[int]:
        return [len(changes) for changes in self.sent]

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._topic.bootstrap_servers, "enable.idempotence": True}
        )
        while not self._stop.wait(0.25):
            for partition in range(PARTITIONS):
                for _ in range(1 + partition % 4):
                    self._send(producer, partition, self._change())
            producer.flush(60)

    def _send(self, producer: Producer, partition: int, change: Change) -> None:
        """Note the change first, since a query may read it at once."""
        offsets = self.sent[partition]
        said = {"id": change.id, "seq": change.seq, "name": change.name}
        said["at"] = f"{partition}/{len(offsets)}"
        offsets.append(change)
        producer.produce(
            self._topic.name,
            json.dumps(said).encode(),
            str(change.id).encode(),
            partition=partition,
            timestamp=change.timestamp_ms,
        )

    def _change(self) -> Change:
        rng = self._rng
        if self._recent and rng.random() < 0.2:
            return rng.choice(self._recent)
        self._made += 1
        change = Change(
            id=int(_KEYS * rng.random() ** _SKEW),
            seq=max(0, self._made - rng.choice(_LATE)) // _CHANGES_PER_SEQ,
            name=GONE if rng.random() < 0.125 else f"n{rng.randrange(10**6)}",
            timestamp_ms=int(time.time() * 1000) - rng.randrange(1000),
        )
        self._recent.append(change)
        return change


class Reference:
    """The table of an upsert after a batch, in plain Python.

    Of each key the record of the greatest seq stays; of equal ones that of the greatest offset,
    and then of the greatest partition.
    """

    def __init__(self, sent: list[list[Change]]) -> None:
        self._sent = sent
        self._folded = [0] * len(sent)
        self._newest: dict[int, tuple[int, int, int]] = {}

    def rows(self, ends: Mapping[int, int]) -> list[Row]:
        """Give id, seq, name, deleted, partition, offset of what lies below these offsets.

        They must not be lower than those of the last call.
        """
        for partition, end in ends.items():
            first = self._folded[partition]
            assert first <= end <= len(self._sent[partition])
            for offset in range(first, end):
                change = self._sent[partition][offset]
                rank = (change.seq, offset, partition)
                self._newest[change.id] = max(rank, self._newest.get(change.id, rank))
            self._folded[partition] = end
        return [
            [key, seq, name, name == GONE, partition, offset]
            for key, (seq, offset, partition) in sorted(self._newest.items())
            for name in [self._sent[partition][offset].name]
        ]

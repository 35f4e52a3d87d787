"""The records that are written all the while, and what was written when the log was another."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Producer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.kafka_topics import Topic

PARTITIONS = 12


@dataclass
class Era:
    """What was written while the log was one: offsets from where to where, by partition."""

    first: Mapping[int, int] = field(default_factory=dict)
    counts: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))

    def offsets(self, partition: int) -> set[int]:
        """Offsets that were written to a partition."""
        return set(range(self.first.get(partition, 0), self.counts[partition]))


class Feed:
    """Writes numbered values until it is stopped, each acknowledged by all.

    A value is `<partition>/<offset>/<era>`; an era begins where records are gone and
    others get their offsets.
    """

    def __init__(
        self, topic: Topic, partitions: int = PARTITIONS, padding: int = 0, keys: int = 0
    ) -> None:
        self.eras = [Era()]
        self.partitions = partitions
        self._topic = topic
        self._padding = " " * padding
        self._keys = keys
        #: Kafka's timestamps, in milliseconds, by partition and offset; the others are of now.
        self.stamps: dict[tuple[int, int], int] = {}
        #: Records of a megabyte are few, and so are those of many partitions.
        self._most = 1 if padding or partitions > PARTITIONS else 10
        self._pause_s = 0.5 if padding else 0.1
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self.start()

    @property
    def counts(self) -> defaultdict[int, int]:
        """Where the next record of each partition will be."""
        return self.eras[-1].counts

    def begin_era(self, ends: Mapping[int, int]) -> None:
        """Write from these offsets on, when started again: the log ends there."""
        self.eras.append(Era(dict(ends), defaultdict(int, ends)))

    def start(self) -> None:
        """Write, or go on."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Return when all is acknowledged."""
        self._stop.set()
        self._thread.join(200)
        assert not self._thread.is_alive(), "records are not acknowledged"
        assert self._failure is None, self._failure

    def _run(self) -> None:
        try:
            producer = Producer(
                {
                    "bootstrap.servers": self._topic.bootstrap_servers,
                    "enable.idempotence": True,  # what is sent again is there once, in its place
                    "message.timeout.ms": 180_000,
                    "message.max.bytes": 4_000_000,
                    "topic.metadata.refresh.interval.ms": 1_000,
                    "log_level": 0,
                }
            )
            while not self._stop.wait(self._pause_s):
                for partition in range(self.partitions):
                    for _ in range(min(self._most, 1 + 3 * (partition % 4))):
                        if not self._wrote(producer, partition):
                            break
                assert producer.flush(180) == 0
        except BaseException as error:  # noqa: BLE001  (told by `stop`)
            self._failure = error

    def _wrote(self, producer: Producer, partition: int) -> bool:
        """Write the next record; False for a new partition that is not known here yet."""
        number = self.counts[partition]
        value = f"{partition}/{number}/{len(self.eras) - 1}{self._padding}".encode()
        key = b"%d" % (number % self._keys) if self._keys else None
        stamp = self.stamps.get((partition, number), 0)  # 0 means "now" to the client
        try:
            producer.produce(self._topic.name, value, key, partition=partition, timestamp=stamp)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                raise
            return False
        self.counts[partition] += 1
        return True

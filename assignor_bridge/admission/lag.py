"""The input and output of admission: columns of partitions, limits, memory, and ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

Fairness = Literal["proportional", "even", "deadline"]


@dataclass(frozen=True, eq=False)
class Lag:
    """Partitions with unread records (`start < latest`), sorted by topic and number."""

    topics: tuple[str, ...]
    #: Index in `topics`.
    topic: Ints
    partition: Ints
    start: Ints
    latest: Ints
    #: Seconds of a slot per offset, and per range in addition to its offsets.
    seconds_per_offset: Floats
    seconds_per_range: Floats
    #: Learned bytes per offset; NaN if no partition has reported any.
    bytes_per_offset: Floats
    #: Number of slots, weighted by the speed of their executors.
    slots: float
    #: Least seconds until retention deletes the first unread record, and the retention time;
    #: infinite if records are kept forever or it is unknown.
    seconds_left: Floats
    retention_s: Floats

    @cached_property
    def size(self) -> Ints:
        """Number of unread offsets of each partition."""
        return self.latest - self.start

    @property
    def names(self) -> list[tuple[str, int]]:
        """Topic and number of each partition."""
        topics = [self.topics[t] for t in self.topic.tolist()]
        return list(zip(topics, self.partition.tolist(), strict=True))

    def only(self, rows: Flags) -> Lag:
        """Return the lag of the partitions whose flag is set."""
        columns: dict[str, Any] = {
            name: column[rows]
            for name, column in vars(self).items()
            if isinstance(column, np.ndarray) and name != "size"
        }
        return replace(self, **columns)


class RecordTimes(NamedTuple):
    """Kafka's timestamps of the partitions' records, in milliseconds."""

    #: The driver's clock.
    now_ms: int
    #: Of the first unread record; -1 if unknown. After a batch it is that of the newest record
    #: read, because the next one is at least as new if records are in order.
    stamp_ms: Ints
    #: Number of requests to Kafka for this batch.
    look_ups: int = 0
    #: The last requested time, and the offset of the partition's first record at or after it, which
    #: may have been read already; -1 if there is none.
    asked_ms: int | None = None
    first_offset: Ints | None = None


class BatchTime(NamedTuple):
    """The duration of a completed batch."""

    #: Offsets admitted.
    records: float
    #: Seconds of reading per slot.
    reading: float
    #: Seconds from admission to completion, including the sink's.
    seconds: float


@dataclass(frozen=True)
class Memory:
    """The memory between admissions; it is lost with the process and built up again."""

    #: Batches in a row that admitted nothing of a partition with unread records.
    waiting: Mapping[tuple[str, int], int] = field(default_factory=dict)
    #: Sorted by time, the newest last.
    times: tuple[BatchTime, ...] = ()
    #: Records to admit next of partitions whose timestamps are not usable (`align`).
    steps: Mapping[tuple[str, int], int] = field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """The limits of a batch, and how partitions share it."""

    #: Spark's `maxOffsetsPerTrigger`, or its rate limit for this source.
    records: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    fairness: Fairness = "proportional"
    #: By topic, in lower case.
    weights: Mapping[str, float] = field(default_factory=dict)
    floors: Mapping[str, int] = field(default_factory=dict)
    #: Whether there is a fixed end (`availableNow`), to be reached in batches of equal size.
    fixed_end: bool = False


class Budget(NamedTuple):
    """An amount that a batch may use up, and what an offset of each partition costs of it."""

    name: str
    cost: Floats
    amount: float


@dataclass(frozen=True, eq=False)
class Admission:
    """The end of each partition, the limit that held others back (None: none), and the memory."""

    end: Ints
    held_back_by: str | None
    memory: Memory

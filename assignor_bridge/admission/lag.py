"""What admission works on: columns with a cell a partition, the limits, and what is remembered."""

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
    """What waits: a cell a partition, each with `start < latest`, by topic and number."""

    topics: tuple[str, ...]
    #: Index in `topics`.
    topic: Ints
    partition: Ints
    start: Ints
    latest: Ints
    #: Seconds of a slot that an offset takes, and a range beside its offsets.
    work: Floats
    fixed: Floats
    #: Learned bytes an offset; not a number where no partition is known.
    bytes: Floats
    #: Slots, each counted by the speed of its executor.
    slots: float
    #: Least seconds until retention deletes the first unread record, and those that it keeps one;
    #: infinite where it does not, or nobody knows.
    left: Floats
    retention: Floats

    @cached_property
    def size(self) -> Ints:
        """Offsets that wait in each partition."""
        return self.latest - self.start

    @property
    def names(self) -> list[tuple[str, int]]:
        """Topic and number of each partition."""
        topics = [self.topics[t] for t in self.topic.tolist()]
        return list(zip(topics, self.partition.tolist(), strict=True))

    def only(self, rows: Flags) -> Lag:
        """Return the lag of these partitions alone."""
        columns: dict[str, Any] = {
            name: column[rows]
            for name, column in vars(self).items()
            if isinstance(column, np.ndarray) and name != "size"
        }
        return replace(self, **columns)


class RecordTimes(NamedTuple):
    """When records of the waiting partitions were written: Kafka's timestamps, in milliseconds."""

    #: The driver's clock.
    now: int
    #: Of the first unread record; -1: unknown. After a batch it is that of the newest record that
    #: was read: the next one is as new where records are in order.
    stamp: Ints
    #: How often Kafka was asked for this batch.
    look_ups: int = 0
    #: The time it was asked for last, and the offset of the partition's first record at or after
    #: it, which may have been read already; -1: there is none.
    asked: int | None = None
    at: Ints | None = None


class BatchTime(NamedTuple):
    """What a completed batch took."""

    #: Offsets that were admitted.
    records: float
    #: Seconds of reading, divided by the slots.
    reading: float
    #: Seconds from its admission to its completion, the sink's included.
    seconds: float


@dataclass(frozen=True)
class Memory:
    """What one admission leaves for the next; it is lost with the process and built up again."""

    #: Batches in a row that admitted nothing of a partition in which records waited.
    waiting: Mapping[tuple[str, int], int] = field(default_factory=dict)
    #: The newest last.
    times: tuple[BatchTime, ...] = ()
    #: How many records a partition whose times say nothing may go (`align`).
    steps: Mapping[tuple[str, int], int] = field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """What limits a batch, and who gets how much of it."""

    #: Spark's `maxOffsetsPerTrigger`, or its rate limit for this source.
    records: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    fairness: Fairness = "proportional"
    #: By topic in lower case.
    weights: Mapping[str, float] = field(default_factory=dict)
    floors: Mapping[str, int] = field(default_factory=dict)
    #: Whether there is a fixed end (`availableNow`), to be reached in batches of one size.
    fixed_end: bool = False


class Budget(NamedTuple):
    """So much of something may be used, of which an offset of each partition needs `cost`."""

    name: str
    cost: Floats
    amount: float


@dataclass(frozen=True, eq=False)
class Admission:
    """End offset of each partition, what held the rest back (None: nothing), what to remember."""

    end: Ints
    held_by: str | None
    memory: Memory

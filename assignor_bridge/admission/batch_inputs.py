"""Input and output of admission: partition columns, limits, memory, and ends."""

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
    """Partitions with unread records (`start < latest`), sorted by topic and partition number."""

    topics: tuple[str, ...]
    #: Index in `topics`.
    topic: Ints
    partition: Ints
    start: Ints
    #: First offset after the unread records.
    latest: Ints
    #: Slot seconds per offset.
    seconds_per_offset: Floats
    #: Fixed slot seconds per range.
    seconds_per_range: Floats
    #: Learned bytes per offset; NaN if no bytes are reported yet.
    bytes_per_offset: Floats
    #: Number of slots, weighted by executor speed.
    slots: float
    #: Lower bound on the seconds until retention deletes the first unread record, or infinite.
    seconds_left: Floats
    #: Retention time in seconds; infinite if it is unknown or unlimited.
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

    def only(self, flags: Flags) -> Lag:
        """Return the lag of the partitions whose flag is set."""
        columns: dict[str, Any] = {
            name: column[flags]
            for name, column in vars(self).items()
            if isinstance(column, np.ndarray) and name != "size"
        }
        return replace(self, **columns)


class RecordTimes(NamedTuple):
    """Kafka record timestamps of each partition, in milliseconds."""

    #: Current time by the driver's clock.
    now_ms: int
    #: Timestamp of the first unread record; -1 if unknown. After a batch it is the newest timestamp
    #: read, because the next record is at least as new if records are in order.
    stamp_ms: Ints
    #: Number of offset look-ups in Kafka for this batch.
    look_ups: int = 0
    #: Horizon for which offsets were last requested (see `align`); None if none were.
    asked_ms: int | None = None
    #: First offset at or after `asked_ms`, perhaps already read; -1: none. None: not requested.
    first_offset: Ints | None = None


class BatchTime(NamedTuple):
    """The size and duration of a completed batch."""

    #: Number of admitted offsets.
    offsets: float
    #: Reading seconds per slot.
    reading_s: float
    #: Seconds from admission to completion, including the sink.
    seconds: float


@dataclass(frozen=True)
class Memory:
    """State kept between admissions; it is not saved, so it is empty after a restart."""

    #: Number of consecutive batches that admitted nothing from a partition with unread records.
    waited_batches: Mapping[tuple[str, int], int] = field(default_factory=dict)
    #: Recent batches, newest last.
    times: tuple[BatchTime, ...] = ()
    #: Next step, in offsets, of each partition that advances in steps (`align`).
    steps: Mapping[tuple[str, int], int] = field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """The limits of a batch (None: no limit), and how partitions share it."""

    #: Maximum offsets: Spark's `maxOffsetsPerTrigger`, or its rate limit for this source.
    offsets: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    fairness: Fairness = "proportional"
    #: Weight by topic in lower case; other topics have weight 1.
    weights: Mapping[str, float] = field(default_factory=dict)
    #: Minimum number of offsets by topic in lower case.
    floors: Mapping[str, int] = field(default_factory=dict)
    #: Whether there is a fixed end (`availableNow`), which is reached in batches of equal size.
    fixed_end: bool = False


class Budget(NamedTuple):
    """An amount that a batch may use, and how much of it one offset of each partition uses."""

    name: str
    cost: Floats
    amount: float


@dataclass(frozen=True, eq=False)
class Admission:
    """The batch's end of each partition, the limit that held offsets back, and the memory."""

    end: Ints
    held_back_by: str | None  # a `Budget.name`, `time` (alignment), or None for no limit
    memory: Memory

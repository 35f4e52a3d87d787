"""The values that all layers share: partitions, offset ranges, executors, and allocation.

They are immutable and independent of Spark and Kafka clients. Offset ranges are half open, as in
Spark: `start` is read, `end` is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

#: Largest partition number in Kafka, an INT32.
MAX_PARTITION = 2**31 - 1
#: Maximum length of a topic name in Kafka.
MAX_TOPIC_LENGTH = 249
#: Largest offset, a Java long; also the limit of other 64-bit numbers in input.
MAX_OFFSET = 2**63 - 1


class Partition(NamedTuple):
    """One partition of one Kafka topic, written as `topic-number`; sorts by topic, then number."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The offsets of one partition from `start` (read) to `end` (not read).

    `size` counts offsets, not records: compaction and transaction markers leave gaps.
    """

    topic: str
    partition: int
    start: int
    end: int

    @property
    def tp(self) -> Partition:
        """The partition of the range."""
        return Partition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Number of offsets, an upper bound on the number of records."""
        return self.end - self.start

    def split(self, parts: int) -> tuple[OffsetRange, ...]:
        """Return up to `parts` consecutive ranges, none empty; sizes differ by at most one."""
        parts = max(1, min(parts, self.size))
        cuts = [self.start + self.size * i // parts for i in range(parts + 1)]
        return tuple(
            OffsetRange(self.topic, self.partition, a, b) for a, b in pairwise(cuts) if a < b
        )

    def __str__(self) -> str:
        return f"{self.tp}[{self.start},{self.end})"


@dataclass(frozen=True, slots=True, order=True)
class Executor:
    """A process that can run `slots` tasks at once (cores divided by `spark.task.cpus`)."""

    id: str
    host: str
    slots: int = 1
    rack: str | None = None
    #: For `failover`: only executors with the highest priority read partitions; None is lowest.
    priority: int | None = None
    #: Whether Spark excludes it for the whole application.
    excluded: bool = False
    #: Whether it is gone, being removed, or being decommissioned.
    leaving: bool = False
    #: Id of its resource profile; streams use the default profile, 0.
    resource_profile: int = 0

    @property
    def takes_tasks(self) -> bool:
        """Whether Spark runs a stream's tasks on it."""
        return not (self.excluded or self.leaving or self.resource_profile)


@dataclass(frozen=True, slots=True)
class Allocation:
    """The limits of Spark's dynamic allocation, which adds and removes executors."""

    min_executors: int
    max_executors: int
    #: Concurrent tasks per executor, as Spark counts them when it requests executors.
    slots_per_executor: int
    #: Seconds since the previous plan of this run; None for the first plan.
    seconds_since_last_plan: float | None = None

    @property
    def unlimited(self) -> bool:
        """Whether `max_executors` is Spark's default, the largest Java int."""
        return self.max_executors >= 2**31 - 1

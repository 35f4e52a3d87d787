"""The nouns that every layer shares: partitions, offset ranges and executors as plain data.

Everything here is a frozen value with units in its names; nothing knows Spark, Kafka clients or IO.
Offset ranges are half open, as in Spark: `start` is read, `end` is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

#: Kafka's limits: a partition is an INT32, and the most characters of a topic's name.
MAX_PARTITION = 2**31 - 1
MAX_TOPIC_LENGTH = 249
#: Of offsets, and of all else that Java writes as a long.
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
        """The partition that the range lies in."""
        return Partition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Number of offsets, an upper bound of the number of records."""
        return self.end - self.start

    def split(self, parts: int) -> tuple[OffsetRange, ...]:
        """Cut into at most `parts` touching ranges whose sizes differ by at most one."""
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
    priority: int | None = None
    #: What Spark's scheduler says: excluded for the application; gone or being decommissioned; its
    #: resource profile, of which a stream's tasks have the default one.
    excluded: bool = False
    leaving: bool = False
    resource_profile: int = 0

    @property
    def takes_tasks(self) -> bool:
        """Whether Spark gives it tasks of a stream."""
        return not (self.excluded or self.leaving or self.resource_profile)


@dataclass(frozen=True, slots=True)
class Allocation:
    """Spark's dynamic allocation, where it is on: executors come and go as tasks ask for them."""

    min_executors: int
    max_executors: int
    #: Tasks that an executor runs at once, as Spark counts them when it asks for executors.
    slots_per_executor: int
    #: Seconds between the previous plan of this run and this one; None before the second.
    seconds_since_last_plan: float | None = None

    @property
    def unlimited(self) -> bool:
        """Whether nobody set a limit: Spark's default is the largest of its integers."""
        return self.max_executors >= 2**31 - 1

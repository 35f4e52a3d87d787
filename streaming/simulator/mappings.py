"""Spark's three built-in assignments of ranges to tasks, with or without a preferred executor.

They follow `KafkaOffsetRangeCalculator` and `KafkaOffsetReader` of Spark 4.0.0. By default,
executors are sorted by host and ID, descending, and a partition's task prefers the one at index
`floorMod(hash(topic-partition), executors)`. With smaller ranges, no executor is preferred.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.model import Executor, OffsetRange

#: Maximum number of tasks per batch that are simulated.
MAX_TASKS = 1_000_000


@dataclass(frozen=True, slots=True)
class PlacedTask:
    """A task as the scheduler sees it: its ranges, and the executors that it prefers, if any."""

    executor: str | None  # None in a tail, and for a task without a preferred executor
    ranges: tuple[OffsetRange, ...]
    #: Executors that a tail task prefers equally.
    tail_executors: tuple[str, ...] = ()

    @property
    def preferred_executors(self) -> tuple[str, ...]:
        """All executors that the task prefers."""
        return self.tail_executors if self.executor is None else (self.executor,)


def java_hash(topic: str, partition: int) -> int:
    """Return `org.apache.kafka.common.TopicPartition.hashCode()`, a signed 32-bit number."""
    topic_hash = 0
    utf16_bytes = topic.encode("utf-16-be", "surrogatepass")
    for high, low in zip(utf16_bytes[::2], utf16_bytes[1::2], strict=True):
        topic_hash = (31 * topic_hash + (high << 8 | low)) & 0xFFFFFFFF
    hash_code = (31 * (31 + partition) + topic_hash) & 0xFFFFFFFF
    return hash_code - (1 << 32) if hash_code >= 1 << 31 else hash_code


def place_by_hash(ranges: Sequence[OffsetRange], executors: Sequence[Executor]) -> list[PlacedTask]:
    """Return one task per range with data; it prefers the executor chosen by hash, if any."""
    ids = [e.id for e in sorted(executors, key=lambda e: (e.host, e.id), reverse=True)]
    return [
        PlacedTask(ids[java_hash(r.topic, r.partition) % len(ids)] if ids else None, (r,))
        for r in ranges
        if r.size > 0
    ]


def place_by_max_records(ranges: Sequence[OffsetRange], max_records: int) -> list[PlacedTask]:
    """Return tasks of at most `max_records` offsets, without a preferred executor."""
    return [
        PlacedTask(None, (part,))
        for r in ranges
        if r.size > 0
        for part in r.split(math.ceil(r.size / max_records))
    ]


def place_by_min_partitions(
    ranges: Sequence[OffsetRange], executors: Sequence[Executor], min_partitions: int
) -> list[PlacedTask]:
    """Return one task per range with data, placed by hash, if there are `min_partitions` or more.

    Otherwise split large ranges, to about `min_partitions` tasks without a preferred executor.
    """
    ranges = [r for r in ranges if r.size > 0]
    if len(ranges) >= min_partitions:
        return place_by_hash(ranges, executors)
    total = sum(r.size for r in ranges)
    whole_tps = {r.tp for r in ranges if _count_parts(r.size, total, min_partitions) == 1}
    split_size = total - sum(r.size for r in ranges if r.tp in whole_tps)
    min_parts = max(min_partitions - len(whole_tps), 1)
    return [
        PlacedTask(None, (part,))
        for r in ranges
        for part in r.split(1 if r.tp in whole_tps else _count_parts(r.size, split_size, min_parts))
    ]


def _count_parts(size: int, total: int, min_parts: int) -> int:
    return max(math.floor(size / total * min_parts + 0.5), 1)

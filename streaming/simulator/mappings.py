"""Spark's own three mappings, as tasks with or without a preferred executor.

Rules read from `KafkaOffsetRangeCalculator` and `KafkaOffsetReader` of Spark 4.0.0: the default
gives each partition a task on `floorMod(hash(topic-partition), executors)` of the executors sorted
by host and id, descending; once `minPartitions` or `maxRecordsPerPartition` divide, no task has a
location.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.model import Executor, OffsetRange

#: More tasks a batch are not played.
MOST_TASKS = 1_000_000


@dataclass(frozen=True, slots=True)
class PlacedTask:
    """A task as the scheduler sees it: what it reads, and where it would like to run."""

    executor: str | None
    ranges: tuple[OffsetRange, ...]


def java_hash(topic: str, partition: int) -> int:
    """Return `org.apache.kafka.common.TopicPartition.hashCode()`, a signed 32-bit number."""
    text = 0
    units = topic.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        text = (31 * text + (high << 8 | low)) & 0xFFFFFFFF
    code = (31 * (31 + partition) + text) & 0xFFFFFFFF
    return code - (1 << 32) if code >= 1 << 31 else code


def spark_default(ranges: Sequence[OffsetRange], executors: Sequence[Executor]) -> list[PlacedTask]:
    """One task a partition, on an executor chosen by hash."""
    ranked = sorted(executors, key=lambda e: (e.host, e.id), reverse=True)
    return [
        PlacedTask(ranked[java_hash(r.topic, r.partition) % len(ranked)].id if ranked else None, (r,))
        for r in ranges
        if r.size > 0
    ]


def spark_max_records(ranges: Sequence[OffsetRange], max_records: int) -> list[PlacedTask]:
    """Tasks of at most this many offsets, anywhere."""
    return [
        PlacedTask(None, (part,))
        for r in ranges
        if r.size > 0
        for part in r.split(math.ceil(r.size / max_records))
    ]


def spark_min_partitions(
    ranges: Sequence[OffsetRange], executors: Sequence[Executor], min_partitions: int
) -> list[PlacedTask]:
    """About this many tasks, large partitions divided in proportion, anywhere."""
    full = [r for r in ranges if r.size > 0]
    if len(full) >= min_partitions:
        return spark_default(full, executors)
    total = sum(r.size for r in full)
    small = {r.tp for r in full if _parts(r.size, total, min_partitions) == 1}
    rest = total - sum(r.size for r in full if r.tp in small)
    parts = max(min_partitions - len(small), 1)
    return [
        PlacedTask(None, (part,))
        for r in full
        for part in r.split(1 if r.tp in small else _parts(r.size, rest, parts))
    ]


def _parts(size: int, total: int, min_parts: int) -> int:
    return max(math.floor(size / total * min_parts + 0.5), 1)

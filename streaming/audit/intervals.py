"""Offsets of partitions as intervals: which ones batches hold, and what is left of a range."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from assignor_bridge.model import Partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from checkpoints.offset_log import KafkaRanges
    from streaming.audit.history import Batch

#: One partition of one source: the same topic may be read by two sources of a query.
SourcePartition = tuple[str, Partition]
#: `[begin, end)` by partition, ascending; those that touch are one.
Intervals = dict[Partition, list[tuple[int, int]]]


def flat(ranges: KafkaRanges) -> Iterator[tuple[SourcePartition, int, int]]:
    """Give each partition's range."""
    for source, topics in ranges.items():
        for topic, partitions in topics.items():
            for number, (begin, end) in partitions.items():
                yield (source, Partition(topic, number)), begin, end


def held_by(batches: Iterable[Batch]) -> Intervals:
    """Return the offsets that batches read."""
    ranges: Intervals = {}
    for batch in batches:
        for (_, partition), begin, end in flat(batch.ranges or {}):
            if begin < end:
                ranges.setdefault(partition, []).append((begin, end))
    return {partition: joined(of_partition) for partition, of_partition in ranges.items()}


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join ranges that touch or overlap.

    >>> joined([(5, 7), (0, 2), (2, 4)])
    [(0, 4), (5, 7)]
    """
    result: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((begin, end))
    return result


def without(numbers: Iterable[int], first: int, end: int) -> list[range]:
    """Return what is left of `[first, end)` without some numbers, which ascend.

    Numbers come from files, so a gap may be as wide as 64 bits: never walk through one.

    >>> without([3, 4, 9], 2, 7)
    [range(2, 3), range(5, 7)]
    """
    spans = []
    for number in numbers:
        if first <= number < end:
            spans.append(range(first, number))
            first = number + 1
    return [span for span in [*spans, range(first, end)] if span]


def named(word: str, spans: Sequence[range]) -> str:
    """Name the first few numbers of spans, and how many more there are.

    >>> named("batch", [range(1, 3), range(7, 2**62)])
    'batch 1, batch 2, batch 7 and 4,611,686,018,427,387,896 more'
    """
    shown = [f"{word} {number}" for number in itertools.islice(itertools.chain(*spans), 3)]
    more = sum(map(len, spans)) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def left_of(
    partition: Partition, begin: int, end: int, held: Mapping[Partition, list[tuple[int, int]]]
) -> Iterator[tuple[int, int]]:
    """Give what is left of a range beside what is held.

    >>> list(left_of(Partition("t", 0), 0, 9, {Partition("t", 0): [(2, 4), (8, 20)]}))
    [(0, 2), (4, 8)]
    """
    for low, high in held.get(partition, ()):
        if high <= begin:
            continue
        if low >= end:
            break
        if low > begin:
            yield begin, low
        begin = high
    if begin < end:
        yield begin, end

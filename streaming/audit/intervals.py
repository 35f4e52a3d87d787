"""Collect, count, merge, and subtract intervals of offsets, and find gaps between numbers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from assignor_bridge.model import Partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from checkpoints.offset_log import KafkaRanges
    from streaming.audit.history import BatchCommit

#: A source's id and a partition, because two sources of a query may read the same topic.
SourcePartition = tuple[str, Partition]
#: `[begin, end)` by partition, ascending; adjacent intervals are merged.
Intervals = dict[Partition, list[tuple[int, int]]]


def iter_ranges(ranges: KafkaRanges) -> Iterator[tuple[SourcePartition, int, int]]:
    """Yield each range as `((source, partition), begin, end)`."""
    for source, topics in ranges.items():
        for topic, partitions in topics.items():
            for number, (begin, end) in partitions.items():
                yield (source, Partition(topic, number)), begin, end


def collect_read_offsets(batches: Iterable[BatchCommit]) -> Intervals:
    """Return the merged offset intervals of the batches whose ranges are known."""
    spans: Intervals = {}
    for batch in batches:
        for (_, partition), begin, end in iter_ranges(batch.ranges or {}):
            if begin < end:
                spans.setdefault(partition, []).append((begin, end))
    return {partition: merge_intervals(intervals) for partition, intervals in spans.items()}


def count_offsets(batches: Iterable[BatchCommit]) -> int:
    """Return the total number of offsets in the known ranges of the batches."""
    ranges = (r for batch in batches for r in iter_ranges(batch.ranges or {}))
    return sum(max(0, end - begin) for _, begin, end in ranges)


def merge_intervals(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort intervals, and merge adjacent and overlapping ones.

    >>> merge_intervals([(5, 7), (0, 2), (2, 4)])
    [(0, 4), (5, 7)]
    """
    result: list[tuple[int, int]] = []
    for begin, end in sorted(intervals):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((begin, end))
    return result


def find_gaps(numbers: Iterable[int], first: int, end: int) -> list[range]:
    """Return the numbers in `[first, end)` that are not in the ascending `numbers`, as ranges.

    The numbers come from files, so a gap may have 2**63 numbers, which are never iterated over.

    >>> find_gaps([3, 4, 9], 2, 7)
    [range(2, 3), range(5, 7)]
    """
    gaps = []
    for number in numbers:
        if first <= number < end:
            gaps.append(range(first, number))
            first = number + 1
    return [gap for gap in [*gaps, range(first, end)] if gap]


def format_numbers(noun: str, spans: Sequence[range]) -> str:
    """Format the first three numbers of the spans, and how many others there are.

    >>> format_numbers("batch", [range(1, 3), range(7, 2**62)])
    'batch 1, batch 2, batch 7 and 4,611,686,018,427,387,896 more'
    """
    first_texts = [f"{noun} {number}" for number in itertools.islice(itertools.chain(*spans), 3)]
    other_count = sum(map(len, spans)) - len(first_texts)
    return ", ".join(first_texts) + (f" and {other_count:,} more" if other_count else "")


def subtract_intervals(
    partition: Partition, begin: int, end: int, intervals: Mapping[Partition, list[tuple[int, int]]]
) -> Iterator[tuple[int, int]]:
    """Yield the parts of `[begin, end)` that are in none of the partition's intervals.

    >>> list(subtract_intervals(Partition("t", 0), 0, 9, {Partition("t", 0): [(2, 4), (8, 20)]}))
    [(0, 2), (4, 8)]
    """
    for low, high in intervals.get(partition, ()):
        if high <= begin:
            continue
        if low >= end:
            break
        if low > begin:
            yield begin, low
        begin = high
    if begin < end:
        yield begin, end

"""Check the rows themselves: each record in exactly one row, and no row without a record.

Rows and records are merged in the order of their offsets. If the topic's records are not read, an
offset without a row is unproved, because it may never have had a record.
"""

from __future__ import annotations

import bisect
import itertools
import operator
import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignor_bridge.errors import elide, pluralize
from assignor_bridge.model import Partition
from streaming.audit.findings import KINDS, AuditFinding
from streaming.audit.intervals import iter_ranges
from streaming.audit.offsets import format_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from streaming.audit.history import BatchCommit

#: Maximum number of spans stored for each kind of fault; further offsets are only counted.
_MAX_SPANS = 1000
#: Number of offsets in a block of a sample; not 1, because brokers send records in bulk.
BLOCK_OFFSETS = 100
#: Fixed, so that repeated audits of a table use the same sample.
_SEED = 42

#: A partition, and its offsets `[begin, end)`.
Span = tuple[Partition, int, int]
#: A row or a record: its offset, and its key and value if the table has these columns.
Item = tuple[int, tuple[bytes | None, ...]]


@dataclass
class FaultyOffsets:
    """Offsets with one kind of fault, and their number."""

    count: int = 0
    spans: list[Span] = field(default_factory=list)

    def add(self, partition: Partition, begin: int, end: int | None = None) -> None:
        """Add `[begin, end)`, or only `begin`; adjacent spans are merged."""
        end = begin + 1 if end is None else end
        self.count += end - begin
        if self.spans and self.spans[-1][0] == partition and self.spans[-1][2] == begin:
            self.spans[-1] = (partition, self.spans[-1][1], end)
        elif len(self.spans) < _MAX_SPANS:
            self.spans.append((partition, begin, end))


class RowAudit:
    """Merge rows with records, partition by partition, and collect the faults."""

    def __init__(self, compacted_topics: Collection[str] = ()) -> None:
        #: Topics in which Kafka may delete all records of a key except the newest.
        self._compacted_topics = compacted_topics
        self.rows_read = 0
        #: Number of records compared with rows; None if no records were read.
        self.records_compared: int | None = None
        #: Faulty offsets by kind, a key of `KINDS`.
        self.faults: dict[str, FaultyOffsets] = defaultdict(FaultyOffsets)

    def merge(
        self,
        span: Span,
        rows: Iterable[Item],
        records: Iterator[Item] | None,
        is_committed: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """Compare the rows of a span with its records; both must be sorted by offset.

        `records` is None without brokers. Aborted transactions may have records without a row, so
        `is_committed` is called, in ascending order, with the offset of each record without a row.
        """
        partition, begin, end = span
        next_offset, previous_offset, last_doubled_offset = begin, None, None
        record = self._read_next(records)

        def skip_to(record: Item | None, offset: int) -> Item | None:
            """Return the first record from `offset` on, or None; report committed ones before."""
            while record is not None and record[0] < offset:
                if is_committed(record[0]):
                    self.faults["rows-missing"].add(partition, record[0])
                record = self._read_next(records)
            return record

        for offset, content in rows:
            self.rows_read += 1
            if offset == previous_offset:
                if offset != last_doubled_offset:
                    self.faults["rows-doubled"].add(partition, offset)
                last_doubled_offset = offset
                continue
            previous_offset = offset
            if not begin <= offset < end:
                self.faults["rows-invented"].add(partition, offset)
            elif records is None:
                if offset > next_offset:
                    self.faults["rows-unproved"].add(partition, next_offset, offset)
                next_offset = offset + 1
            else:
                record = skip_to(record, offset)
                if record is None or record[0] > offset:
                    is_compacted = partition.topic in self._compacted_topics
                    kind = "records-gone" if is_compacted else "rows-invented"
                    self.faults[kind].add(partition, offset)
                    continue
                if any(a != b for a, b in zip(content, record[1], strict=False)):
                    self.faults["rows-differ"].add(partition, offset)
                record = self._read_next(records)
        if records is None and next_offset < end:
            self.faults["rows-unproved"].add(partition, next_offset, end)
        skip_to(record, end)

    def _read_next(self, records: Iterator[Item] | None) -> Item | None:
        record = next(records, None) if records is not None else None
        if record is not None:
            self.records_compared = (self.records_compared or 0) + 1
        return record

    @property
    def findings(self) -> Iterator[AuditFinding]:
        """One finding for each kind of fault with an offset, in the order of `KINDS`."""
        for kind in KINDS:
            faults = self.faults.get(kind)
            if faults and faults.count:
                spans_text = elide([format_offsets(*span) for span in faults.spans])
                yield AuditFinding(kind, f"{pluralize(faults.count, 'offset')}: {spans_text}")


def compute_read_spans(batches: Iterable[BatchCommit]) -> dict[Partition, tuple[int, int]]:
    """Return the lowest begin and the highest end of the batches' ranges, by partition."""
    spans: dict[Partition, tuple[int, int]] = {}
    for batch in batches:
        for (_, partition), begin, end in iter_ranges(batch.ranges or {}):
            low, high = spans.get(partition, (begin, end))
            spans[partition] = min(low, begin), max(high, end)
    return spans


def sample_blocks(spans: Mapping[Partition, tuple[int, int]], offset_count: int) -> list[Span]:
    """Return random blocks with about `offset_count` offsets, in order; all if fewer exist."""
    partitions = sorted(partition for partition, (begin, end) in spans.items() if begin < end)
    first_blocks = [spans[p][0] // BLOCK_OFFSETS for p in partitions]
    end_blocks = [(spans[p][1] - 1) // BLOCK_OFFSETS + 1 for p in partitions]
    #: Number of blocks up to and including each partition.
    blocks_until = list(itertools.accumulate(map(operator.sub, end_blocks, first_blocks)))
    block_count = blocks_until[-1] if blocks_until else 0
    sample_size = min(-(-offset_count // BLOCK_OFFSETS), block_count)
    block_numbers = random.Random(_SEED).sample(range(block_count), sample_size)  # noqa: S311
    sample = []
    for number in sorted(block_numbers):
        index = bisect.bisect_right(blocks_until, number)
        block = first_blocks[index] + number - (blocks_until[index - 1] if index else 0)
        low, (begin, end) = block * BLOCK_OFFSETS, spans[partitions[index]]
        sample.append((partitions[index], max(low, begin), min(low + BLOCK_OFFSETS, end)))
    return sample

"""The rows themselves: each offset in one row, none missing, none that no record has.

Rows and records come in the order of their offsets, and are merged. Without the topic's records, an
offset without a row may never have had a record.
"""

from __future__ import annotations

import bisect
import itertools
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignor_bridge.errors import elide
from assignor_bridge.model import Partition
from streaming.audit.findings import Finding
from streaming.audit.intervals import flat
from streaming.audit.offsets import offsets_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from streaming.audit.history import Batch

#: So many are named; all are counted.
_SHOWN = 1000
#: A sample is made of blocks of so many offsets: a broker sends many at a time.
BLOCK = 100
#: The sample of a table is the same each time.
_SEED = 42

#: Offsets of a partition that are looked at, `[begin, end)`.
Span = tuple[Partition, int, int]
#: A row or a record: its offset, and what is known of its key and value.
Item = tuple[int, tuple[bytes | None, ...]]


@dataclass
class Faults:
    """Offsets with one fault."""

    count: int = 0
    spans: list[Span] = field(default_factory=list)

    def add(self, partition: Partition, begin: int, end: int | None = None) -> None:
        """Add `[begin, end)`, or one; neighbours become one."""
        end = begin + 1 if end is None else end
        self.count += end - begin
        if self.spans and self.spans[-1][0] == partition and self.spans[-1][2] == begin:
            self.spans[-1] = (partition, self.spans[-1][1], end)
        elif len(self.spans) < _SHOWN:
            self.spans.append((partition, begin, end))


#: Names in `KINDS`, in the order in which they are told.
_KINDS = ("rows-doubled", "rows-missing", "rows-invented", "rows-differ", "rows-unproved",
          "records-gone")  # fmt: skip


class RowAudit:
    """Merges rows with records, partition by partition."""

    def __init__(self, compacted: Collection[str] = ()) -> None:
        #: Topics whose records go away behind newer ones of their keys.
        self._compacted = compacted
        self.rows = 0
        #: Records that a row was compared with; None where none were read.
        self.compared: int | None = None
        self.faults = {kind: Faults() for kind in _KINDS}

    def merge(
        self,
        span: Span,
        rows: Iterable[Item],
        records: Iterator[Item] | None,
        is_committed: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """Look at the rows of a span, in order, beside its records if they can be had.

        Records of aborted transactions may be rows, and need not: `is_committed` is asked of those
        that are none, in order.
        """
        partition, begin, end = span
        at, previous = begin, None
        record = self._next(records)

        def pass_over(record: Item | None, before: int) -> Item | None:
            """Go on to the first record from an offset on; those before it are in no row."""
            while record is not None and record[0] < before:
                if is_committed(record[0]):
                    self.faults["rows-missing"].add(partition, record[0])
                record = self._next(records)
            return record

        for offset, content in rows:
            self.rows += 1
            if offset == previous:
                self.faults["rows-doubled"].add(partition, offset)
                continue
            previous = offset
            if not begin <= offset < end:
                self.faults["rows-invented"].add(partition, offset)
            elif records is None:
                if offset > at:
                    self.faults["rows-unproved"].add(partition, at, offset)
                at = offset + 1
            else:
                record = pass_over(record, offset)
                if record is None or record[0] > offset:
                    is_compacted = partition.topic in self._compacted
                    kind = "records-gone" if is_compacted else "rows-invented"
                    self.faults[kind].add(partition, offset)
                    continue
                if any(a != b for a, b in zip(content, record[1], strict=False)):
                    self.faults["rows-differ"].add(partition, offset)
                record = self._next(records)
        if records is None and at < end:
            self.faults["rows-unproved"].add(partition, at, end)
        pass_over(record, end)

    def _next(self, records: Iterator[Item] | None) -> Item | None:
        record = next(records, None) if records is not None else None
        if record is not None:
            self.compared = (self.compared or 0) + 1
        return record

    @property
    def findings(self) -> Iterator[Finding]:
        """Name what is wrong."""
        for kind, faults in self.faults.items():
            if faults.count:
                named = elide([offsets_text(*span) for span in faults.spans])
                yield Finding(kind, f"{faults.count:,} offsets: {named}")


def spans_of(batches: Iterable[Batch]) -> dict[Partition, tuple[int, int]]:
    """Return from where to where batches have read each partition."""
    spans: dict[Partition, tuple[int, int]] = {}
    for batch in batches:
        for (_, partition), begin, end in flat(batch.ranges or {}):
            low, high = spans.get(partition, (begin, end))
            spans[partition] = min(low, begin), max(high, end)
    return spans


def sampled(spans: Mapping[Partition, tuple[int, int]], count: int) -> list[Span]:
    """Choose blocks of so many offsets in all, at random, in order; each offset is as likely."""
    partitions = sorted(partition for partition, (begin, end) in spans.items() if begin < end)
    blocks = [spans[p][0] // BLOCK for p in partitions]
    ends = list(
        itertools.accumulate(
            (spans[p][1] - 1) // BLOCK + 1 - at for p, at in zip(partitions, blocks, strict=True)
        )
    )
    total = ends[-1] if ends else 0
    chosen = random.Random(_SEED).sample(range(total), min(-(-count // BLOCK), total))  # noqa: S311
    found = []
    for number in sorted(chosen):
        index = bisect.bisect_right(ends, number)
        at = blocks[index] + number - (ends[index - 1] if index else 0)
        begin, end = spans[partitions[index]]
        found.append((partitions[index], max(at * BLOCK, begin), min((at + 1) * BLOCK, end)))
    return found

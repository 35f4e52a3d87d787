"""Check that a query's batches cover its topics exactly once: no gaps, overlaps, or duplicates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignor_bridge.errors import elide
from assignor_bridge.model import Partition
from streaming.audit.findings import AuditFinding
from streaming.audit.intervals import find_gaps, format_numbers, iter_ranges, subtract_intervals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from checkpoints.log_files import KafkaOffsets
    from checkpoints.offset_log import Checkpoint, KafkaRanges
    from streaming.audit.history import BatchCommit, History
    from streaming.audit.intervals import Intervals, SourcePartition


def format_offsets(partition: Partition, begin: int, end: int) -> str:
    """Format the offsets `[begin, end)` for a message; without any, only `begin` is shown.

    >>> format_offsets(Partition("t", 0), 5, 8), format_offsets(Partition("t", 0), 5, 6)
    ('t-0 offsets 5 to 7', 't-0 offset 5')
    """
    if end <= begin:
        return f"{partition} (no offsets, at {begin})"
    return f"{partition} offset{f's {begin} to {end - 1}' if end - begin > 1 else f' {begin}'}"


def check_query(
    batches: Sequence[BatchCommit],
    history: History,
    checkpoint: Checkpoint | None,
    other_offsets: Intervals,
) -> Iterator[AuditFinding]:
    """Check the batches of one query, which are in the log's order.

    `checkpoint` is None unless it belongs to the query. `other_offsets` are the offsets that
    live batches of other queries read; these are not reported as gaps.
    """
    yield from _check_order(batches)
    batch_by_number: dict[int, BatchCommit] = {}  # the first live commit, else the first one
    for batch in batches:
        earlier_commit = batch_by_number.get(batch.number)
        if earlier_commit is None:
            batch_by_number[batch.number] = batch
            continue
        if {earlier_commit.version, batch.version} <= history.live_versions:
            versions = f"{earlier_commit.version} and {batch.version}"
            details = f"batch {batch.number} of query {batch.query} is in versions {versions}"
            yield AuditFinding("batch-twice", f"{details}{_format_ranges(batch.ranges)}")
        elif batch.version in history.live_versions:
            batch_by_number[batch.number] = batch
    chain = [batch_by_number[n] for n in sorted(batch_by_number)]
    yield from _check_chain(chain, history.is_whole, checkpoint, other_offsets)
    rangeless_batches = [str(b) for b in chain if b.ranges is None]
    if rangeless_batches:
        yield AuditFinding("no-ranges", f"query {batches[0].query}: {elide(rangeless_batches)}")


def _check_order(batches: Sequence[BatchCommit]) -> Iterator[AuditFinding]:
    highest_batch: BatchCommit | None = None
    numbers = set()
    for batch in batches:
        if highest_batch and batch.number < highest_batch.number and batch.number not in numbers:
            details = f"query {batch.query}: {batch} was committed after {highest_batch}"
            yield AuditFinding("batch-order", details)
        if highest_batch is None or batch.number > highest_batch.number:
            highest_batch = batch
        numbers.add(batch.number)


def _check_chain(
    batches: Sequence[BatchCommit],
    is_whole: bool,
    checkpoint: Checkpoint | None,
    other_offsets: Intervals,
) -> Iterator[AuditFinding]:
    """Check that each range begins where the last one ended; `batches` is sorted by number."""
    logged_ranges = checkpoint.ranges if checkpoint is not None else {}
    begins = checkpoint.begins if checkpoint is not None else {}
    if is_whole and batches[0].number > 0:
        details = f"{_format_batches(0, batches[0].number)} before {batches[0]}"
        yield AuditFinding("batch-missing", details)
    has_begins = is_whole and bool(begins) and not batches[0].number
    ends = dict(_iter_offsets(begins)) if has_begins else {}
    check = _ChainCheck(logged_ranges, other_offsets, ends, missing_ends_are_0=has_begins)
    for batch in batches:
        yield from check.compare(batch)
    logged_ends = _get_logged_ends(checkpoint, batches[-1].number)
    yield from check.compare_with_logged_ends(batches[-1], logged_ends)


@dataclass
class _ChainCheck:
    """Compare each batch of a query with the ends of the batches before it.

    If a batch has no commit, its partitions may be missing from all later batches. The checkpoint's
    offset log may still have its ranges, or at least every partition's end in the last batch.
    """

    #: Ranges in the offset log, by batch number.
    logged_ranges: Mapping[int, KafkaRanges]
    #: Offsets read by other queries; they are not gaps.
    other_offsets: Intervals
    #: End of the last batch that read each partition, or the partition's begin in the checkpoint.
    ends: dict[SourcePartition, int]
    #: Whether a partition missing from `ends` has no earlier batch, and so begins at offset 0.
    missing_ends_are_0: bool
    previous: BatchCommit | None = None
    #: Numbers of batches that are in neither a commit nor the offset log.
    unknown_batches: list[range] = field(default_factory=list)
    #: Partitions with a range that ends before it begins; they are already reported.
    reversed_partitions: set[SourcePartition] = field(default_factory=set)

    def compare(self, batch: BatchCommit) -> Iterator[AuditFinding]:
        """Compare a batch with those before it. Advance `ends`, or clear them without ranges."""
        previous, self.previous = self.previous, batch
        position = f"between {previous} and {batch}" if previous else f"before {batch}"
        absent_batches = range(previous.number + 1 if previous else batch.number, batch.number)
        logged_batches = [number for number in self.logged_ranges if number in absent_batches]
        absent_ranges = [self.logged_ranges[number] for number in logged_batches]
        other_offsets = self.other_offsets
        lost_offsets = [text for r in absent_ranges for text in _format_lost(r, other_offsets)]
        if lost_offsets:
            batches_text = _format_batches(absent_batches.start, absent_batches.stop)
            yield AuditFinding("batch-missing", f"{batches_text} {position}: {elide(lost_offsets)}")
        for ranges in absent_ranges:
            self.ends |= {key: end for key, _, end in iter_ranges(ranges)}
        unlogged_batches = find_gaps(logged_batches, absent_batches.start, absent_batches.stop)
        if batch.ranges is None:
            self.ends, self.missing_ends_are_0 = {}, False
            self.unknown_batches += unlogged_batches
            return
        gaps, overlaps = self._compare_with_ends(batch.ranges)
        for key, begin, end in iter_ranges(batch.ranges):
            if end < begin:
                self.reversed_partitions.add(key)
                details = f"{batch}: {key[1]} begins at {begin} but ends at {end}"
                yield AuditFinding("range-reversed", details)
        if gaps and unlogged_batches:
            batches_text = _format_batches(unlogged_batches[0].start, unlogged_batches[-1].stop)
            yield AuditFinding("batch-missing", f"{batches_text} {position}: {elide(gaps)}")
        elif gaps:
            yield AuditFinding("gap", f"{elide(gaps)}, {position}")
        else:
            self.unknown_batches += unlogged_batches
        if overlaps:
            yield AuditFinding("overlap", f"{elide(overlaps)}, read again by {batch}")

    def _compare_with_ends(self, ranges: KafkaRanges) -> tuple[list[str], list[str]]:
        """List the gaps and overlaps between `ends` and a batch's ranges, and advance `ends`."""
        gaps, overlaps = [], []
        for (source, partition), begin, end in iter_ranges(ranges):
            key = source, partition
            old_end = self.ends.get(key, 0 if self.missing_ends_are_0 else None)
            if old_end is not None and begin > old_end:
                spans = subtract_intervals(partition, old_end, begin, self.other_offsets)
                gaps += [format_offsets(partition, *span) for span in spans]
            elif old_end is not None and begin < old_end:
                overlap_end = min(old_end, max(begin + 1, end))
                overlaps.append(format_offsets(partition, begin, overlap_end))
            self.ends[key] = end
        return gaps, overlaps

    def compare_with_logged_ends(
        self, last_batch: BatchCommit, logged_ends: Mapping[SourcePartition, int]
    ) -> Iterator[AuditFinding]:
        """Report gaps up to the last batch's logged ends, or batches whose offsets are unknown."""
        keys = logged_ends if self.missing_ends_are_0 else self.ends.keys() & logged_ends
        ends = {key: self.ends.get(key, 0) for key in keys}
        gaps = [
            format_offsets(key[1], *span)
            for key in sorted(ends.keys() - self.reversed_partitions)
            for span in subtract_intervals(key[1], ends[key], logged_ends[key], self.other_offsets)
        ]
        if gaps:
            yield AuditFinding("gap", f"{elide(gaps)}, up to {last_batch} in the checkpoint")
        elif self.unknown_batches and (not logged_ends or ends.keys() != logged_ends.keys()):
            details = format_numbers("batch", self.unknown_batches)
            yield AuditFinding("batch-unknown", f"query {last_batch.query}: {details}")


def _get_logged_ends(checkpoint: Checkpoint | None, number: int) -> dict[SourcePartition, int]:
    """Return a batch's ends in the offset log; empty if the log or the batch is missing."""
    batches = checkpoint.batches if checkpoint is not None else ()
    return next((dict(_iter_offsets(b.ends)) for b in batches if b.batch_id == number), {})


def _iter_offsets(offsets: Mapping[str, KafkaOffsets]) -> Iterator[tuple[SourcePartition, int]]:
    for source, topics in offsets.items():
        for topic, partitions in topics.items():
            for number, offset in partitions.items():
                yield (source, Partition(topic, number)), offset


def _format_lost(ranges: KafkaRanges, other_offsets: Intervals) -> list[str]:
    """Format each interval of the ranges' offsets that no other query read."""
    return [
        format_offsets(partition, *span)
        for (_, partition), begin, end in iter_ranges(ranges)
        for span in subtract_intervals(partition, begin, end, other_offsets)
    ]


def check_overlaps_of_queries(offsets_by_query: Mapping[str, Intervals]) -> Iterator[AuditFinding]:
    """Check that no two queries read the same offsets."""
    spans_by_partition: dict[Partition, list[tuple[int, int, str]]] = {}
    for query, intervals in offsets_by_query.items():
        for partition, spans in intervals.items():
            query_spans = spans_by_partition.setdefault(partition, [])
            query_spans += ((begin, end, query) for begin, end in spans)
    overlaps: dict[tuple[str, str], list[str]] = {}
    for partition, query_spans in spans_by_partition.items():
        open_spans: list[tuple[int, str]] = []  # end and query
        for begin, end, query in sorted(query_spans):
            open_spans = [span for span in open_spans if span[0] > begin]
            for other_end, other in open_spans:
                pair = (min(query, other), max(query, other))
                text = format_offsets(partition, begin, min(end, other_end))
                overlaps.setdefault(pair, []).append(text)
            open_spans.append((end, query))
    for (query, other), texts in overlaps.items():
        yield AuditFinding("query-overlap", f"queries {query} and {other}: {elide(texts)}")


def check_checkpoint(
    checkpoint: Checkpoint,
    last_completed: int | None,
    all_batches: Sequence[BatchCommit],
    *,
    is_whole: bool,
    other_offsets: Intervals,
    since: int,
) -> Iterator[AuditFinding]:
    """Compare the table's batches with the query's checkpoint.

    `last_completed` is the number of the last completed batch, or None. A table without any batch
    is a finding only if its log `is_whole`. Ranges of commits before `since` are not compared.
    """
    batches = [batch for batch in all_batches if batch.query == checkpoint.query_id]
    if not batches:
        if last_completed is not None and all_batches:
            queries_text = elide(sorted({batch.query for batch in all_batches}))
            query_id = checkpoint.query_id or "(unknown ID)"
            details = f"query {query_id} has completed batch {last_completed}"
            details += f", but the table has only batches of other queries: {queries_text}"
            yield AuditFinding("other-query", details)
        elif last_completed is not None and is_whole:
            details = f"the query has completed batch {last_completed}, but no commit has a batch"
            yield AuditFinding("table-behind", details)
        return
    last_table_batch = max(batch.number for batch in batches)
    last_planned = checkpoint.last_planned.batch_id if checkpoint.last_planned else -1
    if last_table_batch > last_planned:
        checkpoint_end = "has no batch" if last_planned < 0 else f"ends at batch {last_planned}"
        skipped_text = _format_batches(last_planned + 1, last_table_batch + 1)
        details = f"the table has batch {last_table_batch}, but the checkpoint {checkpoint_end}"
        yield AuditFinding("checkpoint-behind", f"{details}: Delta would skip {skipped_text}")
    logged_ranges = checkpoint.ranges
    if last_completed is not None and last_completed > last_table_batch:
        absent_batches = range(last_table_batch + 1, last_completed + 1)
        absent_ranges = [logged_ranges[n] for n in sorted(logged_ranges) if n in absent_batches]
        lost_offsets = [text for r in absent_ranges for text in _format_lost(r, other_offsets)]
        lost_text = _format_batches(absent_batches.start, absent_batches.stop)
        lost_text += f" ({elide(lost_offsets)})" if lost_offsets else ""
        details = f"the query has completed batch {last_completed}, but the table's last is batch "
        details += f"{last_table_batch}: the table lacks {lost_text}"
        yield AuditFinding("table-behind", details)
    differing_batches = [
        batch
        for batch in batches
        if batch.version >= since
        and batch.ranges is not None
        and logged_ranges.get(batch.number) not in (None, batch.ranges)
    ]
    if differing_batches:
        first_batch = differing_batches[0]
        logged_spans = set(iter_ranges(logged_ranges[first_batch.number]))
        committed_spans = set(iter_ranges(first_batch.ranges or {}))
        only_committed, only_logged = committed_spans - logged_spans, logged_spans - committed_spans
        clauses = [
            f"only in the {origin}: "
            + elide([format_offsets(p, begin, end) for (_, p), begin, end in sorted(ranges)])
            for origin, ranges in (("commit", only_committed), ("offset log", only_logged))
            if ranges
        ]
        batches_text = elide(list(map(str, differing_batches)))
        details = f"{batches_text}: for {first_batch}, {'; '.join(clauses)}"
        yield AuditFinding("ranges-mismatch", details)


def _format_ranges(ranges: KafkaRanges | None) -> str:
    spans = ((p, begin, end) for (_, p), begin, end in iter_ranges(ranges or {}) if begin < end)
    texts = [format_offsets(*span) for span in spans]
    return f": {elide(texts)}" if texts else ""


def _format_batches(first: int, end: int) -> str:
    return f"batch {first}" if end == first + 1 else f"batches {first} to {end - 1}"

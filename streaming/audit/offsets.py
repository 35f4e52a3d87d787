"""Whether a query's batches cover its topics once: no gap, no overlap, none missing or twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignor_bridge.errors import elide
from assignor_bridge.model import Partition
from streaming.audit.findings import Finding
from streaming.audit.intervals import flat, left_of, named, without

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from checkpoints.log_files import KafkaOffsets
    from checkpoints.offset_log import Checkpoint, KafkaRanges
    from streaming.audit.history import Batch, History
    from streaming.audit.intervals import Intervals, SourcePartition


def offsets_text(partition: Partition, begin: int, end: int) -> str:
    """Name offsets as messages do; `end` is the first one that is not among them.

    >>> offsets_text(Partition("t", 0), 5, 8), offsets_text(Partition("t", 0), 5, 6)
    ('t-0 offsets 5 to 7', 't-0 offset 5')
    """
    return f"{partition} offset{f's {begin} to {end - 1}' if end - begin > 1 else f' {begin}'}"


def check_query(
    batches: Sequence[Batch], history: History, checkpoint: Checkpoint | None, others: Intervals
) -> Iterator[Finding]:
    """Check the batches of one query, as the log has them.

    `checkpoint` is the query's own, None where it is not known; `others` is what live batches of
    other queries hold, which fills gaps.
    """
    yield from _order(batches)
    by_number: dict[int, Batch] = {}
    for batch in batches:
        before = by_number.get(batch.number)
        if before is None:
            by_number[batch.number] = batch
            continue
        both_live = {before.version, batch.version} <= history.live
        if both_live:
            yield Finding(
                "batch-twice",
                f"batch {batch.number} of query {batch.query} is in versions {before.version} and "
                f"{batch.version}{_of(batch.ranges)}",
            )
        elif batch.version in history.live:
            by_number[batch.number] = batch
    chain = [by_number[n] for n in sorted(by_number)]
    yield from _chain(chain, history.is_whole, checkpoint, others)
    unknown = [str(b) for b in by_number.values() if b.ranges is None]
    if unknown:
        yield Finding("no-ranges", f"query {batches[0].query}: {elide(unknown)}")


def _order(batches: Sequence[Batch]) -> Iterator[Finding]:
    newest: Batch | None = None
    seen = set()
    for batch in batches:
        if newest is not None and batch.number < newest.number and batch.number not in seen:
            yield Finding("batch-order", f"{batch} came after {newest} of query {batch.query}")
        if newest is None or batch.number > newest.number:
            newest = batch
        seen.add(batch.number)


def _chain(
    batches: Sequence[Batch], is_whole: bool, checkpoint: Checkpoint | None, others: Intervals
) -> Iterator[Finding]:
    """Follow each partition from batch to batch; these have increasing numbers."""
    logged = checkpoint.ranges if checkpoint is not None else {}
    begins = checkpoint.begins if checkpoint is not None else {}
    if is_whole and batches[0].number > 0:
        yield Finding("batch-missing", f"{_numbers(0, batches[0].number)} before {batches[0]}")
    knows_begin = is_whole and bool(begins) and not batches[0].number
    ends = dict(_positions(begins)) if knows_begin else {}
    cursor = _Cursor(logged, others, ends, knows_begin)
    for batch in batches:
        yield from cursor.step(batch)
    yield from cursor.finish(batches[-1], _standing(checkpoint, batches[-1]))


@dataclass
class _Cursor:
    """How far each partition is read, batch by batch.

    Of a batch without a commit, partitions may be missing that no later batch reads: the offset log
    tells them, or where the partitions stand at last.
    """

    #: What the offset log has.
    logged: Mapping[int, KafkaRanges]
    others: Intervals
    ends: dict[SourcePartition, int]
    #: Whether a partition without an end begins at 0.
    knows_begin: bool
    previous: Batch | None = None
    #: Batches without a commit of which nothing is known.
    unknown: list[range] = field(default_factory=list)
    #: Partitions of which a batch ends before it begins: these are named already.
    went_back: set[SourcePartition] = field(default_factory=set)

    def step(self, batch: Batch) -> Iterator[Finding]:
        """Put a batch behind the one before it."""
        previous, self.previous = self.previous, batch
        between = f"between {previous} and {batch}" if previous else f"before {batch}"
        absent = range(previous.number + 1 if previous else batch.number, batch.number)
        kept = [number for number in self.logged if number in absent]
        missing = [text for number in kept for text in _left(self.logged[number], self.others)]
        if missing:
            numbers = _numbers(absent.start, absent.stop)
            yield Finding("batch-missing", f"{numbers} {between}: {elide(missing)}")
        for number in kept:
            self.ends |= {partition: end for partition, _, end in flat(self.logged[number])}
        not_logged = without(kept, absent.start, absent.stop)
        if batch.ranges is None:
            self.ends, self.knows_begin = {}, False
            self.unknown += not_logged
            return
        default = 0 if self.knows_begin else None
        gaps, overlaps = _joints(batch.ranges, self.ends, default, self.others)
        for partition, begin, end in flat(batch.ranges):
            if end < begin:
                self.went_back.add(partition)
                words = f"{batch}: {partition[1]} begins at {begin}, ends at {end}"
                yield Finding("range-reversed", words)
        if gaps and not_logged:
            numbers = _numbers(not_logged[0].start, not_logged[-1].stop)
            yield Finding("batch-missing", f"{numbers} {between}: {elide(gaps)}")
        elif gaps:
            yield Finding("gap", f"{elide(gaps)}, {between}")
        else:
            self.unknown += not_logged
        if overlaps:
            yield Finding("overlap", f"{elide(overlaps)}, {between}")

    def finish(self, last: Batch, standing: Mapping[SourcePartition, int]) -> Iterator[Finding]:
        """Compare with where partitions stand after the last batch, by the offset log."""
        known = {p: self.ends.get(p, 0) for p in standing if p in self.ends or self.knows_begin}
        gaps = [
            offsets_text(p[1], *span)
            for p in sorted(known.keys() - self.went_back)
            for span in left_of(p[1], known[p], standing[p], self.others)
        ]
        if gaps:
            yield Finding("gap", f"{elide(gaps)}, up to {last} by the checkpoint")
        elif self.unknown and (not standing or known.keys() != standing.keys()):
            words = named("batch", self.unknown)
            yield Finding("batch-unknown", f"query {last.query}: {words}")


def _joints(
    ranges: KafkaRanges, ends: dict[SourcePartition, int], default: int | None, others: Intervals
) -> tuple[list[str], list[str]]:
    """Put ranges behind the ends of earlier ones; name the gaps and overlaps."""
    gaps, overlaps = [], []
    for partition, begin, end in flat(ranges):
        last = ends.get(partition, default)
        if last is not None and begin > last:
            spans = left_of(partition[1], last, begin, others)
            gaps += [offsets_text(partition[1], *span) for span in spans]
        elif last is not None and begin < last:
            overlaps.append(offsets_text(partition[1], begin, min(last, max(begin + 1, end))))
        ends[partition] = end
    return gaps, overlaps


def _standing(checkpoint: Checkpoint | None, batch: Batch) -> dict[SourcePartition, int]:
    """Return where each partition stands after a batch, by the offset log; empty if not kept."""
    kept = checkpoint.batches if checkpoint is not None else ()
    return next((dict(_positions(b.ends)) for b in kept if b.batch_id == batch.number), {})


def _positions(offsets: Mapping[str, KafkaOffsets]) -> Iterator[tuple[SourcePartition, int]]:
    for source, topics in offsets.items():
        for topic, partitions in topics.items():
            for number, offset in partitions.items():
                yield (source, Partition(topic, number)), offset


def _left(ranges: KafkaRanges, others: Intervals) -> list[str]:
    """Name the offsets of ranges that others do not hold."""
    return [
        offsets_text(partition, *span)
        for (_, partition), begin, end in flat(ranges)
        for span in left_of(partition, begin, end, others)
    ]


def check_overlaps_of_queries(held: Mapping[str, Intervals]) -> Iterator[Finding]:
    """Check that no two queries hold the same offsets; `held` is by query."""
    spans: dict[Partition, list[tuple[int, int, str]]] = {}
    for query, intervals in held.items():
        for partition, of_partition in intervals.items():
            spans.setdefault(partition, []).extend((b, e, query) for b, e in of_partition)
    shared: dict[tuple[str, str], list[str]] = {}
    for partition, of_queries in spans.items():
        reaching: list[tuple[int, str]] = []
        for begin, end, query in sorted(of_queries):
            reaching = [(last, other) for last, other in reaching if last > begin]
            for last, other in reaching:
                pair = (min(query, other), max(query, other))
                shared.setdefault(pair, []).append(offsets_text(partition, begin, min(end, last)))
            reaching.append((end, query))
    for (one, other), texts in shared.items():
        yield Finding("query-overlap", f"queries {one} and {other}: {elide(texts)}")


def check_checkpoint(
    checkpoint: Checkpoint,
    completed: int | None,
    every: Sequence[Batch],
    *,
    is_whole: bool,
    others: Intervals,
    since: int,
) -> Iterator[Finding]:
    """Compare the table (`every` batch of it) with the query's checkpoint.

    What a commit before version `since` says of its offsets is not compared.
    """
    batches = [batch for batch in every if batch.query == checkpoint.query_id]
    if not batches:
        if completed is not None and every:
            yield Finding(
                "other-query",
                f"query {checkpoint.query_id} has completed batch {completed}; the table's batches "
                f"are of {elide(sorted({batch.query for batch in every}))}",
            )
        elif completed is not None and is_whole:
            yield Finding("table-behind", f"batch {completed} is completed, the table has none")
        return
    newest = max(batch.number for batch in batches)
    planned = checkpoint.last_planned.batch_id if checkpoint.last_planned else -1
    if newest > planned:
        yield Finding(
            "checkpoint-behind",
            f"the table has batch {newest}, the checkpoint's last is {planned}: "
            f"{_numbers(planned + 1, newest + 1)} would be skipped",
        )
    kept = checkpoint.ranges
    if completed is not None and completed > newest:
        missing = [
            t for n in sorted(kept) if newest < n <= completed for t in _left(kept[n], others)
        ]
        offsets = f": {elide(missing)}" if missing else ""
        yield Finding(
            "table-behind",
            f"the checkpoint has completed batch {completed}, the table's last is {newest}: "
            f"{_numbers(newest + 1, completed + 1)} missing{offsets}",
        )
    differing = [
        batch
        for batch in batches
        if batch.version >= since
        and batch.ranges is not None
        and (logged := kept.get(batch.number)) is not None
        and logged != batch.ranges
    ]
    if differing:
        first = differing[0]
        planned_ranges = set(flat(kept[first.number]))
        committed = set(flat(first.ranges or {}))
        here = min(committed - planned_ranges, default=None)
        there = min(planned_ranges - committed, default=None)
        yield Finding(
            "ranges-mismatch",
            f"{elide([str(batch) for batch in differing])}: the commit has {_place(here)}, the "
            f"offset log {_place(there)}",
        )


def _place(range_: tuple[SourcePartition, int, int] | None) -> str:
    if range_ is None:
        return "nothing else"
    (_, partition), begin, end = range_
    return f"{partition} [{begin}, {end})"


def _of(ranges: KafkaRanges | None) -> str:
    texts = [offsets_text(p, begin, end) for (_, p), begin, end in flat(ranges or {})]
    return f": {elide(texts)}" if texts else ""


def _numbers(first: int, end: int) -> str:
    return f"batch {first}" if end == first + 1 else f"batches {first} to {end - 1}"


def total(batches: Iterable[Batch]) -> int:
    """Count the offsets of batches."""
    return sum(max(0, end - begin) for b in batches for _, begin, end in flat(b.ranges or {}))

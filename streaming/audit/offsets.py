"""Whether a query's batches cover its topics once: no gap, no overlap, none missing or twice."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from assignor_bridge.errors import elided
from assignor_bridge.model import Partition
from streaming.audit.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from checkpoints.offset_log import Checkpoint, KafkaOffsets, KafkaRanges
    from streaming.audit.history import Batch, History

#: One partition of one source: the same topic may be read by two sources of a query.
SourcePartition = tuple[str, Partition]


def flat(ranges: KafkaRanges) -> Iterator[tuple[SourcePartition, int, int]]:
    """Give each partition's range."""
    for source, topics in ranges.items():
        for topic, partitions in topics.items():
            for number, (begin, end) in partitions.items():
                yield (source, Partition(topic, number)), begin, end


def offsets_text(partition: Partition, begin: int, end: int) -> str:
    """Name offsets as messages do; `end` is the first one that is not among them.

    >>> offsets_text(Partition("t", 0), 5, 8), offsets_text(Partition("t", 0), 5, 6)
    ('t-0 offsets 5 to 7', 't-0 offset 5')
    """
    return f"{partition} offset{f's {begin} to {end - 1}' if end - begin > 1 else f' {begin}'}"


def check_query(
    batches: Sequence[Batch], history: History, begins: Mapping[str, KafkaOffsets] | None
) -> Iterator[Finding]:
    """Check the batches of one query, as the log has them.

    `begins` is where it began, by its checkpoint; None where that is not known.
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
    yield from _chain([by_number[n] for n in sorted(by_number)], history.is_whole, begins)
    unknown = [str(b) for b in by_number.values() if b.ranges is None]
    if unknown:
        yield Finding("no-ranges", f"query {batches[0].query}: {elided(unknown)}")


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
    batches: Sequence[Batch], is_whole: bool, begins: Mapping[str, KafkaOffsets] | None
) -> Iterator[Finding]:
    """Follow each partition from batch to batch; these have increasing numbers."""
    ends: dict[SourcePartition, int] = {}
    previous: Batch | None = None
    if is_whole and batches and batches[0].number > 0:
        yield Finding("batch-missing", f"{_numbers(0, batches[0].number)} before {batches[0]}")
    knows_begin = is_whole and begins is not None and bool(batches) and not batches[0].number
    if knows_begin and begins is not None:
        ends = {
            (source, Partition(topic, number)): offset
            for source, topics in begins.items()
            for topic, partitions in topics.items()
            for number, offset in partitions.items()
        }
    for batch in batches:
        jumps = previous is not None and batch.number > previous.number + 1
        if batch.ranges is None:
            ends, previous, knows_begin = {}, batch, False
            continue
        gaps, overlaps = [], []
        for partition, begin, end in flat(batch.ranges):
            last = ends.get(partition, 0 if knows_begin else None)
            if last is not None and begin > last:
                gaps.append(offsets_text(partition[1], last, begin))
            elif last is not None and begin < last:
                overlaps.append(offsets_text(partition[1], begin, min(last, max(begin + 1, end))))
            if end < begin:
                yield Finding(
                    "range-reversed", f"{batch}: {partition[1]} begins at {begin}, ends at {end}"
                )
            ends[partition] = end
        between = f"between {previous} and {batch}" if previous else f"before {batch}"
        if gaps and jumps and previous is not None:
            missing = _numbers(previous.number + 1, batch.number)
            yield Finding("batch-missing", f"{missing} {between}: {elided(gaps)}")
        elif gaps:
            yield Finding("gap", f"{elided(gaps)}, {between}")
        if overlaps:
            yield Finding("overlap", f"{elided(overlaps)}, {between}")
        previous = batch


def check_overlaps_of_queries(by_query: dict[str, list[Batch]]) -> Iterator[Finding]:
    """Check that no two queries committed the same offsets."""
    covered: dict[Partition, list[tuple[int, int, str]]] = {}
    for query, batches in by_query.items():
        hull: dict[Partition, tuple[int, int]] = {}
        for batch in batches:
            for (_, partition), begin, end in flat(batch.ranges or {}):
                low, high = hull.get(partition, (begin, end))
                hull[partition] = min(low, begin), max(high, end)
        for partition, (low, high) in hull.items():
            covered.setdefault(partition, []).append((low, high, query))
    shared: dict[tuple[str, str], list[str]] = {}
    for partition, spans in covered.items():
        spans.sort()
        for (_, end, one), (begin, high, other) in itertools.pairwise(spans):
            if begin < end:
                pair = (min(one, other), max(one, other))
                text = offsets_text(partition, begin, min(end, high))
                shared.setdefault(pair, []).append(text)
    for (one, other), texts in shared.items():
        yield Finding("query-overlap", f"queries {one} and {other}: {elided(texts)}")


def check_checkpoint(
    checkpoint: Checkpoint,
    completed: int | None,
    by_query: dict[str, list[Batch]],
    is_whole: bool,
) -> Iterator[Finding]:
    """Compare the table with the query's checkpoint."""
    batches = by_query.get(checkpoint.query_id or "", [])
    if not batches:
        if completed is not None and by_query:
            others = elided(sorted(by_query))
            yield Finding(
                "other-query",
                f"query {checkpoint.query_id} has completed batch {completed}; the table's batches "
                f"are of {others}",
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
    if completed is not None and completed > newest:
        yield Finding(
            "table-behind",
            f"the checkpoint has completed batch {completed}, the table's last is {newest}: "
            f"{_numbers(newest + 1, completed + 1)} missing",
        )
    kept = checkpoint.ranges
    differing = [
        batch
        for batch in batches
        if batch.ranges is not None
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
            f"{elided([str(batch) for batch in differing])}: the commit has {_place(here)}, the "
            f"offset log {_place(there)}",
        )


def _place(range_: tuple[SourcePartition, int, int] | None) -> str:
    if range_ is None:
        return "nothing else"
    (_, partition), begin, end = range_
    return f"{partition} [{begin}, {end})"


def _of(ranges: KafkaRanges | None) -> str:
    texts = [offsets_text(p, begin, end) for (_, p), begin, end in flat(ranges or {})]
    return f": {elided(texts)}" if texts else ""


def _numbers(first: int, end: int) -> str:
    return f"batch {first}" if end == first + 1 else f"batches {first} to {end - 1}"


def total(batches: Iterable[Batch]) -> int:
    """Count the offsets of batches."""
    return sum(max(0, end - begin) for b in batches for _, begin, end in flat(b.ranges or {}))

"""Write the report's section on lag: a heat map by partition and batch, and a table."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from streaming.report import charts, page

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from assignor_bridge.model import Partition
    from streaming.observe.query_progress import SourceProgress
    from streaming.replay.log import ReplayBatch
    from streaming.report.query_facts import QueryFacts

_MAX_COLUMNS = 120  # maximum number of columns of a heat map
_MAX_HEAT_ROWS = 40  # maximum number of rows of a heat map
_MAX_ROWS = 8  # maximum number of rows of a table


def write_section(facts: QueryFacts) -> list[str]:
    """Write a heat map and a table for each source."""
    indexes = sorted({s.index for p in facts.progress for s in p.sources})
    parts: list[str] = []
    for index in indexes:
        batches = [(p.batch, s) for p in facts.progress for s in p.sources if s.index == index]
        parts += _draw_lag(batches, f", source {index}" if len(indexes) > 1 else "")
    if parts:
        return parts
    missing = "Lag is unknown: also give the metrics log (metrics.log_file)."
    logged = facts.log.sources if facts.log else {}
    for source, batches_read in logged.items():
        parts += _draw_reads(batches_read, f", source {source}" if len(logged) > 1 else "")
    return [page.note(missing), *parts]


def _draw_lag(progress: Sequence[tuple[int, SourceProgress]], name: str) -> list[str]:
    """Draw one source's unread records at the start of each batch, from the metrics log."""
    batches = [(batch, _by_name(source.waiting)) for batch, source in progress]
    newest = progress[-1][1]
    last, reads = _by_name(newest.lag), _group_counts(_by_name(s.read) for _, s in progress)
    waiting = _group_counts(lag for _, lag in batches)
    # Spark omits the start offsets of a query's first batch, so its reads may be missing.
    highest = {n: max(waiting[n]) if n in waiting else None for n in {*waiting, *last}}
    ranked = sorted(highest, key=lambda n: (-last.get(n, 0), -(highest[n] or 0), _sort_key(n)))
    rows = [
        [n, _write(last.get(n)), _write(highest[n]), _write(sum(reads[n]) if n in reads else None)]
        for n in ranked[:_MAX_ROWS]
    ]
    total = sum(last.values())
    worst_text = f", {last[ranked[0]] / total:.0%} of it in {ranked[0]}" if total else ""
    when = "After the last batch," if newest.unread else "When the last batch started,"
    held_back = sum(newest.held_back.values())
    limits = f"; limits held back {held_back:,} records" if held_back else ""
    lag_now = (
        f"{when} {total:,} records were unread in {sum(n > 0 for n in last.values()):,} of "
        f"{len(last):,} partitions{worst_text}{limits}."
    )
    head = ("partition, worst first", "last lag", "highest lag", "records read")
    caption = "Unread records by partition (rows) at the start of each batch (columns)."
    title, table = f"Lag at the start of each batch{name}", page.table(head, rows)
    paragraph = page.paragraph(lag_now if last else "The lag after the last batch is unknown.")
    return [paragraph, _put_side_by_side(title, batches, ranked, caption, table)]


def _draw_reads(logged: Sequence[ReplayBatch], name: str) -> list[str]:
    """Draw the offsets that each batch of one source read, from the checkpoint."""
    batches = [(b.batch, {str(r.tp): r.size for r in b.ranges if r.size > 0}) for b in logged]
    read = _group_counts(counts for _, counts in batches)
    if not read:
        return [page.note(f"No batch in the log read any records{name}.")]
    by_name = {n: sum(counts) for n, counts in read.items()}
    total = sum(by_name.values())
    ranked = sorted(by_name, key=lambda n: (-by_name[n], _sort_key(n)))
    rows = [
        [n, f"{by_name[n]:,}", f"{by_name[n] / total:.0%}", f"{max(read[n]):,}"]
        for n in ranked[:_MAX_ROWS]
    ]
    head = ("partition, largest first", "offsets read", "share", "maximum per batch")
    caption = (
        f"{total:,} offsets of {len(by_name):,} partitions (rows) by batch (columns). Without a "
        "limit such as maxOffsetsPerTrigger, this is the lag at the start of each batch."
    )
    table = page.table(head, rows)
    return [_put_side_by_side(f"Records read by each batch{name}", batches, ranked, caption, table)]


def _put_side_by_side(
    title: str, batches: Sequence[tuple[int, Mapping[str, int]]], ranked: Sequence[str],
    caption: str, table: str,
) -> str:  # fmt: skip
    shown = batches[-_MAX_COLUMNS:]
    if len(shown) < len(batches):
        caption += f" The chart shows the last {len(shown)} of {len(batches):,} batches."
    if len(ranked) > _MAX_HEAT_ROWS:
        caption += f" The chart shows the first {_MAX_HEAT_ROWS} of {len(ranked):,} partitions."
    names = sorted(ranked[:_MAX_HEAT_ROWS], key=_sort_key)
    figure = page.figure(title, charts.draw_heat_map(title, names, shown), caption)
    return page.side_by_side([figure, table])


def _by_name(offsets: Mapping[Partition, int]) -> dict[str, int]:
    return {str(tp): count for tp, count in offsets.items()}


def _group_counts(batches: Iterable[Mapping[str, int]]) -> dict[str, list[int]]:
    """Return each partition's counts, in batch order."""
    counts: dict[str, list[int]] = defaultdict(list)
    for batch in batches:
        for name, count in batch.items():
            counts[name].append(count)
    return counts


def _write(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"


def _sort_key(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("-")
    return topic, int(number) if number.isdigit() else 0

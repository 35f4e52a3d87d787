"""The report's section on lag: a heat map of partitions over batches, and the heaviest of them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from streaming.observe.words import counted
from streaming.report import charts, page

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from assignor_bridge.model import Partition
    from streaming.observe.query_progress import SourceProgress
    from streaming.replay.log import ReplayBatch
    from streaming.report.query_facts import QueryFacts

#: Columns of a heat map and rows of a table at most.
_COLUMNS = 120
_ROWS = 8


def section(facts: QueryFacts) -> list[str]:
    """Write the section, one pair of picture and table a source."""
    if not facts.progress and facts.log is None:
        return [
            page.note(
                "Lag and offsets are unknown: Spark's UI does not have them. Also give the "
                "checkpoint's folder, or the log of metrics (metrics.log_file)."
            )
        ]
    parts: list[str] = []
    sources = sorted({s.index for p in facts.progress for s in p.sources})
    for index in sources:
        batches = [(p.batch, s) for p in facts.progress for s in p.sources if s.index == index]
        parts += _of_progress(batches, f", source {index}" if len(sources) > 1 else "")
    if not facts.progress:
        parts.append(
            page.note(
                "A checkpoint says what was read, but not what was left unread. "
                "Also give the log of metrics (metrics.log_file)."
            )
        )
    logged = facts.log.sources if facts.log else {}
    for source, replayed in logged.items():
        parts += _of_log(replayed, f", source {source}" if len(logged) > 1 else "")
    return parts


def _of_progress(progress: Sequence[tuple[int, SourceProgress]], name: str) -> list[str]:
    batches = [(batch, _named(source.waiting)) for batch, source in progress]
    newest = progress[-1][1]
    last, read = _named(newest.lag), _by_name(_named(s.read) for _, s in progress)
    waiting = _by_name(lag for _, lag in batches)
    # Of a query's first batch alone Spark does not tell what it read.
    most = {n: max(waiting[n]) if n in waiting else None for n in {*waiting, *last}}
    ranked = sorted(most, key=lambda n: (-last.get(n, 0), -(most[n] or 0), _by_number(n)))
    rows = [
        [n, _told(last.get(n)), _told(most[n]), _told(sum(read[n]) if n in read else None)]
        for n in ranked[:_ROWS]
    ]
    total = sum(last.values())
    worst = f", {last[ranked[0]] / total:.0%} of it in {ranked[0]}" if total else ""
    when = "After the last batch" if newest.unread else "When the last batch began,"
    held = sum(newest.held_back.values())
    left = (
        f"{when} {total:,} records were unread in {sum(n > 0 for n in last.values()):,} of "
        f"{len(last):,} partitions{worst}{f'; limits held {held:,} records back' if held else ''}."
    )
    return [
        page.paragraph(left if last else "The lag after the last batch is unknown."),
        _pair(
            f"Lag when a batch began{name}", batches,
            "Records not yet read in each partition (rows) when a batch (columns) began, stronger "
            "for more.",
            page.table(["partition, worst first", "lag now", "highest lag", "read"], rows),
        ),
    ]  # fmt: skip


def _of_log(logged: Sequence[ReplayBatch], name: str) -> list[str]:
    batches = [(b.batch, {str(r.tp): r.size for r in b.ranges if r.size > 0}) for b in logged]
    read = _by_name(counts for _, counts in batches)
    if not read:
        return [page.note(f"No batch of the log read anything{name}.")]
    total = {n: sum(counts) for n, counts in read.items()}
    whole = sum(total.values())
    ranked = sorted(total, key=lambda n: (-total[n], _by_number(n)))
    rows = [
        [n, f"{total[n]:,}", f"{total[n] / whole:.0%}", f"{max(read[n]):,}"] for n in ranked[:_ROWS]
    ]
    topics = sorted({n.rpartition("-")[0] for n in total})
    return [
        page.paragraph(
            f"{whole:,} records of {len(total):,} partitions of "
            f"{', '.join(topics[:3])}{' …' if len(topics) > 3 else ''} in "
            f"{counted(len(batches), 'batch', 'batches')}; {ranked[0]} has "
            f"{total[ranked[0]] * len(total) / whole:.1f} times the mean."
        ),
        _pair(
            f"Records read by each batch{name}", batches,
            "Offsets of each partition (rows) that a batch (columns) read, stronger for more. "
            "Without a limit such as maxOffsetsPerTrigger this is the lag when it began.",
            page.table(["partition, largest first", "read", "share", "most in a batch"], rows),
        ),
    ]  # fmt: skip


def _pair(
    title: str, batches: Sequence[tuple[int, Mapping[str, int]]], caption: str, table: str
) -> str:
    shown = batches[-_COLUMNS:]
    names = sorted({name for _, lag in shown for name in lag}, key=_by_number)
    if len(shown) < len(batches):
        caption += f" The last {len(shown)} of {len(batches):,} batches."
    figure = page.figure(title, charts.heat_map(title, names, shown), caption)
    return page.side_by_side([figure, table])


def _named(offsets: Mapping[Partition, int]) -> dict[str, int]:
    return {str(tp): count for tp, count in offsets.items()}


def _by_name(batches: Iterable[Mapping[str, int]]) -> dict[str, list[int]]:
    """Collect the numbers of each partition."""
    counts: dict[str, list[int]] = defaultdict(list)
    for batch in batches:
        for name, count in batch.items():
            counts[name].append(count)
    return counts


def _told(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _by_number(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("-")
    return topic, int(number) if number.isdigit() else 0

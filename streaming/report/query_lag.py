"""The report's section on lag: a heat map of partitions over batches, and the heaviest of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.observe.words import counted
from streaming.report import charts, page

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from streaming.observe.query_progress import SourceProgress
    from streaming.replay.log import ReplayBatch
    from streaming.report.query_facts import QueryFacts

#: Columns of a heat map and rows of a table at most.
_COLUMNS = 120
_ROWS = 8


def section(facts: QueryFacts) -> list[str]:
    """Write the section, one pair of picture and table a source."""
    parts: list[str] = []
    sources = sorted({s.index for p in facts.progress for s in p.sources})
    for index in sources:
        found = [(p.batch, s) for p in facts.progress for s in p.sources if s.index == index]
        parts += _of_progress(found, f", source {index}" if len(sources) > 1 else "")
    if facts.log is not None:
        if not facts.progress:
            parts.append(
                page.paragraph(
                    "A checkpoint says what was read; what was left unread is not known from it. "
                    "Give the log of metrics too (metrics.log_file).",
                    "note",
                )
            )
        for source, batches in facts.log.sources.items():
            name = f", source {source}" if len(facts.log.sources) > 1 else ""
            parts += _of_log(batches, name)
    return parts or [
        page.paragraph(
            "Lag and offsets are not known: Spark's UI does not tell them. Give the checkpoint's "
            "folder too, or the log of metrics (metrics.log_file).",
            "note",
        )
    ]


def _of_progress(found: Sequence[tuple[int, SourceProgress]], name: str) -> list[str]:
    batches = [(batch, _named(source.waiting)) for batch, source in found]
    last, read = _named(found[-1][1].lag), _sum(_named(s.read) for _, s in found)
    most = _most(batches)
    total = sum(last.values())
    ranked = sorted(most, key=lambda n: (-last.get(n, 0), -most[n], _by_number(n)))
    rows = [
        [n, f"{last.get(n, 0):,}", f"{most[n]:,}", f"{read.get(n, 0):,}"] for n in ranked[:_ROWS]
    ]
    worst = f", {_share(last, ranked[0])} of it in {ranked[0]}" if total else ""
    return [
        page.paragraph(
            f"After the last batch {total:,} records were left in "
            f"{sum(n > 0 for n in last.values()):,} of {len(last):,} partitions{worst}."
        ),
        _pair(
            f"Lag when a batch began{name}", batches,
            "Records not yet read in each partition (rows) when a batch (columns) began, stronger "
            "for more.",
            page.table(["partition, worst first", "left now", "lag at most", "read"], rows),
        ),
    ]  # fmt: skip


def _of_log(found: Sequence[ReplayBatch], name: str) -> list[str]:
    batches = [(b.batch, {str(r.tp): r.size for r in b.ranges if r.size > 0}) for b in found]
    if not any(read for _, read in batches):
        return [page.paragraph(f"No batch of the log read anything{name}.", "note")]
    total, most = _sum(read for _, read in batches), _most(batches)
    ranked = sorted(total, key=lambda n: (-total[n], _by_number(n)))
    rows = [[n, f"{total[n]:,}", _share(total, n), f"{most[n]:,}"] for n in ranked[:_ROWS]]
    topics = sorted({n.rpartition("-")[0] for n in total})
    mean = sum(total.values()) / len(total)
    return [
        page.paragraph(
            f"{sum(total.values()):,} records of {len(total):,} partitions of "
            f"{', '.join(topics[:3])}{' …' if len(topics) > 3 else ''} in "
            f"{counted(len(batches), 'batch', 'batches')}; {ranked[0]} has "
            f"{total[ranked[0]] / mean:.1f} times the mean."
        ),
        _pair(
            f"Records read by each batch{name}", batches,
            "Offsets of each partition (rows) that a batch (columns) read, stronger for more. "
            "Without a limit such as maxOffsetsPerTrigger this is the lag when it began.",
            page.table(["partition, heaviest first", "read", "share", "in a batch at most"], rows),
        ),
    ]  # fmt: skip


def _pair(
    title: str, batches: Sequence[tuple[int, Mapping[str, int]]], caption: str, table: str
) -> str:
    shown = batches[-_COLUMNS:]
    names = sorted({name for _, lag in shown for name in lag}, key=_by_number)
    if len(shown) < len(batches):
        caption += f" The last {len(shown)} of {len(batches):,} batches."
    return page.side_by_side(
        [page.figure(title, charts.heat_map(title, names, shown), caption), table]
    )


def _named(offsets: Mapping[tuple[str, int], int]) -> dict[str, int]:
    return {f"{topic}-{partition}": count for (topic, partition), count in offsets.items()}


def _sum(batches: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for batch in batches:
        for name, count in batch.items():
            total[name] = total.get(name, 0) + count
    return total


def _most(batches: Sequence[tuple[int, Mapping[str, int]]]) -> dict[str, int]:
    most: dict[str, int] = {}
    for _, batch in batches:
        for name, count in batch.items():
            most[name] = max(count, most.get(name, 0))
    return most


def _share(counts: Mapping[str, int], name: str) -> str:
    return f"{counts[name] / (sum(counts.values()) or 1):.0%}"


def _by_number(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("-")
    return topic, int(number) if number.isdigit() else 0

"""Write the report's section on lag: a heat map by partition and batch, and a table."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from assignor_bridge.errors import pluralize
from streaming.report import charts, page

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypeAlias

    from assignor_bridge.model import Partition
    from streaming.observe.query_progress import SourceProgress
    from streaming.replay.log import ReplayBatch
    from streaming.report.query_facts import QueryFacts

    #: Each batch's number, and its number of offsets by partition name.
    _Batches: TypeAlias = Sequence[tuple[int, Mapping[str, int]]]

_MAX_HEAT_COLUMNS = 120
_MAX_HEAT_ROWS = 40
_MAX_TABLE_ROWS = 8


def write_section(facts: QueryFacts) -> list[str]:
    """Write a heat map and a table for each source: of its lag, or of the offsets read."""
    indexes = sorted({s.index for p in facts.progress for s in p.sources})
    parts: list[str] = []
    for index in indexes:
        batches = [(p.batch, s) for p in facts.progress for s in p.sources if s.index == index]
        parts += _draw_lag(batches, f", source {index}" if len(indexes) > 1 else "")
    if parts:
        return parts
    sources = facts.checkpoint_log.batches_by_source if facts.checkpoint_log else {}
    for name, logged_batches in sources.items():
        parts += _draw_reads(logged_batches, f", source {name}" if len(sources) > 1 else "")
    return [page.note("Lag is unknown: also give the metrics log (metrics.log_file)."), *parts]


def _draw_lag(progress: Sequence[tuple[int, SourceProgress]], source_text: str) -> list[str]:
    """Draw one source's unread offsets at the start of each batch, from the metrics log."""
    batches = [(batch, _name_partitions(source.unread_at_start)) for batch, source in progress]
    last_progress = progress[-1][1]
    reads = _group_counts(_name_partitions(source.read_offsets) for _, source in progress)
    last_lags = _name_partitions(last_progress.lag)
    start_lags = _group_counts(lags for _, lags in batches)
    # Spark omits the start offsets of a query's first batch, so its reads may be missing.
    max_lags = {n: max(start_lags.get(n, ()), default=None) for n in {*start_lags, *last_lags}}
    ranking = sorted(
        max_lags, key=lambda n: (-last_lags.get(n, 0), -(max_lags[n] or 0), _split_name(n))
    )
    rows = []
    for name in ranking[:_MAX_TABLE_ROWS]:
        counts = (last_lags.get(name), max_lags[name], sum(reads[name]) if name in reads else None)
        rows.append([name, *("unknown" if count is None else f"{count:,}" for count in counts)])
    total_lag, worst_tp = sum(last_lags.values()), ranking[0] if ranking else ""
    worst_text = (
        f", {last_lags[worst_tp] / total_lag:.0%} of them in {worst_tp}" if total_lag else ""
    )
    when = "After the last batch," if last_progress.unread_after else "When the last batch started,"
    held_back = sum(last_progress.held_back.values())
    limits_text = f"; limits held back {pluralize(held_back, 'record')}" if held_back else ""
    lagging_count = sum(n > 0 for n in last_lags.values())
    lag_text = (
        f"{when} {pluralize(total_lag, 'record was', 'records were')} unread in "
        f"{lagging_count:,} of {len(last_lags):,} partitions{worst_text}{limits_text}."
    )
    head = ("partition, worst first", "last lag", "highest lag", "records read")
    caption = "Unread records by partition (rows) at the start of each batch (columns)."
    title = f"Lag at the start of each batch{source_text}"
    figure = _draw_batches(title, batches, ranking, caption)
    words = lag_text if last_lags else "The lag after the last batch is unknown."
    return [page.paragraph(words), page.side_by_side([figure, page.table(head, rows)])]


def _draw_reads(replay_batches: Sequence[ReplayBatch], source_text: str) -> list[str]:
    """Draw the offsets that each batch of one source read, from the checkpoint."""
    pairs = ((batch, [r for r in batch.ranges if r.size > 0]) for batch in replay_batches)
    batches = [(batch.batch, {str(r.tp): r.size for r in ranges}) for batch, ranges in pairs]
    counts_by_name = _group_counts(counts for _, counts in batches)
    if not counts_by_name:
        return [page.note(f"No batch in the log read any records{source_text}.")]
    offsets_by_name = {name: sum(counts) for name, counts in counts_by_name.items()}
    total_offsets = sum(offsets_by_name.values())
    ranking = sorted(offsets_by_name, key=lambda name: (-offsets_by_name[name], _split_name(name)))
    rows = []
    for name in ranking[:_MAX_TABLE_ROWS]:
        offsets, max_count = offsets_by_name[name], max(counts_by_name[name])
        rows.append([name, f"{offsets:,}", f"{offsets / total_offsets:.0%}", f"{max_count:,}"])
    head = ("partition, largest first", "offsets read", "share", "maximum per batch")
    caption = (
        f"{pluralize(total_offsets, 'offset')} of {pluralize(len(ranking), 'partition')} (rows) by "
        "batch (columns). Unless a limit applies, this is the lag at the start of each batch."
    )
    figure = _draw_batches(f"Offsets read by each batch{source_text}", batches, ranking, caption)
    return [page.side_by_side([figure, page.table(head, rows)])]


def _draw_batches(title: str, batches: _Batches, ranking: Sequence[str], caption: str) -> str:
    """Draw a heat map of the last batches and the first partitions of `ranking`."""
    last_batches = batches[-_MAX_HEAT_COLUMNS:]
    if len(last_batches) < len(batches):
        caption += f" The chart shows the last {len(last_batches)} of {len(batches):,} batches."
    if len(ranking) > _MAX_HEAT_ROWS:
        caption += f" The chart shows the first {_MAX_HEAT_ROWS} of {len(ranking):,} partitions."
    names = sorted(ranking[:_MAX_HEAT_ROWS], key=_split_name)
    return page.figure(title, charts.draw_heat_map(title, names, last_batches), caption)


def _name_partitions(offsets: Mapping[Partition, int]) -> dict[str, int]:
    return {str(tp): count for tp, count in offsets.items()}


def _group_counts(batches: Iterable[Mapping[str, int]]) -> dict[str, list[int]]:
    """Return each partition's counts, in batch order."""
    counts: dict[str, list[int]] = defaultdict(list)
    for batch in batches:
        for name, count in batch.items():
            counts[name].append(count)
    return counts


def _split_name(name: str) -> tuple[str, int]:
    """Return the topic and the number of a partition's name, to sort by."""
    topic, _, number = name.rpartition("-")
    return topic, int(number) if number.isdigit() else 0

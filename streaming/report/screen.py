"""Draw a running query in the terminal: lag, load by slot, last batches, and planner metrics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from rich.console import Group
from rich.table import Table
from rich.text import Text

from assignor_bridge.errors import OptionError, escape_unprintable, pluralize
from streaming.observe.figures import max_over_mean
from streaming.observe.scrape import QueryMetrics, parse_query_metrics
from streaming.observe.spark_ui import SparkUi, choose_query
from streaming.observe.web import Address, WebError
from streaming.observe.words import format_count, format_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from streaming.observe.figures import RunFigures

#: Number of latest batches over which slot load is summed.
_LAST_BATCHES = 10
#: Minimum room for the rows of the lag table and of the slot table.
_MIN_ROWS = 4
#: Number of lines on the screen that are not rows of its tables.
_OTHER_LINES = 11
_BAR_WIDTH = 12
_HOT_STYLE = "dark_orange"
_NOT_FOUND = 404
_FULL, _EMPTY = "█", "░"


@dataclass(frozen=True, slots=True)
class LiveFigures:
    """A query's current figures; a field is None if no address provides it."""

    query: str
    run: RunFigures | None = None
    metrics: QueryMetrics | None = None


class Watch:
    """Reads a query's figures from Spark's UI, the metrics endpoint, or both."""

    def __init__(self, urls: Sequence[str], query: str | None = None) -> None:
        self._query = query
        self._ui: SparkUi | None = None
        self._endpoint: Address | None = None
        for address in map(Address.parse, urls):
            endpoint = _find_endpoint(address)
            if endpoint is None and self._ui is None:
                self._ui = SparkUi(address)
            elif endpoint is not None and self._endpoint is None:
                self._endpoint = endpoint
            else:
                kind = "Spark UI" if endpoint is None else "metrics endpoint"
                raise OptionError(f"{address} is a second {kind}: give only one")

    def fetch_figures(self) -> LiveFigures:
        """Request the figures; raise WebError on failure, OptionError unless one query matches."""
        metrics = run = None
        label = ""
        if self._endpoint is not None:
            text = self._endpoint.get("").decode("utf-8", "replace")
            metrics = parse_query_metrics(text, self._query, self._endpoint)
            if metrics is None and self._ui is None:
                raise OptionError(
                    f"{self._endpoint} has no streaming query: none has finished a batch yet, or "
                    "all have ended; try again while the query runs"
                )
        if self._ui is not None:
            query = self._query or (metrics.query_id if metrics else None)
            batches = choose_query(self._ui.fetch_batches(), query, self._ui.address)
            label = batches[-1].label
            run = self._ui.fetch_run(batches[-_LAST_BATCHES:])
        return LiveFigures(metrics.label if metrics else label, run, metrics)


def _find_endpoint(address: Address) -> Address | None:
    """Return the address, or its `/metrics`, if it is a metrics endpoint; None otherwise."""
    try:
        first_bytes = address.get("")[:2000]
    except WebError as error:
        if error.status is None:
            raise
        if error.status == _NOT_FOUND and not address.path:
            return _find_endpoint(replace(address, path="/metrics"))
        return None
    return address if first_bytes.startswith(b"# HELP ") or not first_bytes.strip() else None


def draw_frame(figures: LiveFigures, height: int, note: str = "") -> RenderableType:
    """Draw a frame of about `height` lines, with room for `_MIN_ROWS` rows of lag and of slots."""
    batch_table = _make_batch_table(figures)
    rows = max(_MIN_ROWS, height - _OTHER_LINES - batch_table.row_count)
    lag_and_slots = Table.grid(expand=True, padding=(0, 2, 0, 0))
    lag_and_slots.add_column(ratio=1)
    lag_and_slots.add_column(ratio=1)
    lag_and_slots.add_row(_make_lag_table(figures, rows), _make_slot_table(figures.run, rows))
    lines = _make_head_line(figures), _join_texts((note, _HOT_STYLE))
    return Group(*lines, lag_and_slots, "", batch_table, *_make_planner_lines(figures.metrics))


def _join_texts(*parts: str | tuple[str, str]) -> Text:
    """Join texts, each with an optional style, into a line that is truncated at the screen edge."""
    pairs = [(part, "") if isinstance(part, str) else part for part in parts]
    printable_pairs = [(escape_unprintable(words), style) for words, style in pairs]
    return Text.assemble(*printable_pairs, no_wrap=True, overflow="ellipsis")


def _make_head_line(figures: LiveFigures) -> Text:
    query, run = (figures.query, "bold"), figures.run
    if run and run.batches:
        last_batch = run.batches[-1]
        running = " running" if last_batch.is_running else ""
        return _join_texts(query, f"  batch {last_batch.batch}{running}", (f"  {run.name}", "dim"))
    if figures.metrics is None:
        return _join_texts(query)
    number = figures.metrics.values.get("spark_streaming_batch_id", 0)
    return _join_texts(query, f"  batch {number:.0f}")


def _make_table(*columns: str) -> Table:
    """Return an empty table; columns are right-aligned, except the first one and the bars."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", expand=False)
    for name in columns:
        side: Literal["left", "right"] = "right" if table.columns and name != "load" else "left"
        table.add_column(name, justify=side, no_wrap=True, overflow="ellipsis")
    return table


def _make_lag_table(figures: LiveFigures, rows: int) -> RenderableType:
    metrics = figures.metrics
    if metrics is None:
        source = "the metrics endpoint (metrics.port, such as http://driver:9404)"
        return Text(f"lag: unknown; {source} reports it after the first batch", "dim")
    total_lag, lagging_count = sum(metrics.lag.values()), sum(n > 0 for n in metrics.lag.values())
    table = _make_table("partition, worst first", "lag", "behind")
    for tp in sorted(metrics.lag, key=lambda tp: (-metrics.lag[tp], tp))[:rows]:
        lag, seconds = metrics.lag[tp], metrics.lag_seconds.get(tp)
        table.add_row(
            _join_texts(str(tp)),
            Text(f"{lag:,}", _HOT_STYLE if lag and lag > 2 * total_lag / len(metrics.lag) else ""),
            "" if seconds is None else f"{seconds:,.0f} s",
        )
    if not metrics.lag:
        return Text("lag: unknown; no consumer group matches the query", "dim")
    topics = len({topic for topic, _ in metrics.lag})
    head = f"lag {total_lag:,} in {lagging_count:,} of {len(metrics.lag):,} partitions"
    return Group(Text(f"{head}, {topics:,} topics" if topics > 1 else head, "bold"), table)


def _make_slot_table(run: RunFigures | None, rows: int) -> RenderableType:
    if run is None:
        return Text("slots: also give the address of Spark's UI (http://driver:4040)", "dim")
    all_seconds, records = run.sum_seconds_by_slot(), run.sum_records_by_slot()
    seconds = {slot: all_seconds[slot] for slot in run.batches[-1].slots}  # slots that still exist
    longest_s = max(seconds.values(), default=0.0) or 1.0
    mean_s = sum(seconds.values()) / max(1, len(seconds))
    table = _make_table("slot", "load", "worked", "records")
    slots = sorted(seconds, key=lambda slot: -seconds[slot])
    for slot in slots if len(slots) <= rows else [*slots[: rows - 1], slots[-1]]:
        filled_cells = min(_BAR_WIDTH, max(0, round(_BAR_WIDTH * seconds[slot] / longest_s)))
        style = _HOT_STYLE if seconds[slot] > 1.5 * mean_s else "deep_sky_blue1"
        bar = Text(_FULL * filled_cells, style)
        bar.append(_EMPTY * (_BAR_WIDTH - filled_cells), "dim")
        table.add_row(_join_texts(slot), bar, format_seconds(seconds[slot]), f"{records[slot]:,}")
    ratio = f", busiest {longest_s / mean_s:.2f} x mean" if mean_s else ""
    span = pluralize(len(run.batches), "batch", "batches")
    head = f"{pluralize(len(seconds), 'slot')}, {span}{ratio}"
    return Group(Text(head, "bold"), table)


def _make_batch_table(figures: LiveFigures) -> Table:
    head = ("last batches", "seconds", "records", "tasks", "busiest / mean", "as planned")
    table = _make_table(*head)
    run = figures.run
    if run is None:
        values = figures.metrics.values if figures.metrics else {}
        if "spark_streaming_latency_seconds" in values:
            table.add_row(
                f"{values['spark_streaming_batch_id']:.0f}",
                f"{values['spark_streaming_latency_seconds']:.2f}",
            )
        return table
    for batch in run.batches[:-6:-1]:
        are_local = [task.local for task in batch.tasks]
        table.add_row(
            f"{batch.batch}",
            "running" if batch.is_running else f"{batch.seconds:.2f}",
            format_count(batch.records),
            f"{len(batch.tasks)}",
            f"{max_over_mean(batch.sum_seconds_by_slot()):.2f}" if are_local else "",
            f"{sum(are_local) / len(are_local):.0%}" if are_local else "",
        )
    return table


def _make_planner_lines(metrics: QueryMetrics | None) -> list[RenderableType]:
    """Return lines with the planner's metrics, a few per source."""
    if metrics is None or not metrics.values_by_source:
        return []
    lines: list[RenderableType] = [""]
    for source, values in sorted(metrics.values_by_source.items()):
        source_text = f" of source {source}" if len(metrics.values_by_source) > 1 else ""
        for name, formats in _FORMATS_BY_LINE.items():
            pairs = [(words, values[key]) for key, words in formats if key in values]
            figure_texts = [words.format(value, s="s" * (value != 1)) for words, value in pairs]
            if name == "assignor":
                figure_texts.insert(0, metrics.strategies.get(source, ""))
            if figure_texts:
                line = _join_texts((f"{name}{source_text}: ", "dim"), " · ".join(figure_texts))
                line.no_wrap = False  # so that a narrow screen shows all figures
                lines.append(line)
        if source in metrics.held_back_by:
            limits = _describe_admission(values, metrics.held_back_by[source])
            lines.append(_join_texts((f"admission{source_text}: ", "dim"), limits))
    return lines


def _describe_admission(values: Mapping[str, float], held_back_by: str) -> str:
    """Describe the last batch's size and the limit that held records back, or a fallback."""
    if "assignor_admitted_records" not in values:
        return "failed, so Spark's own limits apply"
    admitted_records = round(values["assignor_admitted_records"])
    held_records = values.get("assignor_held_back_records", 0.0)
    held_text = "none held back"
    if held_records:
        held_text = f"{held_records:,.0f} held back (limit: {held_back_by})"
    return f"{pluralize(admitted_records, 'record')} in the last batch, {held_text}"


#: Planner metrics on each line, with their text formats; `s` is the ending of a plural.
_FORMATS_BY_LINE = {
    "assignor": (
        ("assignor_tasks", "{:.0f} task{s}"),
        ("assignor_split_partitions", "{:.0f} split"),
        ("assignor_moved_partitions_total", "{:.0f} moved"),
        ("assignor_imbalance_ratio", "{:.1%} over ideal"),
        ("assignor_locality_hit_ratio", "{:.0%} ran as planned"),
        ("assignor_plan_seconds", "plan {:.3f} s"),
        ("assignor_fallbacks_total", "{:.0f} fallback{s}"),
    ),
    "tail": (
        ("assignor_tail_ratio", "{:.0%} of the work"),
        ("assignor_tail_tasks", "{:.0f} task{s} for any free slot"),
        ("assignor_unpredictability_ratio", "task times deviate by {:.0%}"),
    ),
    "freshness": (
        ("assignor_freshness_seconds", "newest record {:,.1f} s old"),
        ("assignor_freshness_max_seconds", "oldest {:,.1f} s"),
    ),
    "zones": (("assignor_cross_zone_ratio", "{:.1%} of the bytes came from other racks"),),
}

"""A query live, as one frame of a terminal: lag, load of the slots, last batches, the planner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from rich.console import Group
from rich.table import Table
from rich.text import Text

from assignor_bridge.errors import OptionError, counted, visible
from streaming.observe.figures import max_over_mean
from streaming.observe.scrape import QueryMetrics, read_endpoint
from streaming.observe.spark_ui import SparkUi, choose_query
from streaming.observe.web import Address, WebError
from streaming.observe.words import seconds_text, count_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from streaming.observe.figures import RunFigures

#: Batches that the load of the slots is summed over.
_BATCHES = 10
#: Rows that the two tables side by side may have at least, and those around them.
_LEAST_ROWS = 4
_AROUND = 11
_BAR = 12
_HOT = "dark_orange"
_NOT_FOUND = 404
_FULL, _EMPTY = "█", "░"


@dataclass(frozen=True, slots=True)
class LiveFigures:
    """The figures of one moment; None for a part that no address has."""

    query: str
    run: RunFigures | None = None
    metrics: QueryMetrics | None = None


class Watch:
    """Reads a query's figures from Spark's UI, the endpoint of metrics, or both."""

    def __init__(self, urls: Sequence[str], query: str | None = None) -> None:
        self._query = query
        self._ui: SparkUi | None = None
        self._endpoint: Address | None = None
        for address in map(Address.parse, urls):
            endpoint = _endpoint(address)
            if endpoint is None and self._ui is None:
                self._ui = SparkUi(address)
            elif endpoint is not None and self._endpoint is None:
                self._endpoint = endpoint
            else:
                kind = "Spark UI" if endpoint is None else "endpoint of metrics"
                raise OptionError(f"{address} is a second {kind}: give one")

    def look(self) -> LiveFigures:
        """Request the figures of now from each address.

        Raises WebError if one does not answer, and OptionError if it has no such query.
        """
        metrics = run = None
        label = ""
        if self._endpoint is not None:
            text = self._endpoint.get("").decode("utf-8", "replace")
            metrics = read_endpoint(text, self._query, self._endpoint)
            if metrics is None and self._ui is None:
                raise OptionError(
                    f"{self._endpoint} has no streaming query: none has finished a batch yet"
                )
        if self._ui is not None:
            query = self._query or (metrics.query_id if metrics else None)
            batches = choose_query(self._ui.batches(), query, self._ui.address)
            label = batches[-1].label
            run = self._ui.run(batches[-_BATCHES:])
        return LiveFigures(metrics.label if metrics else label, run, metrics)


def _endpoint(address: Address) -> Address | None:
    """Return the endpoint of metrics at an address, None if the address serves something else."""
    try:
        start = address.get("")[:2000]
    except WebError as error:
        if error.status is None:
            raise
        if error.status == _NOT_FOUND and not address.path:
            return _endpoint(replace(address, path="/metrics"))
        return None
    return address if start.startswith(b"# HELP ") or not start.strip() else None


def frame(snapshot: LiveFigures, height: int, note: str = "") -> RenderableType:
    """Draw a frame of about this many lines."""
    batches = _batches(snapshot)
    rows = max(_LEAST_ROWS, height - _AROUND - batches.row_count)
    pair = Table.grid(expand=True, padding=(0, 2, 0, 0))
    pair.add_column(ratio=1)
    pair.add_column(ratio=1)
    pair.add_row(_lags(snapshot, rows), _slots(snapshot.run, rows))
    return Group(
        _head(snapshot),
        _line((note, _HOT)),
        pair,
        "",
        batches,
        *_planner(snapshot.metrics),
    )


def _line(*parts: str | tuple[str, str]) -> Text:
    """Join parts, each with its style, into a line that is cut at the screen's edge."""
    pairs = [(part, "") if isinstance(part, str) else part for part in parts]
    shown = [(visible(words), style) for words, style in pairs]
    return Text.assemble(*shown, no_wrap=True, overflow="ellipsis")


def _head(snapshot: LiveFigures) -> Text:
    query, run = (snapshot.query, "bold"), snapshot.run
    if run and run.batches:
        last = run.batches[-1]
        running = " running" if last.is_running else ""
        return _line(query, f"  batch {last.batch}{running}", (f"  {run.name}", "dim"))
    if snapshot.metrics is None:
        return _line(query)
    number = snapshot.metrics.values.get("spark_streaming_batch_id", 0)
    return _line(query, f"  batch {number:.0f}")


def _table(*columns: str) -> Table:
    """Make a table; columns hold numbers but the first one and the bars."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", expand=False)
    for name in columns:
        words = not table.columns or name == "load"
        side: Literal["left", "right"] = "left" if words else "right"
        table.add_column(name, justify=side, no_wrap=True, overflow="ellipsis")
    return table


def _lags(snapshot: LiveFigures, rows: int) -> RenderableType:
    metrics = snapshot.metrics
    if metrics is None:
        return Text(
            "lag: unknown (yet). Spark's UI does not have it; the endpoint of metrics.port "
            "does after a batch (http://driver:9404)",
            "dim",
        )
    total, behind = sum(metrics.lag.values()), sum(n > 0 for n in metrics.lag.values())
    table = _table("partition, worst first", "lag", "behind")
    ranked = sorted(metrics.lag, key=lambda tp: (-metrics.lag[tp], tp))
    for tp in ranked[:rows]:
        lag, seconds = metrics.lag[tp], metrics.lag_seconds.get(tp)
        table.add_row(
            _line(str(tp)),
            Text(f"{lag:,}", _HOT if lag and lag > 2 * total / len(metrics.lag) else ""),
            "" if seconds is None else f"{seconds:,.0f} s",
        )
    if not metrics.lag:
        return Text("lag: unknown; of several groups it is not known which is the query's", "dim")
    topics = len({topic for topic, _ in metrics.lag})
    head = f"lag {total:,} in {behind:,} of {len(metrics.lag):,} partitions"
    return Group(Text(f"{head}, {topics:,} topics" if topics > 1 else head, "bold"), table)


def _slots(run: RunFigures | None, rows: int) -> RenderableType:
    if run is None:
        return Text("slots: also give the address of Spark's UI (http://driver:4040)", "dim")
    worked, records = run.slot_seconds(), run.slot_records()
    seconds = {slot: worked[slot] for slot in run.batches[-1].slots}  # of those still present
    most = max(seconds.values(), default=0.0) or 1.0
    mean = sum(seconds.values()) / max(1, len(seconds))
    table = _table("slot", "load", "worked", "records")
    ranked = sorted(seconds, key=lambda slot: -seconds[slot])
    shown = ranked if len(ranked) <= rows else [*ranked[: rows - 1], ranked[-1]]
    for slot in shown:
        full = min(_BAR, max(0, round(_BAR * seconds[slot] / most)))
        bar = Text(_FULL * full, _HOT if seconds[slot] > 1.5 * mean else "deep_sky_blue1")
        bar.append(_EMPTY * (_BAR - full), "dim")
        table.add_row(_line(slot), bar, seconds_text(seconds[slot]), f"{records[slot]:,}")
    ratio = f", busiest {most / mean:.2f} x mean" if mean else ""
    over = counted(len(run.batches), "batch", "batches")
    head = f"{counted(len(seconds), 'slot')}, {over}{ratio}"
    return Group(Text(head, "bold"), table)


def _batches(snapshot: LiveFigures) -> Table:
    head = ("last batches", "seconds", "records", "tasks", "busiest / mean", "as preferred")
    table = _table(*head)
    run = snapshot.run
    if run is None:
        values = snapshot.metrics.values if snapshot.metrics else {}
        if "spark_streaming_latency_seconds" in values:
            table.add_row(
                f"{values['spark_streaming_batch_id']:.0f}",
                f"{values['spark_streaming_latency_seconds']:.2f}",
            )
        return table
    for batch in run.batches[:-6:-1]:
        local = [task.local for task in batch.tasks]
        table.add_row(
            f"{batch.batch}",
            "running" if batch.is_running else f"{batch.seconds:.2f}",
            count_text(batch.records),
            f"{len(batch.tasks)}",
            f"{max_over_mean(batch.slot_seconds()):.2f}" if local else "",
            f"{sum(local) / len(local):.0%}" if local else "",
        )
    return table


def _planner(metrics: QueryMetrics | None) -> list[RenderableType]:
    """Write the planner's metrics, a few lines a source."""
    if metrics is None or not metrics.sources:
        return []
    lines: list[RenderableType] = [""]
    for source, values in sorted(metrics.sources.items()):
        of_source = f" of source {source}" if len(metrics.sources) > 1 else ""
        for name, figures in _FIGURES.items():
            parts = [words.format(values[key]) for key, words in figures if key in values]
            if name == "assignor":
                parts.insert(0, metrics.strategies.get(source, ""))
            if parts:
                line = _line((f"{name}{of_source}: ", "dim"), " · ".join(parts))
                line.no_wrap = False  # a narrow screen has all figures, too
                lines.append(line)
        if source in metrics.held_by:
            limits = _admission(values, metrics.held_by[source])
            lines.append(_line((f"admission{of_source}: ", "dim"), limits))
    return lines


def _admission(values: Mapping[str, float], held_by: str) -> str:
    """Write the size of the last batch, and the limit that held records back."""
    if "assignor_admitted_records" not in values:
        return "failed, Spark's own limits hold"
    admitted, held = (
        values.get(f"assignor_{name}_records", 0.0) for name in ("admitted", "held_back")
    )
    waits = f"{held:,.0f} held back by {held_by}" if held else "nothing held back"
    return f"{admitted:,.0f} records in the last batch, {waits}"


#: Metrics of the last batch by line, each with its words.
_FIGURES = {
    "assignor": (
        ("assignor_tasks", "{:.0f} tasks"),
        ("assignor_split_partitions", "{:.0f} split"),
        ("assignor_moved_partitions_total", "{:.0f} moved"),
        ("assignor_imbalance_ratio", "{:.1%} over ideal"),
        ("assignor_locality_hit_ratio", "{:.0%} as planned"),
        ("assignor_plan_seconds", "plan {:.3f} s"),
        ("assignor_fallbacks_total", "{:.0f} fallbacks"),
    ),
    "freshness": (
        ("assignor_freshness_seconds", "newest record {:,.1f} s old"),
        ("assignor_freshness_max_seconds", "oldest {:,.1f} s"),
    ),
    "zones": (("assignor_cross_zone_ratio", "{:.1%} of the bytes came from other racks"),),
}

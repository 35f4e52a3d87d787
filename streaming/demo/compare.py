"""Compare the runs of one job: a table for the terminal and an HTML page with charts."""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from assignor_bridge.errors import pluralize
from streaming.demo.demo_terms import TERMS
from streaming.demo.verdict import Act, write_headline
from streaming.observe.words import format_count
from streaming.report import charts, page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streaming.observe.check_result import Check
    from streaming.observe.figures import BatchFigures, RunFigures

_CSS_CLASSES = ("a", "b")
_UNKNOWN_TEXT = "\N{EN DASH}"


class _Figure(NamedTuple):
    #: Name in the table; it contains a term from `TERMS`.
    name: str
    format_value: Callable[[RunFigures], str]


def _make_median_format(get: Callable[[BatchFigures], float | None]) -> Callable[[RunFigures], str]:
    def format_median(run: RunFigures) -> str:
        seconds = [value for batch in run.measured_batches if (value := get(batch)) is not None]
        return f"{median(seconds):.2f} s" if seconds else _UNKNOWN_TEXT

    return format_median


def _make_sum_format(metric: str) -> Callable[[RunFigures], str]:
    return lambda run: f"{sum(v):.0f}" if (v := run.list_metric_values(metric)) else _UNKNOWN_TEXT


def _make_share_format(metric: str) -> Callable[[RunFigures], str]:
    return lambda run: f"{fmean(v):.0%}" if (v := run.list_metric_values(metric)) else _UNKNOWN_TEXT


_FIGURES = (
    _Figure("median batch", lambda run: f"{run.median_batch_seconds:.2f} s"),
    _Figure("median reading", lambda run: f"{run.median_read_seconds:.2f} s"),
    _Figure("age of newest row", _make_median_format(lambda batch: batch.newest_age_s)),
    _Figure("age of oldest row", _make_median_format(lambda batch: batch.oldest_age_s)),
    _Figure("busiest slot, records", lambda run: f"{run.busiest_records_ratio:.2f}"),
    _Figure("busiest slot, seconds", lambda run: f"{run.busiest_seconds_ratio:.2f}"),
    _Figure("tasks per batch", lambda run: f"{run.mean_tasks:.1f}"),
    _Figure("partitions split", _make_sum_format("assignor.splitPartitions")),
    _Figure("partitions moved", _make_sum_format("assignor.movedPartitions")),
    _Figure("offsets moved", _make_share_format("assignor.movedOffsets")),
    _Figure("prediction error", _make_share_format("assignor.predictionError")),
    _Figure(
        "locality hits",
        lambda run: _UNKNOWN_TEXT if run.hit_rate is None else f"{run.hit_rate:.0%}",
    ),
)


def build_figure_rows(runs: Sequence[RunFigures]) -> list[tuple[str, list[str]]]:
    """Return the rows of the comparison table: the name of a figure and its value for each run."""
    return [(figure.name, [figure.format_value(run) for run in runs]) for figure in _FIGURES]


def render_page(
    lead: str, acts: Sequence[Act], checks: Sequence[Check], facts: Sequence[tuple[str, str]]
) -> str:
    """Return the HTML page; `lead` follows the headline, and `facts` describe the environment."""
    parts = [page.paragraph(text, "lead") for text in (write_headline(acts, checks), lead)]
    for number, act in enumerate(acts, start=1):
        parts += _render_act(number, act)
    parts += [page.section_heading("Checks"), page.checks(checks)]
    parts += [page.section_heading("Environment"), page.table(["", ""], facts)]
    return page.page("One job, two assignments", [*parts, *page.definitions(TERMS)])


def _render_act(number: int, act: Act) -> list[str]:
    rows = [[name, *values] for name, values in build_figure_rows(act.runs)]
    table = page.table(["", *(run.name for run in act.runs)], rows)
    return [
        page.section_heading(f"Act {number}: {act.title}"),
        page.side_by_side([table, page.side_by_side(_draw_slot_records(act))]),
        page.side_by_side(_draw_timelines(act)),
        page.side_by_side([_draw_partitions(act.default_run), _draw_durations(act.runs)]),
    ]


def _draw_slot_records(act: Act) -> list[str]:
    max_records = max(max(run.sum_records_by_slot().values(), default=0) for run in act.runs) or 1
    drawings = []
    for run, css in zip(act.runs, _CSS_CLASSES, strict=True):
        bars = charts.draw_slot_bars(run, css, max_records)
        batches = pluralize(len(run.measured_batches), "batch", "batches")
        ratio = run.busiest_records_ratio
        caption = f"Average of {batches}: the busiest slot read {ratio:.2f} times the mean."
        drawings.append(page.figure(f"Records per slot, {run.name}", bars, caption, css))
    return drawings


def _draw_timelines(act: Act) -> list[str]:
    middle_batches = [run.measured_batches[len(run.measured_batches) // 2] for run in act.runs]
    scale_s = max((t.start_s + t.seconds for b in middle_batches for t in b.tasks), default=1.0)
    drawings = []
    for run, batch, css in zip(act.runs, middle_batches, _CSS_CLASSES, strict=True):
        timeline = charts.draw_timeline(batch, css, scale_s)
        tasks = pluralize(len(batch.tasks), "task")
        caption = f"Batch {batch.batch}: {tasks}, one box each. An empty track is an idle slot."
        drawings.append(page.figure(f"Busy times of each slot, {run.name}", timeline, caption, css))
    return drawings


def _draw_partitions(run: RunFigures) -> str:
    records_by_partition: dict[str, int] = {}
    for batch in run.batches:
        for name, records in batch.lag.items():
            records_by_partition[name] = records_by_partition.get(name, 0) + records
    return page.figure(
        "Records per partition",
        charts.draw_value_bars("records per partition", records_by_partition, format_count),
        "Records are keyed by carrier, so carriers with many flights make large partitions.",
    )


def _draw_durations(runs: Sequence[RunFigures]) -> str:
    sides = zip(("left", "right"), runs, strict=False)
    legend = ", ".join(f"{side} bars: {run.name}" for side, run in sides)
    note = (
        " Pale bars: warm-up, not in the figures."
        if any(run.warm_up_batches for run in runs)
        else ""
    )
    chart = charts.draw_batch_columns(runs, _CSS_CLASSES)
    return page.figure("Seconds per batch", chart, f"{legend}.{note}")

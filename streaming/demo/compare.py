"""Runs of one job side by side: the table for the terminal and the page with the pictures."""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from assignor_bridge.errors import pluralize
from streaming.demo.terms import TERMS
from streaming.demo.verdict import Act, headline
from streaming.observe.words import format_count
from streaming.report import charts, page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streaming.observe.check import Check
    from streaming.observe.figures import BatchFigures, RunFigures

_CSS = ("a", "b")
_UNKNOWN = "\N{EN DASH}"


class _Figure(NamedTuple):
    #: Contains a term that `TERMS` defines.
    name: str
    of: Callable[[RunFigures], str]


def _median(of: Callable[[BatchFigures], float | None]) -> Callable[[RunFigures], str]:
    def show(run: RunFigures) -> str:
        known = [value for batch in run.measured if (value := of(batch)) is not None]
        return f"{median(known):.2f} s" if known else _UNKNOWN

    return show


def _sum(metric: str) -> Callable[[RunFigures], str]:
    return lambda run: f"{sum(v):.0f}" if (v := run.metric(metric)) else _UNKNOWN


def _share(metric: str) -> Callable[[RunFigures], str]:
    return lambda run: f"{fmean(v):.0%}" if (v := run.metric(metric)) else _UNKNOWN


_FIGURES = (
    _Figure("median batch", lambda run: f"{run.batch_seconds:.2f} s"),
    _Figure("median reading", lambda run: f"{run.read_seconds:.2f} s"),
    _Figure("age of newest row", _median(lambda batch: batch.newest_s)),
    _Figure("age of oldest row", _median(lambda batch: batch.oldest_s)),
    _Figure("busiest slot, records", lambda run: f"{run.imbalance:.2f}"),
    _Figure("busiest slot, seconds", lambda run: f"{run.imbalance_of_time:.2f}"),
    _Figure("tasks per batch", lambda run: f"{run.tasks:.1f}"),
    _Figure("partitions split", _sum("assignor.splitPartitions")),
    _Figure("partitions moved", _sum("assignor.movedPartitions")),
    _Figure("offsets moved", _share("assignor.movedOffsets")),
    _Figure("prediction error", _share("assignor.predictionError")),
    _Figure(
        "locality hits", lambda run: _UNKNOWN if run.hit_rate is None else f"{run.hit_rate:.0%}"
    ),
)


def comparison(runs: Sequence[RunFigures]) -> list[tuple[str, list[str]]]:
    """Return the rows of the table: a measure and its value for each run."""
    return [(figure.name, [figure.of(run) for run in runs]) for figure in _FIGURES]


def comparison_page(
    title: str, lead: Sequence[str], acts: Sequence[Act], checks: Sequence[Check],
    facts: Sequence[tuple[str, str]],
) -> str:  # fmt: skip
    """Write the whole page; after the verdict comes `lead`, of what was done."""
    parts = [page.paragraph(words, "lead") for words in (headline(acts, checks), *lead)]
    for number, act in enumerate(acts, start=1):
        parts += _act(number, act)
    parts += [page.section_title("Checks"), page.checks(checks)]
    parts += [page.section_title("Where it ran")]
    parts += [page.table(["", ""], facts)]
    return page.page(title, [*parts, *page.definitions(TERMS)])


def _act(number: int, act: Act) -> list[str]:
    rows = [[name, *values] for name, values in comparison(act.runs)]
    table = page.table(["", *(run.name for run in act.runs)], rows)
    return [
        page.section_title(f"Act {number}: {act.title}"),
        page.side_by_side([table, page.side_by_side(_loads(act))]),
        page.side_by_side(_timelines(act)),
        page.side_by_side([_partitions(act.sparks), _durations(act.runs)]),
    ]


def _loads(act: Act) -> list[str]:
    most = max(max(run.slot_records().values(), default=0) for run in act.runs) or 1
    return [
        page.figure(
            f"Records of each slot, {run.name}", charts.draw_slot_bars(run, css, most),
            f"Over {pluralize(len(run.measured), 'batch', 'batches')}; in each, the busiest slot "
            f"read {run.imbalance:.2f} times the mean (average).", css,
        )
        for run, css in zip(act.runs, _CSS, strict=True)
    ]  # fmt: skip


def _timelines(act: Act) -> list[str]:
    middle = [run.measured[len(run.measured) // 2] for run in act.runs]
    scale_s = max((t.start_s + t.seconds for batch in middle for t in batch.tasks), default=1.0)
    return [
        page.figure(
            f"When each slot worked, {run.name}", charts.draw_timeline(batch, css, scale_s),
            f"Batch {batch.batch}: {pluralize(len(batch.tasks), 'task')}, one box each; an empty "
            "track is an idle slot.", css,
        )
        for run, batch, css in zip(act.runs, middle, _CSS, strict=True)
    ]  # fmt: skip


def _partitions(run: RunFigures) -> str:
    total: dict[str, int] = {}
    for batch in run.batches:
        for name, records in batch.lag.items():
            total[name] = total.get(name, 0) + records
    return page.figure(
        "Records of each partition",
        charts.draw_value_bars("records of each partition", total, format_count),
        "The key decides the partition, so big keys make big partitions.",
    )


def _durations(runs: Sequence[RunFigures]) -> str:
    names = zip(("left", "right"), runs, strict=False)
    keys = ", ".join(f"{side} bars: {run.name}" for side, run in names)
    pale = " Pale: warm-up, left out of all figures." if any(run.warm_up for run in runs) else ""
    picture = charts.draw_batch_columns(runs, _CSS)
    return page.figure("Seconds of each batch", picture, f"{keys}.{pale}")

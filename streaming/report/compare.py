"""Runs of one job side by side: the table for the terminal and the page with the pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.observe.words import short
from streaming.report import charts, page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.observe.check import Check
    from streaming.observe.figures import RunFigures

_CSS = ("a", "b")
_UNKNOWN = "\N{EN DASH}"


def comparison(runs: Sequence[RunFigures]) -> list[tuple[str, list[str]]]:
    """Return the rows of the table: a measure and its value for each run."""
    return [
        ("batch seconds, median", [f"{run.batch_seconds:.2f}" for run in runs]),
        ("reading seconds, median", [f"{run.read_seconds:.2f}" for run in runs]),
        ("busiest slot / mean, records", [f"{run.imbalance:.2f}" for run in runs]),
        ("busiest slot / mean, seconds", [f"{run.imbalance_of_time:.2f}" for run in runs]),
        ("tasks per batch", [f"{run.tasks:.1f}" for run in runs]),
        ("partitions split", [_count(run, "assignor.splitPartitions") for run in runs]),
        ("partitions moved", [_count(run, "assignor.movedPartitions") for run in runs]),
        ("locality hits", [_percent(run.hit_rate) for run in runs]),
    ]


def comparison_page(
    title: str, lead: Sequence[str], runs: Sequence[RunFigures], checks: Sequence[Check],
    facts: Sequence[tuple[str, str]],
) -> str:  # fmt: skip
    """Write the whole page for two runs, Spark's own mapping first."""
    most = max((max(run.slot_records().values(), default=0) for run in runs), default=0) or 1
    middle = [run.measured[len(run.measured) // 2] for run in runs]
    scale_s = max((t.start_s + t.seconds for batch in middle for t in batch.tasks), default=1.0)
    by_run = list(zip(runs, middle, _CSS, strict=False))
    loads = [
        page.figure(
            run.name, charts.slot_bars(run, css, most),
            f"Records read over {len(run.measured)} batches. Batch by batch the busiest slot "
            f"read {run.imbalance:.2f} times the mean.", css,
        )
        for run, _, css in by_run
    ]  # fmt: skip
    timelines = [
        page.figure(
            f"{run.name}, batch {batch.batch}", charts.timeline(batch, css, scale_s),
            f"{len(batch.tasks)} tasks, one box each; an empty track is an idle slot.", css,
        )
        for run, batch, css in by_run
    ]  # fmt: skip
    lags = [
        page.figure(
            run.name, charts.lag_heat_map(run),
            "Lag of each partition (rows) when a batch (columns) began, stronger for more.", css,
        )
        for run, _, css in by_run
    ]  # fmt: skip
    rows = [[name, *values] for name, values in comparison(runs)]
    parts = [page.paragraph(words, "lead") for words in lead]
    parts += [page.table(["", *(run.name for run in runs)], rows), page.note(_how_measured(runs))]
    parts += [page.heading("Checks"), page.checks(checks)]
    parts += [page.heading("Load per executor slot"), page.side_by_side(loads)]
    parts += [page.heading("When each slot worked"), page.side_by_side(timelines)]
    parts += [page.heading("Lag per partition"), page.side_by_side(lags)]
    parts.append(page.heading("The topic and the batches"))
    parts.append(page.side_by_side([_topic(runs), _durations(runs)]))
    parts += [page.heading("Where it ran"), page.table(["", ""], facts)]
    return page.page(title, parts)


def _topic(runs: Sequence[RunFigures]) -> str:
    first = next((run.batches[0].lag for run in runs if run.batches), {})
    return page.figure(
        "Records per partition at the start",
        charts.value_bars("records per partition", first, short),
        "The key decides the partition, so big keys make big partitions.",
    )


def _durations(runs: Sequence[RunFigures]) -> str:
    names = zip(("left", "right"), runs, strict=False)
    keys = ", ".join(f"{side} bars: {run.name}" for side, run in names)
    warm_up = " Pale: warm-up, left out of the table." if any(run.warm_up for run in runs) else ""
    picture = charts.batch_columns(runs, _CSS)
    return page.figure("Batches, from trigger to commit", picture, f"{keys}.{warm_up}")


def _how_measured(runs: Sequence[RunFigures]) -> str:
    warm_up = max((run.warm_up for run in runs), default=0)
    first = "first batch" if warm_up == 1 else f"first {warm_up} batches"
    excluded = f" The {first} of each run: left out, as warm-up." if warm_up else ""
    return (
        "Records, seconds and slots are those of the tasks that ran, from Spark's status store. "
        "Splits and moves are what the planner reports; Spark's own mapping "
        "reports none. Our planner evens out the seconds that it has learned to expect, so the "
        "records of its slots may differ. Batch seconds include planning, writing and "
        f"committing.{excluded}"
    )


def _count(run: RunFigures, metric: str) -> str:
    total = run.metric_sum(metric)
    return _UNKNOWN if total is None else f"{total}"


def _percent(share: float | None) -> str:
    return _UNKNOWN if share is None else f"{100 * share:.0f}%"

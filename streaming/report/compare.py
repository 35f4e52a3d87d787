"""Runs of one job side by side: the table for the terminal and the page with the pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.report import charts, page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.observe.check import Check
    from streaming.observe.figures import RunFigures

_CSS = ("a", "b")
UNKNOWN = "\N{EN DASH}"


def comparison(runs: Sequence[RunFigures]) -> list[tuple[str, list[str]]]:
    """Give the rows of the table: a measure and its value for each run."""
    return [
        ("batch seconds, median", [f"{run.batch_seconds:.2f}" for run in runs]),
        ("reading seconds, median", [f"{run.read_seconds:.2f}" for run in runs]),
        ("busiest slot / mean, records", [f"{run.imbalance:.2f}" for run in runs]),
        ("busiest slot / mean, seconds", [f"{run.imbalance_of_time:.2f}" for run in runs]),
        ("tasks a batch", [f"{run.tasks:.1f}" for run in runs]),
        ("partitions split", [_count(run, "assignor.splitPartitions") for run in runs]),
        ("partitions moved", [_count(run, "assignor.movedPartitions") for run in runs]),
        ("locality hits", [_percent(run.hit_rate) for run in runs]),
    ]


def comparison_page(
    title: str, lead: Sequence[str], runs: Sequence[RunFigures], checks: Sequence[Check],
    facts: Sequence[tuple[str, str]],
) -> str:  # fmt: skip
    """Write the whole page for two runs, Spark's own mapping first."""
    parts = [page.paragraph(words, "lead") for words in lead]
    parts.append(page.table(["", *[run.name for run in runs]],
                            [[name, *values] for name, values in comparison(runs)]))  # fmt: skip
    parts.append(page.paragraph(_how_measured(runs), "note"))
    parts += [page.heading("Checks"), page.checks(checks)]
    parts += [page.heading("Load per executor slot"), _loads(runs)]
    parts += [page.heading("When each slot worked"), _timelines(runs)]
    parts += [page.heading("Lag per partition"), _lags(runs)]
    parts += [page.heading("The topic and the batches")]
    parts.append(page.side_by_side([_topic(runs), _durations(runs)]))
    parts += [page.heading("Where it ran"), page.table(["", ""], [list(fact) for fact in facts])]
    return page.page(title, parts)


def _loads(runs: Sequence[RunFigures]) -> str:
    most = max((max(run.slot_totals().values(), default=0) for run in runs), default=0) or 1
    return page.side_by_side(
        [
            page.figure(
                run.name,
                charts.slot_bars(run, css, most),
                f"Records read over {len(run.measured)} batches. Batch by batch the busiest slot "
                f"read {run.imbalance:.2f} times the mean.",
                css,
            )
            for run, css in zip(runs, _CSS, strict=False)
        ]
    )


def _timelines(runs: Sequence[RunFigures]) -> str:
    shown = [run.measured[len(run.measured) // 2] for run in runs]
    scale = max((t.start_s + t.seconds for batch in shown for t in batch.tasks), default=1.0)
    return page.side_by_side(
        [
            page.figure(
                f"{run.name}, batch {batch.batch}",
                charts.timeline(batch, run.slots, css, scale),
                f"{len(batch.tasks)} tasks, one box each; an empty track is an idle slot.",
                css,
            )
            for run, batch, css in zip(runs, shown, _CSS, strict=False)
        ]
    )


def _lags(runs: Sequence[RunFigures]) -> str:
    return page.side_by_side(
        [
            page.figure(
                run.name,
                charts.lag_heat_map(run),
                "Lag of each partition (rows) when a batch (columns) began, stronger for more.",
                css,
            )
            for run, css in zip(runs, _CSS, strict=False)
        ]
    )


def _topic(runs: Sequence[RunFigures]) -> str:
    first = next((run.batches[0].lag for run in runs if run.batches), {})
    return page.figure(
        "Records per partition at the start",
        charts.partition_bars(first),
        "The key decides the partition, so big keys make big partitions.",
    )


def _durations(runs: Sequence[RunFigures]) -> str:
    keys = ", ".join(
        f"{'left' if index == 0 else 'right'} bars: {run.name}" for index, run in enumerate(runs)
    )
    warm_up = " Pale: warm-up, left out of the table." if any(run.warm_up for run in runs) else ""
    return page.figure(
        "Batches, from trigger to commit", charts.batch_columns(runs, _CSS), f"{keys}.{warm_up}"
    )


def _how_measured(runs: Sequence[RunFigures]) -> str:
    left_out = max((run.warm_up for run in runs), default=0)
    first = "first batch" if left_out == 1 else f"first {left_out} batches"
    warm_up = f" The {first} of each run: left out, as warm-up." if left_out else ""
    return (
        "Records, seconds and places are those of the tasks that ran, as Spark's status store "
        "tells them; splits and moves are what the planner reports, and Spark's own mapping "
        "reports none. Our planner evens out the seconds that it learned to expect, so the records "
        f"of its slots may differ. Batch seconds include planning, writing and committing.{warm_up}"
    )


def _count(run: RunFigures, metric: str) -> str:
    total = run.metric_sum(metric)
    return UNKNOWN if total is None else f"{total}"


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.0f}%"

"""A simulation as a page: how far each mapping is from the ideal, and the load of executors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.report import page
from streaming.report.charts import value_bars
from streaming.report.replays import mapping_bars

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.simulator.play import Result
    from assignor_bridge.simulator.scenario import Scenario

_HEAD = ("mapping", "median s", "over ideal", "worst", "tasks", "cold partitions")
#: More executors are not drawn.
_MOST_EXECUTORS = 400


def as_table(results: Sequence[Result]) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return the head and the rows of a table; with a column about zones where there are any."""
    rows = [
        [r.name, f"{r.median_seconds:.3f}", f"{r.mean_over:.1%}", f"{r.worst_over:.1%}",
         f"{r.tasks:,.0f}", f"{r.broken:.1%}"]
        for r in results
    ]  # fmt: skip
    if all(r.cross_zone is None for r in results):
        return _HEAD, rows
    shares = [f"{r.cross_zone or 0:.1%}" for r in results]
    return (*_HEAD, "cross-zone"), [[*row, share] for row, share in zip(rows, shares, strict=True)]


def simulation_page(scenario: Scenario, rows: Sequence[Result]) -> str:
    """Write the comparison as a page that opens offline."""
    about = (
        f"{scenario.partitions:,} partitions ({scenario.lags} lags), {scenario.executors:,} "
        f"executors, {scenario.batches:,} batches of {scenario.records:,} records, seed "
        f"{scenario.seed}"
    )
    times = page.figure(
        "Time of a batch, relative to the ideal",
        mapping_bars({r.name: 1 + r.mean_over for r in rows}),
        "Mean over the batches; at the dashed line all work is spread evenly over the slots by "
        "their speed.",
    )
    return page.page(
        "Who reads which offsets: mappings compared",
        [
            page.paragraph(about),
            page.table(*as_table(rows)),
            page.side_by_side([times]),
            page.heading("Busy seconds of each executor in the last batch, busiest first"),
            page.side_by_side(_loads(rows)),
        ],
    )


def _loads(rows: Sequence[Result]) -> list[str]:
    busy = {r.name: r.played[-1].busy for r in rows}
    most = max((seconds for of_row in busy.values() for seconds in of_row.values()), default=1.0)
    figures = []
    for name, of_row in busy.items():
        busiest = sorted(of_row.items(), key=lambda item: -item[1])[:_MOST_EXECUTORS]
        bars = value_bars(
            f"busy seconds of each executor, {name}", dict(busiest), lambda s: f"{s:.3g} s",
            scale=most or 1.0,
        )  # fmt: skip
        figures.append(page.figure(name, bars))
    return figures

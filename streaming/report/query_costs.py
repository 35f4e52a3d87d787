"""The report's section on cost: what a record takes, by partition and by executor."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from streaming.observe.words import seconds_text
from streaming.replay.log import costs_in
from streaming.report import charts, page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.observe.spark_ui import UiRun
    from streaming.replay.log import Costs
    from streaming.report.query_facts import QueryFacts


def section(facts: QueryFacts) -> list[str]:
    """Write the section."""
    figures, rows = [], []
    states = facts.log.states if facts.log else {}
    for source, state in states.items():
        costs = costs_in(state)
        if costs:
            name = f", source {source}" if len(states) > 1 else ""
            rows += [
                [f"a record of a usual partition{name}", seconds_text(costs.record)],
                [f"a range, beside its records{name}", seconds_text(costs.range)],
            ]
            if costs.unusual:
                figures.append(_by_partition(costs, name))
                rows += _extremes("unusual partitions", costs.unusual)
    by_executor = _by_executor(facts.ui) if facts.ui else {}
    if by_executor:
        figures.append(
            page.figure(
                "Time a record takes, by executor",
                charts.value_bars("time a record takes by executor", by_executor, seconds_text),
                f"Seconds of tasks over records read, of {len(facts.ui.figures)} batches "
                "in Spark's UI."
                if facts.ui
                else "",
            )
        )
        rows += _extremes("executors", by_executor)
    if not rows:
        return [
            page.paragraph(
                "What a record of each partition costs is not known: there is no state of the "
                "planner beside the checkpoint (a query without the option assignor has none). "
                "Spark's UI tells it by executor: give its address too.",
                "note",
            )
        ]
    table = page.table(["", "takes"], rows)
    return [page.side_by_side([*figures, table])]


def _by_partition(costs: Costs, name: str) -> str:
    """Draw the partitions whose records take longer, or less long, than most."""
    bars = {"usual": costs.record, **costs.unusual}
    return page.figure(
        f"Time a record takes, by partition{name}",
        charts.value_bars("time a record takes by partition", bars, seconds_text),
        "As the planner learned it on a usual executor, with what follows the reading in the same "
        "task. All partitions that are not shown count as usual. From the state beside the "
        "checkpoint.",
    )


def _extremes(what: str, costs: Mapping[str, float]) -> list[list[str]]:
    least, most = min(costs, key=costs.__getitem__), max(costs, key=costs.__getitem__)
    return [
        [f"a record of the {what} ({len(costs):,}), median", seconds_text(median(costs.values()))],
        [f"the cheapest, {least}", seconds_text(costs[least])],
        [f"the dearest, {most}", seconds_text(costs[most])],
    ]


def _by_executor(ui: UiRun) -> dict[str, float]:
    seconds: dict[str, float] = {}
    records: dict[str, int] = {}
    for batch in ui.figures:
        for task in batch.tasks:
            executor = task.slot.rpartition("/")[0]
            seconds[executor] = seconds.get(executor, 0.0) + task.seconds
            records[executor] = records.get(executor, 0) + task.records
    order = sorted(records, key=lambda name: (len(name), name))
    return {name: seconds[name] / records[name] for name in order if records[name]}

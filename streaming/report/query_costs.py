"""The report's section on cost: what a record takes, by partition and by executor."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING

from streaming.observe.words import seconds_text
from streaming.replay.log import costs_in
from streaming.report import charts, page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.observe.figures import RunFigures
    from streaming.report.query_facts import QueryFacts


def section(facts: QueryFacts) -> list[str]:
    """Write the section."""
    figures, rows = [], []
    states = facts.log.checkpoint.states if facts.log else {}
    for source, state in states.items():
        costs = costs_in(state)
        if costs is None:
            continue
        name = f", source {source}" if len(states) > 1 else ""
        rows += [
            [f"a record of a usual partition{name}", seconds_text(costs.record)],
            [f"a range, without its records{name}", seconds_text(costs.range)],
        ]
        unusual = {str(tp): cost for tp, cost in costs.unusual.items()}
        if unusual:
            rows += _extremes("unusual partitions", unusual)
            figures.append(
                _figure(
                    f"partition{name}", {"usual": costs.record, **unusual},
                    "As the planner learned it on a usual executor, including what follows reading "
                    "in the same task. All partitions that are not shown count as usual. From the "
                    "state in the checkpoint.",
                )
            )  # fmt: skip
    by_executor = _by_executor(facts.ui) if facts.ui else {}
    if facts.ui and by_executor:
        rows += _extremes("executors", by_executor)
        caption = "Seconds of tasks over records read, of {} batches in Spark's UI."
        figures.append(_figure("executor", by_executor, caption.format(len(facts.ui.batches))))
    if not rows:
        return [
            page.note(
                "What a record of each partition costs is unknown: there is no state of the "
                "planner in the checkpoint (a query without the option assignor has none). "
                "Spark's UI has it by executor: also give its address."
            )
        ]
    return [page.side_by_side([*figures, page.table(["", "takes"], rows)])]


def _figure(by: str, costs: Mapping[str, float], caption: str) -> str:
    picture = charts.value_bars(f"time a record takes by {by}", costs, seconds_text)
    return page.figure(f"Time a record takes, by {by}", picture, caption)


def _extremes(what: str, costs: Mapping[str, float]) -> list[list[str]]:
    least, most = min(costs, key=costs.__getitem__), max(costs, key=costs.__getitem__)
    return [
        [f"a record of the {what} ({len(costs):,}), median", seconds_text(median(costs.values()))],
        [f"the cheapest, {least}", seconds_text(costs[least])],
        [f"the most expensive, {most}", seconds_text(costs[most])],
    ]


def _by_executor(run: RunFigures) -> dict[str, float]:
    seconds: dict[str, float] = {}
    records: Counter[str] = Counter()
    for task in run.measured_tasks:
        executor = task.slot.rpartition("/")[0]
        seconds[executor] = seconds.get(executor, 0.0) + task.seconds
        records[executor] += task.records
    order = sorted(records, key=lambda name: (len(name), name))
    return {name: seconds[name] / records[name] for name in order if records[name]}

"""Write the report's section on cost: time per record, and traffic across zones."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import fmean
from typing import TYPE_CHECKING

from streaming.observe.words import format_seconds
from streaming.replay.bill import format_gigabytes, format_money
from streaming.replay.log import compute_costs
from streaming.replay.traffic import GB
from streaming.report import charts, page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from streaming.observe.figures import RunFigures
    from streaming.report.query_facts import QueryFacts

_DAY_S = 86_400


def write_section(facts: QueryFacts) -> list[str]:
    """Write charts of the time per record, and a table of costs and traffic, or a note."""
    figures, rows = [], []
    states = facts.checkpoint_log.checkpoint.states if facts.checkpoint_log else {}
    for source, state in states.items():
        costs = compute_costs(state)
        if costs is None:
            continue
        source_text = f", source {source}" if len(states) > 1 else ""
        rows.append(
            [f"one record of a usual partition{source_text}", format_seconds(costs.record_s)]
        )
        rows.append([f"one range, without its records{source_text}", format_seconds(costs.range_s)])
        unusual_costs = {str(tp): cost for tp, cost in costs.unusual_costs.items()}
        if unusual_costs:
            caption = "As learned by the planner, including downstream work in the same task."
            cost_by_name = {"usual": costs.record_s, **unusual_costs}
            figures.append(_draw_costs(f"partition{source_text}", cost_by_name, caption))
    cost_by_executor = _compute_cost_by_executor(facts.ui_run) if facts.ui_run else {}
    if cost_by_executor:
        caption = "Task time divided by records read, from Spark's UI."
        figures.append(_draw_costs("executor", cost_by_executor, caption))
    rows += _list_zone_traffic(facts)
    if not rows and not figures:
        inputs = "Spark's UI (costs by executor), or the checkpoint of a query with an assignor"
        return [page.note(f"Costs are unknown: also give {inputs} (costs by partition).")]
    table = page.table(["", "cost"], rows, ends_in_words=True) if rows else ""
    return [page.side_by_side([*figures, table])]


def _draw_costs(label: str, costs: Mapping[str, float], caption: str) -> str:
    picture = charts.draw_value_bars(f"time per record by {label}", costs, format_seconds)
    return page.figure(f"Time per record, by {label}", picture, caption)


def _compute_cost_by_executor(run: RunFigures) -> dict[str, float]:
    seconds: dict[str, float] = {}
    records: Counter[str] = Counter()
    for task in run.measured_tasks:
        executor = task.slot.rpartition("/")[0]
        seconds[executor] = seconds.get(executor, 0.0) + task.seconds
        records[executor] += task.records
    executors = sorted(records, key=lambda name: (len(name), name))
    return {name: seconds[name] / records[name] for name in executors if records[name]}


def _list_zone_traffic(facts: QueryFacts) -> Iterator[list[str]]:
    """Yield a table row for each source that reports cross-zone traffic."""
    indexes = sorted({s.index for p in facts.progress for s in p.sources})
    for index in indexes:
        batches = [(p, s) for p in facts.progress for s in p.sources if s.index == index]
        shares = [n for _, s in batches if (n := s.get_number("crossZoneShare")) is not None]
        samples_by_run: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for batch, source in batches:
            if (total_bytes := source.get_number("crossZoneBytes")) is not None:
                samples_by_run[batch.run_id].append((batch.timestamp_s, total_bytes))
        # The metric restarts at 0 with each run of the query.
        crossed_bytes = sum(samples[-1][1] - samples[0][1] for samples in samples_by_run.values())
        seconds = sum(samples[-1][0] - samples[0][0] for samples in samples_by_run.values())
        texts = [f"{fmean(shares):.1%} of the bytes"] if shares else []
        if seconds > 0:
            bytes_a_day = crossed_bytes / seconds * _DAY_S
            gb_text = format_gigabytes(bytes_a_day)
            cost_text = format_money(bytes_a_day / GB * facts.price_per_gb)
            texts.append(f"{gb_text} GB a day, {cost_text} at {facts.price_per_gb:g} per GB")
        if texts:
            source_text = f", source {index}" if len(indexes) > 1 else ""
            yield [f"across zones{source_text}", ": ".join(texts)]

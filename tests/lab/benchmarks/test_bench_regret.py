"""Regret: how far plans were from the best that hindsight allows, over 100 simulated regimes.

A regime is drawn from its seed: partitions, executors, slots, how lags and costs are distributed,
what is unpredictable, and whether executors come and go. It has 30 batches, of which the first
three are left out, because nothing is known then. Regret is the time until the last task ends, over
the least time if all costs were known beforehand (all work over all speeds), minus 1: 0.05 is 5%.
Tasks (4 ms) and cold consumers (20 ms) count as regret, too.

Each figure is the mean over five draws of luck. `minPartitions` and `maxRecordsPerPartition` have
four tasks per slot, `maxRecordsPerPartition*8` eight; any free slot takes them. `over_spark` is the
regret of the option minus that of the best of Spark's settings: negative if the option is better.

`why` is what takes away most of the regret if it is taken out of the regime: equal costs,
predictable times, executors that stay, or free tasks and consumers. The regret that is left then is
in brackets. Regimes in which a Spark setting is better by most come first.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.simulator.play import compare
from tests.lab.benchmarks.luck import SPARK, play_regime, regime
from tests.lab.benchmarks.report import write_report

if TYPE_CHECKING:
    from streaming.simulator.results import MappingResult
    from streaming.simulator.scenario import Scenario

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3 * 3600)]

REGIMES = int(os.environ.get("ASSIGNOR_BENCH_REGIMES", "100"))  # fewer: does it run? writes nothing


def in_words(scenario: Scenario) -> str:
    total = sum(e.slots for e in scenario.topology)
    parts = [
        f"{scenario.partitions} partitions, {scenario.executors} executors, {total} slots",
        f"{scenario.lags} lags",
        f"costs 1:{scenario.cost_skew:g}" * (scenario.cost_skew > 1),
        f"one {scenario.slowness_by_index.get(0, 1):g} times slower"
        * bool(scenario.slowness_by_index),
        f"{scenario.service_noise:.0%} unpredictable",
        "executors come and go" * bool(scenario.churn_every),
    ]
    return ", ".join(part for part in parts if part)


def causes(scenario: Scenario) -> dict[str, Scenario]:
    """Return the regime without each of its difficulties."""
    without = {
        "unpredictable service times": replace(scenario, service_noise=0.0),
        "tasks and cold consumers": replace(scenario, task_seconds=0.0, cold_seconds=0.0),
    }
    if scenario.cost_skew > 1 or scenario.slowness_by_index:
        without["costs that differ"] = replace(scenario, cost_skew=1.0, slowness_by_index={})
    if scenario.churn_every:
        without["executors come and go"] = replace(scenario, churn_every=0)
    return without


def regret(result: MappingResult) -> float:
    return result.times_ideal - 1


def row_of(seed: int) -> dict[str, Any]:
    """Return the row of a regime."""
    scenario = regime(seed)
    regrets = play_regime(scenario)
    ours = regrets.pop("tail")
    left = {
        why: regret(compare(without, [LAG_AWARE_STICKY])[0])
        for why, without in causes(scenario).items()
    }
    why = min(left, key=left.__getitem__)
    return {
        "regime": f"{seed}: {in_words(scenario)}",
        "regret": ours,
        "over_spark": round(ours - min(regrets[name] for name in SPARK), 4),
        **regrets,
        "why": f"{why} ({left[why]:.3g})" if left[why] <= 0.9 * ours else "no single one",
    }


def summarize(rows: list[dict[str, Any]]) -> str:
    """Return the figures of all regimes in two sentences."""

    def at(name: str, share: float) -> float:
        values = sorted(row[name] for row in rows)
        return float(values[min(len(values) - 1, int(share * len(values)))])

    parts = [
        f"{name} {at(name, 0.5):.1%} (median), {at(name, 0.9):.1%} (nine of ten are below)"
        for name in ("regret", "tail=off", *SPARK)
    ]
    above = [sum(row["over_spark"] > points for row in rows) for points in (0.02, 0.1)]
    return (
        f"Over the {len(rows)} regimes: {'; '.join(parts)}. A Spark setting was better by more "
        f"than 2 points in {above[0]}, and by more than 10 points in {above[1]}."
    )


def test_regret() -> None:
    with multiprocessing.Pool() as pool:
        rows = pool.map(row_of, range(1, REGIMES + 1), chunksize=1)
    rows.sort(key=lambda row: -row["over_spark"])
    notes = f"{__doc__}\n{summarize(rows)}"
    print(notes, *rows[:10], sep="\n")
    if REGIMES == 100:
        write_report(
            "regret", title="Regret", notes=notes, rows=rows,
            command="make bench (tests/lab/benchmarks/test_bench_regret.py)",
        )  # fmt: skip
    median = {name: statistics.median(r[name] for r in rows) for name in ("regret", *SPARK)}
    assert median["regret"] == min(median.values()), median

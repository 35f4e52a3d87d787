"""A search for workloads that the option loses: simulated, from seeds, climbing towards a loss.

For each kind of workload the search draws a regime as in `regret`, within the kind, and changes
one thing at a time; a change stays when the option then takes longer beside the best of Spark's
three mappings. `times` is the option's time over that mapping's (above 1 it loses), over fifteen
batches without the first three. What is shown is the worst of three climbs of 25 steps.

`why` is what takes away most of the loss when it is taken out of the regime, as in `regret`; in
brackets the `times` that are left then. `ours, small tasks` is our regret with
`assignor.maxRecordsPerTask` of a quarter of a slot's share, and `spark.locality.wait=0s`. `batch_s`
is the ideal time of a batch: where it is small, tasks (4 ms) and cold consumers (20 ms) are much of
it. The simulator compares where records are read, not how: that Spark's reader waits half a second
at the end of a partition, or that a plan takes some milliseconds, is not in it
(`test_bench_losses.py` measures batches).
"""

from __future__ import annotations

import json
import random
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.simulator.play import (
    SPARK_MAPPINGS,
    WARM_UP_BATCHES,
    SimulatedQuery,
    compare,
    play,
)
from streaming.simulator.results import MappingResult
from tests.lab.benchmarks.luck import regime
from tests.lab.benchmarks.report import FOLDER, write_report
from tests.lab.benchmarks.test_bench_regret import causes, in_words
from tests.lab.benchmarks.turns import SCALE

if TYPE_CHECKING:
    from streaming.simulator.scenario import Scenario

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

SEEDS, STEPS, BATCHES = (1, 2, 3), 25, 15
NAMES = (LAG_AWARE_STICKY, *SPARK_MAPPINGS)
_ALIKE = {"cost_skew": 1.0, "slowness_by_index": {}, "service_noise": 0.05, "churn_every": 0}
#: What each kind of workload holds fixed; the rest is searched.
KINDS: dict[str, dict[str, Any]] = {
    "balanced, and all can be foreseen": _ALIKE | {"lags": "uniform", "noise": 0.1},
    "skewed, and all can be foreseen": _ALIKE,
    "costs differ by partition": {key: _ALIKE[key] for key in ("service_noise", "churn_every")},
    "half of a service time is chance": _ALIKE | {"service_noise": 0.5},
    "executors come and go": _ALIKE | {"churn_every": 10},
}


def within(kind: str, given: Scenario) -> Scenario:
    """Fit a regime to a kind; it has at most 64 partitions, so that the search takes minutes."""
    partitions = min(given.partitions, 64)
    return replace(given, **KINDS[kind], partitions=partitions, batches=BATCHES)


def step(kind: str, given: Scenario, draw: random.Random) -> Scenario:
    """Take one thing over from another regime."""
    other = within(kind, regime(draw.randrange(1_000_000)))
    key = draw.choice(
        [
            "partitions",
            "executors",
            "slots",
            "records",
            "lags",
            "skew",
            "noise",
            "cost_skew",
            "slowness_by_index",
        ]
    )
    changed = {key: getattr(other, key)}
    if key in {"records", "executors", "slots"}:  # else a batch would last for hours, or no time
        changed |= {
            name: getattr(other, name) for name in ("records", "executors", "slots", "cost")
        }
    return replace(given, **changed)


def times(results: dict[str, MappingResult]) -> float:
    """Return the option's time over that of the best of Spark's mappings."""
    return results[LAG_AWARE_STICKY].seconds / min(results[name].seconds for name in SPARK_MAPPINGS)


def played(given: Scenario) -> dict[str, MappingResult]:
    return {result.name: result for result in compare(given, NAMES)}


def small_tasks(given: Scenario) -> MappingResult:
    """Play the option with at least four tasks a slot, which whoever is free may take at once."""
    slots = sum(executor.slots for executor in given.topology)
    options = {"assignor.maxRecordsPerTask": str(max(1, given.records // (4 * slots)))}
    player = SimulatedQuery(LAG_AWARE_STICKY, given, options=options, locality_wait_s=0.0)
    return MappingResult(LAG_AWARE_STICKY, play(player)[WARM_UP_BATCHES:])


def climbed(kind: str, seed: int) -> tuple[float, Scenario, dict[str, MappingResult]]:
    """Return the worst that one climb comes to."""
    draw = random.Random(seed)
    given = within(kind, regime(seed))
    results = played(given)
    for _ in range(STEPS):
        other = step(kind, given, draw)
        others = played(other)
        if times(others) > times(results):
            given, results = other, others
    return times(results), given, results


def row_of(kind: str) -> dict[str, Any]:
    worst, given, results = max(
        (climbed(kind, seed) for seed in SEEDS), key=lambda found: found[0]
    )  # fmt: skip
    left = {why: times(played(without)) for why, without in causes(given).items()}
    why = min(left, key=left.__getitem__)
    best = min(SPARK_MAPPINGS, key=lambda name: results[name].seconds)
    ours = results[LAG_AWARE_STICKY]
    return {
        "kind": kind,
        "worst": in_words(given),
        "batch_s": statistics.fmean(p.bound_seconds for p in ours.batches),
        "times": worst,
        "best of Spark's": best,
        "its regret": results[best].times_ideal - 1,
        "our regret": ours.times_ideal - 1,
        "ours, small tasks": small_tasks(given).times_ideal - 1,
        "why": f"{why} ({left[why]:.2f})" if left[why] < worst - 0.1 * (worst - 1) else "no one",
    }


def regimes_by_cause() -> str:
    """Group the regimes of `regret` by what most of our regret comes from."""
    rows = json.loads((FOLDER / "regret.json").read_text(encoding="utf-8"))["rows"]
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if not row["regime"].startswith("checkpoint"):
            groups.setdefault(row["why"].partition(" (")[0], []).append(row)
    lines = ["| most of our regret comes from | regimes | lost | our regret | Spark's best | "
             "partitions a slot |", "|---|---|---|---|---|---|"]  # fmt: skip
    for why, of_cause in sorted(groups.items(), key=lambda item: -len(item[1])):
        lost = [
            row for row in of_cause if min(row[name] for name in SPARK_MAPPINGS) < row["regret"]
        ]
        if not lost:
            lines.append(f"| {why} | {len(of_cause)} | 0 | | | |")
            continue
        ours = statistics.median(row["regret"] for row in lost)
        best = statistics.median(min(row[name] for name in SPARK_MAPPINGS) for row in lost)
        dense = statistics.median(partitions_a_slot(row["regime"]) for row in lost)
        lines.append(
            f"| {why} | {len(of_cause)} | {len(lost)} | {ours:.1%} | {best:.1%} | {dense:.2g} |"
        )
    return "\n".join(lines)


def partitions_a_slot(regime_in_words: str) -> float:
    words = regime_in_words.replace(",", "").split()
    return int(words[words.index("partitions") - 1]) / int(words[words.index("slots") - 1])


def test_losses_search() -> None:
    rows = []
    for kind in KINDS:
        rows.append(row_of(kind))
        print(rows[-1], flush=True)
    notes = (
        f"{__doc__}\nThe hundred regimes of `regret`, by what most of our regret in them"
        " comes from; `lost` are those in which one of Spark's three mappings was faster, the"
        f" medians are of these:\n\n{regimes_by_cause()}\n\nWhat the search came to:"
    )
    if SCALE == 1:
        write_report(
            "losses_search", title="A search for workloads that the option loses", rows=rows,
            notes=notes, command="make bench (tests/lab/benchmarks/test_bench_losses_search.py)",
        )  # fmt: skip

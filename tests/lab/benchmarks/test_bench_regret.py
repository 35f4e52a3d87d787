"""Regret: how far plans were from the best that hindsight allows, over 100 simulated regimes.

A regime is drawn from its seed: partitions, executors and slots, how lags and costs are spread,
what is unpredictable, who comes and goes. 30 batches each, of which the first three are left out,
as nothing is known then. Regret is the time until the last task ends, over the least that is
possible when all costs are known beforehand (all work over all speeds; or the dearest record),
minus 1: 0.05 is 5%. Tasks (4 ms) and cold consumers (20 ms) count as regret, too. `accepted` is the
part that the plans themselves put above the ideal, by what they believed (`assignor.maxImbalance`
allows 5%). `spark`, `minPartitions`, `maxRecordsPerPartition` and `best other` (of `sticky`,
`lag-aware` and `range`) are the regret of those. The last two settings of Spark have four tasks a
slot, which go to whichever slot is free: that also evens out what nobody foresaw, at the price of a
cold consumer for nearly every task.

`why` is what takes away most of the regret when it is taken out of the regime: played again with
costs alike, with service times that can be foreseen, with executors that stay, or with tasks and
consumers that cost nothing. In brackets: the regret that is left then. Worst first.

What the worst have in common: a few partitions over many slots, so that each is cut into several
pieces, whose records cost up to 50 times as much as others', or half of whose time is chance. Costs
of 1:50 are not learned there, even where 5% is chance: the planner takes them for a cost of a range
beside its records, what it then predicts foresees little, and it goes back to records alike. Of
what is chance nothing can be learned, and tasks that go to whichever slot is free are better.
"""

from __future__ import annotations

import os
import random
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.replay.cluster import choose_cluster
from streaming.replay.log import read_checkpoint_log
from streaming.replay.player import replay
from streaming.replay.replayed import DEFAULT_NAMES
from streaming.simulator.play import compare
from streaming.simulator.results import MappingResult
from streaming.simulator.scenario import Scenario
from tests.lab.benchmarks.report import write_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.replay.log import ReplayBatch

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

REGIMES = int(os.environ.get("ASSIGNOR_BENCH_REGIMES", "100"))  # fewer: does it run? writes nothing
NAMES = (LAG_AWARE_STICKY, "spark", "minPartitions", "maxRecordsPerPartition", "sticky",
         "lag-aware", "range")  # fmt: skip
SPARK = NAMES[1:4]
#: What a page says whose first rows are of checkpoints.
OF_CHECKPOINTS = """
Checkpoints of real queries are first, those that `REGRET_CHECKPOINTS=name=folder,…` has named. They
are replayed as `assignor estimate` does: by the costs that the planner had learned by the end, if
it had learned some. Nothing is left out there, and tasks and consumers cost nothing; `why` says how
much of the regret the plans accepted. Those below are of both acts of `make demo`, the long run for
45 s (`LONG_RUN_S=45`) and of the queries of `tests/lab/long/test_report_causes.py`, beside
other work.
"""


def regime(seed: int) -> Scenario:
    rng = random.Random(seed)
    executors, slots = rng.choice([2, 4, 8, 16]), rng.choice([(1,), (2,), (1, 2, 4)])
    total = sum(slots[i % len(slots)] for i in range(executors))
    cost = rng.choice([2e-5, 5e-4])
    seconds = rng.choice([0.2, 1.0, 5.0])
    return Scenario(
        partitions=rng.choice([4, 16, 64, 200]),
        executors=executors,
        slots=slots,
        batches=30,
        records=int(seconds * total / cost),
        lags=rng.choice(["uniform", "zipf", "lognormal", "one-hot", "rotating"]),
        skew=rng.choice([0.5, 1.2]),
        noise=rng.choice([0.1, 0.5]),
        cost=cost,
        cost_skew=rng.choice([1.0, 1.0, 5.0, 50.0]),
        slowness_by_index={0: rng.choice([2.0, 3.0])} if rng.random() < 0.3 else {},
        service_noise=rng.choice([0.05, 0.2, 0.5]),
        churn_every=rng.choice([0, 0, 10]),
        seed=seed,
    )


def in_words(given: Scenario) -> str:
    total = sum(e.slots for e in given.topology)
    parts = [
        f"{given.partitions} partitions, {given.executors} executors, {total} slots",
        f"{given.lags} lags",
        f"costs 1:{given.cost_skew:g}" * (given.cost_skew > 1),
        f"one {given.slowness_by_index.get(0, 1):g} times slower" * bool(given.slowness_by_index),
        f"{given.service_noise:.0%} unpredictable",
        "executors come and go" * bool(given.churn_every),
    ]
    return ", ".join(part for part in parts if part)


def causes(given: Scenario) -> dict[str, Scenario]:
    """The regime without one of its difficulties."""
    without = {
        "unpredictable service times": replace(given, service_noise=0.0),
        "tasks and cold consumers": replace(given, task_seconds=0.0, cold_seconds=0.0),
    }
    if given.cost_skew > 1 or given.slowness_by_index:
        without["costs that differ"] = replace(given, cost_skew=1.0, slowness_by_index={})
    if given.churn_every:
        without["executors come and go"] = replace(given, churn_every=0)
    return without


def regret(result: MappingResult) -> float:
    return result.times_ideal - 1


def accepted(result: MappingResult) -> float:
    ideal = sum(p.bound_seconds for p in result.batches) or 1.0
    return sum((p.planned_imbalance or 0.0) * p.bound_seconds for p in result.batches) / ideal


def row_of(name: str, results: dict[str, MappingResult], why: str) -> dict[str, Any]:
    ours = results[LAG_AWARE_STICKY]
    whole = {n: regret(r) for n, r in results.items() if n not in (LAG_AWARE_STICKY, *SPARK)}
    best = min(whole, key=whole.__getitem__)
    return {
        "regime": name,
        "regret": regret(ours),
        "worst batch": ours.worst_regret_share,
        "accepted": accepted(ours),
        "why": why,
        **{n: regret(results[n]) for n in SPARK},
        "best other": f"{best} {whole[best]:.3g}",
    }


def simulated(seed: int) -> dict[str, Any]:
    given = regime(seed)
    results = {r.name: r for r in compare(given, NAMES)}
    left = {
        why: regret(compare(without, [LAG_AWARE_STICKY])[0])
        for why, without in causes(given).items()
    }
    why = min(left, key=left.__getitem__)
    words = f"{why} ({left[why]:.3g})"
    if left[why] > 0.9 * regret(results[LAG_AWARE_STICKY]):
        words = "no single one"
    return row_of(f"{seed}: {in_words(given)}", results, words)


def checkpoints() -> list[dict[str, Any]]:
    rows = []
    for given in filter(None, os.environ.get("REGRET_CHECKPOINTS", "").split(",")):
        name, _, folder = given.partition("=")
        log = read_checkpoint_log(folder)
        for source, batches in log.batches_by_source.items():
            played = replay(name, batches, choose_cluster(log, source, batches), DEFAULT_NAMES)
            results = {m.name: m for m in played.mappings if m.error is None}
            of = f"{name}, source {source}" if len(log.batches_by_source) > 1 else name
            words = f"checkpoint of {of}: {len(played.batches)} batches"
            rows.append(row_of(words, results, why_of(results[LAG_AWARE_STICKY], played.batches)))
    return sorted(rows, key=lambda row: -row["regret"])


def why_of(ours: MappingResult, batches: Sequence[ReplayBatch]) -> str:
    """Whose share the regret of a checkpoint is, and what its worst batch was like."""
    share = min(1.0, accepted(ours) / regret(ours)) if regret(ours) > 1e-9 else 1.0
    worst = max(ours.batches, key=lambda p: p.regret_share)
    whose = f"{share:.0%} accepted by the plans" + ", the rest unforeseen" * (share < 0.995)
    if worst.batch == ours.batches[0].batch:
        return f"{whose}; the worst batch is the first, when nothing was learned"
    records = {batch.batch: batch.offset_count for batch in batches}
    size = records[worst.batch] / statistics.median(records.values())
    return f"{whose}; the worst batch, {worst.batch}, has {size:.2g} times the median's records"


def summary(rows: list[dict[str, Any]]) -> str:
    """The whole in a sentence."""

    def at(name: str, share: float) -> float:
        values = sorted(row[name] for row in rows)
        return float(values[min(len(values) - 1, int(share * len(values)))])

    parts = [
        f"{name} {at(name, 0.5):.1%} (median), {at(name, 0.9):.1%} (nine of ten are below)"
        for name in ("regret", *SPARK)
    ]
    mean = statistics.fmean(row["accepted"] for row in rows)
    better = sum(min(row[name] for name in SPARK) < row["regret"] for row in rows)
    return (
        f"Over the {len(rows)} regimes: {'; '.join(parts)}. Of ours {mean:.1%} was accepted. In "
        f"{better} of them one of Spark's three was better."
    )


def test_regret() -> None:
    rows = sorted((simulated(seed) for seed in range(1, REGIMES + 1)), key=lambda r: -r["regret"])
    real = checkpoints()
    notes = f"{__doc__}{OF_CHECKPOINTS if real else ''}\n{summary(rows)}"
    print(notes, *rows[:10], sep="\n")
    if REGIMES == 100:
        write_report(
            "regret", title="Regret", notes=notes, rows=[*real, *rows],
            command="make bench (tests/lab/benchmarks/test_bench_regret.py)",
        )  # fmt: skip
    median = {name: statistics.median(r[name] for r in rows) for name in ("regret", *SPARK)}
    assert median["regret"] == min(median.values()), median

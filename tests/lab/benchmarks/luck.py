"""Compare plans with Spark's settings over regimes, each averaged over several draws of luck.

`python -m tests.lab.benchmarks.luck GENERATOR FIRST LAST [DRAWS]` prints a JSON line per regime.
The generator is `regret`, as in `test_bench_regret`, or `rough`, which differs in what cannot be
predicted: executors that stall, luck by piece instead of by partition, costs that drift, and 10 ms
per range. Of `rough`, seeds from 31 are kept for the last run.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.options import LAG_AWARE_STICKY
from assignor_bridge.planner.batch import ReadReports, encode_names
from streaming.simulator.play import WARM_UP_BATCHES, SimulatedQuery
from streaming.simulator.results import PlayedBatch
from streaming.simulator.scenario import Scenario, SimulatedBatch, generate_batches
from streaming.simulator.schedule import schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.simulator.mappings import PlacedTask

SPARK = ("spark", "minPartitions", "maxRecordsPerPartition", "maxRecordsPerPartition*8")
PLANS = {"tail": {}, "tail=off": {"assignor.tail": "off"}}


@dataclass(frozen=True)
class Rough:
    """What the simulator's own scenarios lack."""

    range_s: float
    luck_by_piece: float
    stall_share: float
    stall_factor: float
    drift: float


_NOT_ROUGH = Rough(0.0, 0.0, 0.0, 1.0, 0.0)


class RoughQuery(SimulatedQuery):
    rough = _NOT_ROUGH
    luck = 0

    def play(self, batch: SimulatedBatch) -> PlayedBatch:
        """Plan one batch, and simulate it with stalls, luck by piece, and drifting costs."""
        self.reasons, self.planned_imbalance = (), None
        tasks, rough, seed = self.plan(batch), self.rough, self.scenario.seed
        drift = np.random.default_rng((seed, 7)).normal(
            0, rough.drift, (batch.number + 1, len(batch.records))
        )
        noise = np.random.default_rng((seed, batch.number, self.luck)).normal(
            0, self.scenario.service_noise, len(batch.records)
        )
        costs = batch.cost * np.exp(drift.sum(axis=0) + noise)
        cost = dict(zip(batch.partitions, costs.tolist(), strict=True))
        first = dict(zip(batch.partitions, batch.start.tolist(), strict=True))
        dice = random.Random(f"{seed} {batch.number} {self.luck}")
        slowness = {
            e.id: batch.slowness.get(e.id, 1.0)
            * (rough.stall_factor if dice.random() < rough.stall_share else 1.0)
            for e in batch.executors
        }

        def piece_s(r, executor: str) -> float:  # type: ignore[no-untyped-def]
            luck = random.Random(
                f"{seed} {batch.number} {self.luck} {r.partition} {r.start} {r.end}"
            )
            factor = np.exp(luck.gauss(0, rough.luck_by_piece))
            return float((rough.range_s + r.size * cost[r.tp]) * slowness[executor] * factor)

        def cold_s(r, executor: str) -> float:  # type: ignore[no-untyped-def]
            return self.get_cold_s(r, executor, first)

        def task_s(task: int, executor: str) -> float:
            ranges = tasks[task].ranges
            waits_s = sum(cold_s(r, executor) for r in ranges)
            return self.scenario.task_seconds + waits_s + sum(piece_s(r, executor) for r in ranges)

        runs = schedule(
            [t.preferred_executors for t in tasks], task_s, batch.executors, self.locality_wait_s
        )
        reports = self.report(tasks, runs, piece_s, cold_s)
        played = self._summarize_batch(batch, tasks, runs, cost, first)
        self.observed = reports
        ranges_s = rough.range_s * int((batch.records > 0).sum())
        speed = sum(e.slots / batch.slowness.get(e.id, 1.0) for e in batch.executors)
        bound = (float(batch.records @ costs) + ranges_s) / speed
        return replace(played, bound_seconds=max(bound, 1e-9))

    def report(self, tasks: Sequence[PlacedTask], runs, piece_s, cold_s) -> ReadReports:  # type: ignore[no-untyped-def]
        rows = [(r, run.executor) for run in runs for r in tasks[run.task].ranges]
        size = np.array([r.size for r, _ in rows], np.float64)
        wait_s = np.array([cold_s(r, e) for r, e in rows], np.float64)
        work_s = np.array([piece_s(r, e) for r, e in rows], np.float64)
        return ReadReports.of(
            encode_names([r.topic for r, _ in rows]),
            np.array([r.partition for r, _ in rows], np.int64),
            encode_names([executor for _, executor in rows]),
            size, 100 * size, work_s + wait_s, size, wait_s,
        )  # fmt: skip


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


def rough_regime(seed: int) -> tuple[Scenario, Rough]:
    rng = random.Random(f"rough {seed}")
    executors, slots = rng.choice([3, 5, 12]), rng.choice([(1,), (4,), (2, 3)])
    total = sum(slots[i % len(slots)] for i in range(executors))
    cost, seconds = rng.choice([1e-5, 1e-4, 2e-3]), rng.choice([0.3, 2.0, 8.0])
    scenario = Scenario(
        partitions=rng.choice([6, 24, 96, 300]), executors=executors, slots=slots, batches=24,
        records=int(seconds * total / cost),
        lags=rng.choice(["uniform", "zipf", "lognormal", "one-hot"]),
        skew=rng.choice([0.8, 1.5]), noise=rng.choice([0.05, 0.3]), cost=cost,
        cost_skew=rng.choice([1.0, 3.0, 20.0]),
        slowness_by_index={1: rng.choice([1.5, 4.0])} if rng.random() < 0.25 else {},
        service_noise=rng.choice([0.0, 0.1, 0.4]), churn_every=rng.choice([0, 0, 0, 8]), seed=seed,
    )  # fmt: skip
    rough = Rough(
        rng.choice([0.0, 0.01]), rng.choice([0.02, 0.15, 0.5]), rng.choice([0.0, 0.0, 0.1]),
        rng.choice([1.5, 3.0]), rng.choice([0.0, 0.05]),
    )  # fmt: skip
    return scenario, rough


def play_regime(scenario: Scenario, rough: Rough = _NOT_ROUGH, draws: int = 5) -> dict[str, float]:
    """Return the regret of each of Spark's settings and of the plans, as means over draws."""
    batches = list(generate_batches(scenario))
    slots = sum(e.slots for e in scenario.topology)
    regrets: dict[str, float] = {}
    for name in (*SPARK, *PLANS):
        total = 0.0
        for luck in range(draws):
            mapping = name if name in SPARK else LAG_AWARE_STICKY
            if name.endswith("*8"):
                mapping = f"maxRecordsPerPartition={max(1, scenario.records // (8 * slots))}"
            query = RoughQuery(mapping, scenario, PLANS.get(name, {}))
            query.rough, query.luck = rough, luck
            played = [query.play(batch) for batch in batches][WARM_UP_BATCHES:]
            total += sum(p.seconds for p in played) / sum(p.bound_seconds for p in played) - 1
        regrets[name] = round(total / draws, 4)
    return regrets


def scenario_and_rough(generator: str, seed: int) -> tuple[Scenario, Rough]:
    return (regime(seed), _NOT_ROUGH) if generator == "regret" else rough_regime(seed)


def main() -> None:
    generator, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    draws = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    for seed in range(first, last + 1):
        regrets = play_regime(*scenario_and_rough(generator, seed), draws)
        print(json.dumps({"seed": seed} | regrets), flush=True)


if __name__ == "__main__":
    main()

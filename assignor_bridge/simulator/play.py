"""A scenario played through one mapping or assignor, batch by batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.registry import lookup
from assignor_bridge.model import OffsetRange
from assignor_bridge.options import parse_options
from assignor_bridge.planner.batch import Observed, coded, lay_out
from assignor_bridge.planner.plan import plan_step
from assignor_bridge.simulator.mappings import (
    Placed,
    spark_default,
    spark_max_records,
    spark_min_partitions,
)
from assignor_bridge.simulator.scenario import Scenario, Step, steps
from assignor_bridge.simulator.schedule import Run, schedule
from checkpoints.sticky_state import StickyState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from assignor_bridge.assignors.protocol import Assignor

#: Names of Spark's own mappings; the last two may be followed by `=NUMBER`.
SPARK_MAPPINGS = ("spark", "minPartitions", "maxRecordsPerPartition")


@dataclass(frozen=True, slots=True)
class Played:
    """What one batch came to."""

    batch: int
    #: When the last task ended, and the least that is possible (work over speeds).
    seconds: float
    bound_seconds: float
    tasks: int
    pieces: int
    #: Partitions with data; of these, whose first piece another (living) executor had before.
    partitions: int
    broken: int
    #: Partitions that ended with another executor than in the batch before.
    handed_over: int
    #: Busy seconds by executor id.
    busy: Mapping[str, float]

    @property
    def over(self) -> float:
        """How much longer than the ideal, as a share of it."""
        return self.seconds / self.bound_seconds - 1 if self.bound_seconds else 0.0


@dataclass(slots=True)
class Player:
    """One mapping or assignor with its memory."""

    name: str
    scenario: Scenario
    options: Mapping[str, str] = field(default_factory=dict)
    find: Callable[[str], Assignor] = lookup
    locality_wait: float = 3.0
    #: Last share of each task that is left without a preferred executor, as a task of its own.
    guard_share: float = 0.0
    state: StickyState = field(default_factory=StickyState.empty)
    observed: Observed = field(default_factory=Observed.none)
    #: Executor that read each partition last, by what really ran.
    at: dict[tuple[str, int], str] = field(default_factory=dict)
    #: Why the planner planned the last batch as it did, the summary first; Spark's mappings say
    #: nothing.
    reasons: tuple[str, ...] = ()

    def play(self, step: Step) -> Played:
        """Plan and run one batch."""
        self.reasons = ()
        tasks = self._guarded(self._tasks(step))
        rng = np.random.default_rng((self.scenario.seed, step.number))
        luck = np.exp(rng.normal(0, self.scenario.service_noise, len(step.records)))
        keys = [(tp.topic, tp.partition) for tp in step.partitions]
        cost = dict(zip(keys, (step.cost * luck).tolist(), strict=True))
        first = dict(zip(keys, step.start.tolist(), strict=True))
        scenario = self.scenario

        def seconds(task: int, executor: str) -> float:
            slow = step.slowness.get(executor, 1.0)
            work, cold = 0.0, 0
            for r in tasks[task].ranges:
                key = (r.topic, r.partition)
                work += r.size * cost[key]
                cold += r.start != first[key] or self.at.get(key) != executor
            return float(scenario.task_seconds + scenario.cold_seconds * cold + work * slow)

        runs = schedule([t.executor for t in tasks], seconds, step.executors, self.locality_wait)
        return self._settle(step, tasks, runs, cost, first)

    def _tasks(self, step: Step) -> list[Placed]:
        kind, _, number = self.name.partition("=")
        if kind in SPARK_MAPPINGS:
            ranges = [
                OffsetRange(tp.topic, tp.partition, first, first + size)
                for tp, first, size in zip(
                    step.partitions, step.start.tolist(), step.records.tolist(), strict=True
                )
                if size
            ]
            slots = sum(e.slots for e in step.executors)
            if kind == "spark":
                return spark_default(ranges, step.executors)
            if kind == "minPartitions":
                return spark_min_partitions(
                    ranges, step.executors, int(number or max(4 * slots, 2 * len(ranges)))
                )
            size = int(number or max(1, int(step.records.sum()) // (4 * slots)))
            return spark_max_records(ranges, size)
        batch = lay_out(
            coded([tp.topic for tp in step.partitions]),
            np.array([tp.partition for tp in step.partitions], np.int64),
            step.start,
            step.start + step.records,
            step.executors,
            parse_options({"assignor": self.name, **self.options}),
            self.observed,
            1,
        )
        outcome = plan_step(batch, self.state, self.find)
        self.state, self.reasons = outcome.state, outcome.reasons
        pieces = outcome.tasks.pieces
        ranges_of: list[list[OffsetRange]] = [[] for _ in range(len(outcome.tasks))]
        for task, topic, partition, start, end in zip(
            outcome.tasks.task.tolist(),
            batch.topic[pieces.row].tolist(),
            batch.partition[pieces.row].tolist(),
            pieces.start.tolist(),
            pieces.end.tolist(),
            strict=True,
        ):
            ranges_of[task].append(OffsetRange(batch.topics[topic], partition, start, end))
        executor = batch.slot_executor[outcome.tasks.slot].tolist()
        return [
            Placed(batch.executors[e].id, tuple(ranges))
            for e, ranges in zip(executor, ranges_of, strict=True)
        ]

    def _guarded(self, tasks: list[Placed]) -> list[Placed]:
        """Leave the last share of each task to whoever is free."""
        if not self.guard_share:
            return tasks
        first, last = [], []
        for task in tasks:
            spare = int(sum(r.size for r in task.ranges) * self.guard_share)
            kept = list(task.ranges)
            free: list[OffsetRange] = []
            while spare > 0 and kept:
                r = kept.pop()
                cut = max(r.start, r.end - spare)
                free.append(OffsetRange(r.topic, r.partition, cut, r.end))
                spare -= r.end - cut
                if cut > r.start:
                    kept.append(OffsetRange(r.topic, r.partition, r.start, cut))
            if kept:
                first.append(Placed(task.executor, tuple(kept)))
            if free:
                last.append(Placed(None, tuple(free)))
        return first + last

    def _settle(
        self,
        step: Step,
        tasks: Sequence[Placed],
        runs: Sequence[Run],
        cost: Mapping[tuple[str, int], float],
        first: Mapping[tuple[str, int], int],
    ) -> Played:
        """Account for a batch, and keep its read reports for the next plan."""
        busy = {e.id: 0.0 for e in step.executors}
        alive = set(busy)
        head: dict[tuple[str, int], str] = {}
        tail: dict[tuple[str, int], tuple[int, str]] = {}
        reports: list[tuple[tuple[str, int], str, int, float]] = []
        for run in runs:
            slow = step.slowness.get(run.executor, 1.0)
            for r in tasks[run.task].ranges:
                key = (r.topic, r.partition)
                spent = r.size * cost[key] * slow
                busy[run.executor] += spent
                reports.append((key, run.executor, r.size, spent))
                if r.start == first[key]:
                    head[key] = run.executor
                if r.end > tail.get(key, (-1, ""))[0]:
                    tail[key] = (r.end, run.executor)
        broken = sum(
            1 for p, e in head.items() if p in self.at and self.at[p] in alive and self.at[p] != e
        )
        handed = sum(1 for p, (_, e) in tail.items() if p in self.at and self.at[p] != e)
        self.at.update({p: e for p, (_, e) in tail.items()})
        size = np.array([r[2] for r in reports], np.float64)
        self.observed = Observed.of(
            coded([r[0][0] for r in reports]),
            np.array([r[0][1] for r in reports], np.int64),
            coded([r[1] for r in reports]),
            size,
            size * 100,
            np.array([r[3] for r in reports], np.float64),
            size,
        )
        work = float(np.dot(step.records, list(cost.values())))
        speed = sum(e.slots / step.slowness.get(e.id, 1.0) for e in step.executors)
        return Played(
            step.number,
            max((run.end_seconds for run in runs), default=0.0),
            work / speed,
            len(tasks),
            len(reports),
            len(tail),
            broken,
            handed,
            busy,
        )


def play(player: Player, batches: Iterable[Step] | None = None) -> list[Played]:
    """Play batches, by default those that the player's scenario makes up."""
    played = steps(player.scenario) if batches is None else batches
    return [player.play(step) for step in played]

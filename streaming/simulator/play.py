"""A scenario played through mappings and assignors, batch by batch, each as one row."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.registry import lookup
from assignor_bridge.errors import OptionError
from assignor_bridge.model import OffsetRange
from assignor_bridge.options import parse_options
from assignor_bridge.planner.batch import ReadReports, build_batch, encode_names
from assignor_bridge.planner.plan import plan_step
from checkpoints.sticky_state import StickyState
from streaming.simulator.mappings import (
    MOST_TASKS,
    Placed,
    spark_default,
    spark_max_records,
    spark_min_partitions,
)
from streaming.simulator.scenario import Scenario, Step, steps
from streaming.simulator.schedule import Run, schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.model import Partition
    from assignor_bridge.planner.plan import PlannedBatch

#: Names of Spark's own mappings; the last two may be followed by `=NUMBER`.
SPARK_MAPPINGS = ("spark", "minPartitions", "maxRecordsPerPartition")


def is_sparks(name: str) -> bool:
    """Whether a name, perhaps with a number behind `=`, is one of Spark's mappings."""
    return name.partition("=")[0] in SPARK_MAPPINGS


@dataclass(frozen=True, slots=True)
class Played:
    """What one batch came to."""

    batch: int
    #: When the last task ended, and the least that hindsight allows: all work over all speeds, or
    #: the dearest record, which cannot be cut.
    seconds: float
    bound_seconds: float
    tasks: int
    #: Partitions with data; of these, whose first piece another (living) executor had before.
    partitions: int
    broken: int
    #: Busy seconds by executor id.
    busy: Mapping[str, float]
    #: Share of the bytes that another zone read than those of their replicas; None without zones.
    cross_zone: float | None = None
    #: How far the plan itself put its busiest slot above the ideal, by the costs that it believed;
    #: what `over` is more was not foreseen. None for Spark's mappings.
    planned_over: float | None = None

    @property
    def over(self) -> float:
        """How much longer than the ideal, as a share of it."""
        return self.seconds / self.bound_seconds - 1 if self.bound_seconds else 0.0


@dataclass
class Player:
    """One mapping or assignor with its memory."""

    name: str
    scenario: Scenario
    options: Mapping[str, str] = field(default_factory=dict)
    find: Callable[[str], Assignor] = lookup
    locality_wait: float = 3.0
    state: StickyState = field(default_factory=StickyState.empty)
    observed: ReadReports = field(default_factory=ReadReports.empty)
    #: Executor that read each partition last, by what really ran.
    at: dict[Partition, str] = field(default_factory=dict)
    #: Why the planner planned the last batch as it did, the summary first; none for Spark's.
    reasons: tuple[str, ...] = ()
    planned_over: float | None = None

    def play(self, step: Step) -> Played:
        """Plan and run one batch."""
        self.reasons, self.planned_over = (), None
        tasks = self.plan(step)
        rng = np.random.default_rng((self.scenario.seed, step.number))
        luck = np.exp(rng.normal(0, self.scenario.service_noise, len(step.records)))
        cost = dict(zip(step.partitions, (step.cost * luck).tolist(), strict=True))
        first = dict(zip(step.partitions, step.start.tolist(), strict=True))

        def seconds(task: int, executor: str) -> float:
            slow = step.slowness.get(executor, 1.0)
            work, cold = 0.0, 0
            for r in tasks[task].ranges:
                key = r.tp
                work += r.size * cost[key]
                cold += r.start != first[key] or self.at.get(key) != executor
            beside = self.scenario.task_seconds + self.scenario.cold_seconds * cold
            return float(beside + work * slow)

        runs = schedule([t.executor for t in tasks], seconds, step.executors, self.locality_wait)
        return self._account(step, tasks, runs, cost, first)

    def plan(self, step: Step) -> list[Placed]:
        """Return the tasks of a batch."""
        kind, _, number = self.name.partition("=")
        if kind not in SPARK_MAPPINGS:
            return self._planned(step)
        ranges = [
            OffsetRange(*tp, start, start + size)
            for tp, start, size in zip(
                step.partitions, step.start.tolist(), step.records.tolist(), strict=True
            )
            if size
        ]
        if kind == "spark":
            return spark_default(ranges, step.executors)
        slots = sum(e.slots for e in step.executors)
        if kind == "minPartitions":
            least = int(number or max(4 * slots, 2 * len(ranges)))
            return spark_min_partitions(ranges, step.executors, least)
        most = int(number or max(1, int(step.records.sum()) // (4 * slots)))
        if number and (tasks := sum(-(-r.size // most) for r in ranges)) > MOST_TASKS:
            raise OptionError(
                f"{self.name}: batch {step.number} would have {tasks:,} tasks, at most "
                f"{MOST_TASKS:,} tasks are played"
            )
        return spark_max_records(ranges, most)

    def _planned(self, step: Step) -> list[Placed]:
        batch = build_batch(
            encode_names([tp.topic for tp in step.partitions]),
            np.array([tp.number for tp in step.partitions], np.int64),
            step.start,
            step.start + step.records,
            step.executors,
            parse_options({"assignor": self.name, **self.options}),
            self.observed,
            1,
            replicas=step.replicas,
            partitions=step.live,
        )
        outcome = plan_step(batch, self.state, self.find)
        self.state, self.reasons = outcome.state, outcome.reasons
        self.planned_over = float(outcome.metrics["imbalance"])
        return placed(outcome)

    def _account(
        self,
        step: Step,
        tasks: Sequence[Placed],
        runs: Sequence[Run],
        cost: Mapping[Partition, float],
        first: Mapping[Partition, int],
    ) -> Played:
        """Account for a batch, and keep its read reports for the next plan."""
        busy = {e.id: 0.0 for e in step.executors}
        head: dict[Partition, str] = {}
        tail: dict[Partition, tuple[int, str]] = {}
        reports: list[tuple[Partition, str, int, float]] = []
        record_bytes = np.full(len(step.records), 100.0) if step.bytes is None else step.bytes
        bytes_of = dict(zip(step.partitions, record_bytes.tolist(), strict=True))
        is_far, crossed = _far(step), 0.0
        for run in runs:
            slow = step.slowness.get(run.executor, 1.0)
            for r in tasks[run.task].ranges:
                key = r.tp
                spent = r.size * cost[key] * slow
                busy[run.executor] += spent
                reports.append((key, run.executor, r.size, spent))
                crossed += r.size * bytes_of[key] * is_far(key, run.executor)
                if r.start == first[key]:
                    head[key] = run.executor
                if r.end > tail.get(key, (-1, ""))[0]:
                    tail[key] = (r.end, run.executor)
        broken = sum(self.at.get(key, e) != e and self.at[key] in busy for key, e in head.items())
        self.at.update({key: e for key, (_, e) in tail.items()})
        size = np.array([r[2] for r in reports], np.float64)
        self.observed = ReadReports.of(
            encode_names([tp.topic for tp, _, _, _ in reports]),
            np.array([tp.number for tp, _, _, _ in reports], np.int64),
            encode_names([executor for _, executor, _, _ in reports]),
            size,
            size * np.array([bytes_of[r[0]] for r in reports], np.float64),
            np.array([r[3] for r in reports], np.float64),
            size,
        )
        each = np.array([*cost.values()])
        work, dearest = float(step.records @ each), float(each[step.records > 0].max(initial=0))
        fastest = min(step.slowness.get(e.id, 1.0) for e in step.executors)
        speed = sum(e.slots / step.slowness.get(e.id, 1.0) for e in step.executors)
        seconds = max((run.end_seconds for run in runs), default=0.0)
        total = float(np.dot(step.records, record_bytes))
        return Played(
            step.number,
            seconds,
            max(work / speed, dearest * fastest),
            len(tasks),
            len(tail),
            broken,
            busy,
            None if step.replicas is None else crossed / (total or 1.0),
            self.planned_over,
        )


def placed(outcome: PlannedBatch) -> list[Placed]:
    """Return the tasks of a plan as the scheduler sees them."""
    batch, pieces = outcome.batch, outcome.tasks.pieces
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


def _far(step: Step) -> Callable[[Partition, str], bool]:
    """Return what tells whether an executor is far from a partition's replicas, if all is known."""
    if step.replicas is None:
        return lambda _partition, _executor: False
    sets = map(step.replicas.racks.__getitem__, step.replicas.code.tolist())
    racks = dict(zip(step.partitions, sets, strict=True))
    zone = {e.id: e.rack for e in step.executors}
    return lambda tp, e: bool(racks[tp] and zone[e]) and zone[e] not in racks[tp]


def play(player: Player) -> list[Played]:
    """Play the batches of the player's scenario."""
    return [player.play(step) for step in steps(player.scenario)]


#: Batches at the start, in which there is nothing to be sticky to and costs are unknown.
WARM_UP_BATCHES = 3


@dataclass(frozen=True, slots=True)
class Result:
    """How one mapping did over some batches."""

    name: str
    played: Sequence[Played] = ()
    #: Why the planner planned each batch as it did; empty for Spark's mappings.
    reasons: Sequence[tuple[str, ...]] = ()
    #: Why it could not be played, None when it was.
    error: str | None = None

    @property
    def seconds(self) -> float:
        """Reading time of all batches."""
        return sum(p.seconds for p in self.played)

    @property
    def median_seconds(self) -> float:
        """Median time of a batch."""
        return median(p.seconds for p in self.played)

    @property
    def times_ideal(self) -> float:
        """The time of all batches over the ideal one, in which all slots end at once."""
        ideal = sum(p.bound_seconds for p in self.played)
        return self.seconds / ideal if ideal else 1.0

    @property
    def regret_seconds(self) -> float:
        """Mean seconds of a batch beyond the least that hindsight allows."""
        return fmean(p.seconds - p.bound_seconds for p in self.played) if self.played else 0.0

    @property
    def mean_over(self) -> float:
        """Mean of how much longer than the ideal a batch takes, as a share."""
        return fmean(p.over for p in self.played)

    @property
    def worst_over(self) -> float:
        """The same in the worst batch."""
        return max((p.over for p in self.played), default=0.0)

    @property
    def tasks(self) -> float:
        """Mean number of tasks of a batch."""
        return fmean(p.tasks for p in self.played) if self.played else 0.0

    @property
    def moved(self) -> float:
        """Mean number of partitions of a batch that another executor went on with."""
        return fmean(p.broken for p in self.played) if self.played else 0.0

    @property
    def moved_share(self) -> float:
        """The same over all batches, as a share of the partitions that had data."""
        return sum(p.broken for p in self.played) / (sum(p.partitions for p in self.played) or 1)

    @property
    def cross_zone(self) -> float | None:
        """Mean share of bytes that crossed zones; None without zones."""
        shares = [p.cross_zone for p in self.played if p.cross_zone is not None]
        return fmean(shares) if shares else None

    @property
    def broken(self) -> float:
        """The mean of that share over the batches."""
        return fmean(p.broken / max(1, p.partitions) for p in self.played)


def compare(
    scenario: Scenario,
    names: Sequence[str],
    find: Callable[[str], Assignor] = lookup,
    locality_wait: float = 3.0,
) -> list[Result]:
    """Play the scenario through each mapping or assignor, and leave out the warm-up."""
    players = [Player(name, scenario, find=find, locality_wait=locality_wait) for name in names]
    played = [play(player) for player in players]
    return [
        Result(name, batches[WARM_UP_BATCHES:] or batches)
        for name, batches in zip(names, played, strict=True)
    ]

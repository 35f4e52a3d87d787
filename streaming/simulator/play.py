"""Simulate a scenario with mappings and assignors, batch by batch."""

from __future__ import annotations

from dataclasses import dataclass, field
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
    MAX_TASKS,
    PlacedTask,
    place_by_hash,
    place_by_max_records,
    place_by_min_partitions,
)
from streaming.simulator.results import MappingResult, PlayedBatch
from streaming.simulator.scenario import Scenario, SimulatedBatch, generate_batches
from streaming.simulator.schedule import TaskRun, schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.model import Partition
    from assignor_bridge.planner.plan import PlannedBatch

#: Names of Spark's own assignments; the last two accept `=NUMBER`.
SPARK_MAPPINGS = ("spark", "minPartitions", "maxRecordsPerPartition")


def is_spark_mapping(name: str) -> bool:
    """Return whether a name, with or without `=NUMBER`, is one of Spark's assignments."""
    return name.partition("=")[0] in SPARK_MAPPINGS


@dataclass
class SimulatedQuery:
    """A query with one mapping or assignor, and its state between batches."""

    name: str
    scenario: Scenario
    options: Mapping[str, str] = field(default_factory=dict)
    find_assignor: Callable[[str], Assignor] = lookup
    locality_wait_s: float = 3.0
    state: StickyState = field(default_factory=StickyState.empty)
    observed: ReadReports = field(default_factory=ReadReports.empty)
    #: Executor that last read the end of each partition.
    last_reader_by_partition: dict[Partition, str] = field(default_factory=dict)
    #: Executor that last read the end of each partition, without readers of tails.
    owner_by_partition: dict[Partition, str] = field(default_factory=dict)
    #: The planner's reasons for the last batch, with the summary first; empty for Spark's own.
    reasons: tuple[str, ...] = ()
    planned_imbalance: float | None = None

    def play(self, batch: SimulatedBatch) -> PlayedBatch:
        """Plan one batch, and simulate its tasks."""
        self.reasons, self.planned_imbalance = (), None
        tasks = self.plan(batch)
        rng = np.random.default_rng((self.scenario.seed, batch.number))
        noise = np.exp(rng.normal(0, self.scenario.service_noise, len(batch.records)))
        cost_by_partition = dict(zip(batch.partitions, (batch.cost * noise).tolist(), strict=True))
        start_by_partition = dict(zip(batch.partitions, batch.start.tolist(), strict=True))

        def compute_task_s(task: int, executor: str) -> float:
            ranges = tasks[task].ranges
            work_s = sum(r.size * cost_by_partition[r.tp] for r in ranges)
            cold_s = sum(self.get_cold_s(r, executor, start_by_partition) for r in ranges)
            fixed_s = self.scenario.task_seconds + cold_s
            return float(fixed_s + work_s * batch.slowness.get(executor, 1.0))

        preferred_executors = [t.preferred_executors for t in tasks]
        runs = schedule(preferred_executors, compute_task_s, batch.executors, self.locality_wait_s)
        return self._summarize_batch(batch, tasks, runs, cost_by_partition, start_by_partition)

    def get_cold_s(
        self, piece: OffsetRange, executor: str, start_by_partition: Mapping[Partition, int]
    ) -> float:
        """Return the wait of a cold read; 0 if the executor's consumer is at the piece's start."""
        is_first = piece.start == start_by_partition[piece.tp]
        is_warm = is_first and self.last_reader_by_partition.get(piece.tp) == executor
        return 0.0 if is_warm else self.scenario.cold_seconds

    def plan(self, batch: SimulatedBatch) -> list[PlacedTask]:
        """Return a batch's tasks; raise OptionError if `maxRecordsPerPartition` makes too many."""
        kind, _, number = self.name.partition("=")
        if kind not in SPARK_MAPPINGS:
            return self._plan_with_assignor(batch)
        ranges = [
            OffsetRange(*tp, start, start + size)
            for tp, start, size in zip(
                batch.partitions, batch.start.tolist(), batch.records.tolist(), strict=True
            )
            if size
        ]
        if kind == "spark":
            return place_by_hash(ranges, batch.executors)
        slots = sum(e.slots for e in batch.executors)
        if kind == "minPartitions":
            min_partitions = int(number or max(4 * slots, 2 * len(ranges)))
            return place_by_min_partitions(ranges, batch.executors, min_partitions)
        max_records = int(number or max(1, int(batch.records.sum()) // (4 * slots)))
        if number and (count := sum(-(-r.size // max_records) for r in ranges)) > MAX_TASKS:
            raise OptionError(
                f"{self.name}: batch {batch.number} would have {count:,} tasks, but at most "
                f"{MAX_TASKS:,} tasks are simulated: choose a larger number"
            )
        return place_by_max_records(ranges, max_records)

    def _plan_with_assignor(self, batch: SimulatedBatch) -> list[PlacedTask]:
        snapshot = build_batch(
            encode_names([tp.topic for tp in batch.partitions]),
            np.array([tp.number for tp in batch.partitions], np.int64),
            batch.start,
            batch.start + batch.records,
            batch.executors,
            options=parse_options({"assignor": self.name, **self.options}),
            reports=self.observed,
            parallelism=1,
            replicas=batch.replicas,
            partitions=batch.partition_counts,
        )
        outcome = plan_step(snapshot, self.state, self.find_assignor)
        self.state, self.reasons = outcome.state, outcome.reasons
        self.planned_imbalance = float(outcome.metrics["imbalance"])
        return list_tasks(outcome)

    def _summarize_batch(
        self,
        batch: SimulatedBatch,
        tasks: Sequence[PlacedTask],
        runs: Sequence[TaskRun],
        cost_by_partition: Mapping[Partition, float],
        start_by_partition: Mapping[Partition, int],
    ) -> PlayedBatch:
        """Compute the result of a batch, and store its read reports for the next plan."""
        busy_s = {e.id: 0.0 for e in batch.executors}
        first_reader: dict[Partition, str] = {}
        first_owner: dict[Partition, str] = {}
        end_reader: dict[Partition, tuple[int, str]] = {}  # end offset, executor
        end_owner: dict[Partition, tuple[int, str]] = {}
        readers = ((first_reader, end_reader), (first_owner, end_owner))
        reports: list[tuple[Partition, str, int, float, float]] = []
        record_bytes = batch.bytes_per_record
        if record_bytes is None:
            record_bytes = np.full(len(batch.records), 100.0)
        record_bytes_by_partition = dict(zip(batch.partitions, record_bytes.tolist(), strict=True))
        is_far, crossed_bytes = _make_cross_zone_test(batch), 0.0
        for run in runs:
            slowness = batch.slowness.get(run.executor, 1.0)
            is_head = not tasks[run.task].tail_executors
            for r in tasks[run.task].ranges:
                tp = r.tp
                spent_s = r.size * cost_by_partition[tp] * slowness
                busy_s[run.executor] += spent_s
                cold_s = self.get_cold_s(r, run.executor, start_by_partition)
                reports.append((tp, run.executor, r.size, spent_s + cold_s, cold_s))
                crossed_bytes += r.size * record_bytes_by_partition[tp] * is_far(tp, run.executor)
                for first, last in readers[: 1 + is_head]:
                    if r.start == start_by_partition[tp]:
                        first[tp] = run.executor
                    if r.end > last.get(tp, (-1, ""))[0]:
                        last[tp] = (r.end, run.executor)
        moves = _count_changes(self.owner_by_partition, first_owner, busy_s)
        cold_starts = _count_changes(self.last_reader_by_partition, first_reader, busy_s)
        self.owner_by_partition.update({tp: e for tp, (_, e) in end_owner.items()})
        self.last_reader_by_partition.update({tp: e for tp, (_, e) in end_reader.items()})
        size = np.array([r[2] for r in reports], np.float64)
        self.observed = ReadReports.of(
            encode_names([tp.topic for tp, *_ in reports]),
            np.array([tp.number for tp, *_ in reports], np.int64),
            encode_names([executor for _, executor, *_ in reports]),
            size,
            size * np.array([record_bytes_by_partition[r[0]] for r in reports], np.float64),
            np.array([r[3] for r in reports], np.float64),
            size,
            np.array([r[4] for r in reports], np.float64),
        )
        costs = np.array([*cost_by_partition.values()])
        work = float(batch.records @ costs)
        max_cost = float(costs[batch.records > 0].max(initial=0))
        min_slowness = min(batch.slowness.get(e.id, 1.0) for e in batch.executors)
        total_speed = sum(e.slots / batch.slowness.get(e.id, 1.0) for e in batch.executors)
        seconds = max((run.end_seconds for run in runs), default=0.0)
        total_bytes = float(np.dot(batch.records, record_bytes))
        bound_s = max(work / total_speed, max_cost * min_slowness)
        far_share = None if batch.replicas is None else crossed_bytes / (total_bytes or 1.0)
        counts, imbalance = (len(tasks), len(end_reader), moves), self.planned_imbalance
        return PlayedBatch(
            batch.number, seconds, bound_s, *counts, busy_s, far_share, imbalance, cold_starts
        )


def _count_changes(
    old: Mapping[Partition, str], new: Mapping[Partition, str], present_ids: Mapping[str, float]
) -> int:
    """Count the partitions that changed executor although the old one is present."""
    return sum(old.get(tp, e) != e and old[tp] in present_ids for tp, e in new.items())


def list_tasks(outcome: PlannedBatch) -> list[PlacedTask]:
    """Return the tasks of a plan as the scheduler sees them."""
    batch, pieces = outcome.batch, outcome.tasks.pieces
    ranges_by_task: list[list[OffsetRange]] = [[] for _ in range(len(outcome.tasks))]
    for task, topic, partition, start, end in zip(
        outcome.tasks.task.tolist(),
        batch.topic[pieces.row].tolist(),
        batch.partition[pieces.row].tolist(),
        pieces.start.tolist(),
        pieces.end.tolist(),
        strict=True,
    ):
        ranges_by_task[task].append(OffsetRange(batch.topics[topic], partition, start, end))
    ids = [executor.id for executor in batch.executors]
    executor, heads = batch.slot_executor[outcome.tasks.slot].tolist(), outcome.tasks.head_count
    head_tasks = [
        PlacedTask(ids[executor[task]], tuple(ranges))
        for task, ranges in enumerate(ranges_by_task[:heads])
    ]
    tails = zip(ranges_by_task[heads:], outcome.tasks.tail_executors, strict=True)
    tail_tasks = [
        PlacedTask(None, tuple(ranges), tuple(ids[each] for each in preferred))
        for ranges, preferred in tails
    ]
    return head_tasks + tail_tasks


def _make_cross_zone_test(batch: SimulatedBatch) -> Callable[[Partition, str], bool]:
    """Return a function that tests whether a read crosses zones; False if a rack is unknown."""
    if batch.replicas is None:
        return lambda _partition, _executor: False
    rack_sets = map(batch.replicas.racks.__getitem__, batch.replicas.code.tolist())
    racks = dict(zip(batch.partitions, rack_sets, strict=True))
    zone_of = {e.id: e.rack for e in batch.executors}
    return lambda tp, e: bool(racks[tp] and zone_of[e]) and zone_of[e] not in racks[tp]


def play(query: SimulatedQuery) -> list[PlayedBatch]:
    """Play the batches of the query's scenario."""
    return [query.play(batch) for batch in generate_batches(query.scenario)]


#: Number of first batches excluded from comparisons, while readers and costs are unknown.
WARM_UP_BATCHES = 3


def compare(
    scenario: Scenario,
    names: Sequence[str],
    find_assignor: Callable[[str], Assignor] = lookup,
    locality_wait_s: float = 3.0,
    options: Mapping[str, str] | None = None,
) -> list[MappingResult]:
    """Simulate each mapping with the planner's `options`; omit warm-up batches if others exist."""
    batch_lists = [
        play(SimulatedQuery(name, scenario, options or {}, find_assignor, locality_wait_s))
        for name in names
    ]
    return [
        MappingResult(name, batches[WARM_UP_BATCHES:] or batches)
        for name, batches in zip(names, batch_lists, strict=True)
    ]

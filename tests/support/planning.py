"""Snapshots and plans as objects for tests; `assignor plan` reads and prints them as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.registry import lookup
from assignor_bridge.model import Allocation, Executor, OffsetRange
from assignor_bridge.options import parse_options
from assignor_bridge.planner.batch import MicroBatch, ReadReports, build_batch, encode_names
from assignor_bridge.planner.plan import PlannedBatch, plan_batch
from assignor_bridge.planner.racks import Replicas
from streaming.human_json.snapshots import plan_to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from assignor_bridge.assignors.protocol import Assignor


@dataclass(frozen=True, slots=True, order=True)
class Observation:
    """The cost of reading one range; `offsets` is None if the reader did not report it."""

    topic: str
    partition: int
    executor: str
    records: int
    bytes: int
    seconds: float
    offsets: int | None = None
    cold_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The input of planning a micro-batch."""

    executors: tuple[Executor, ...]
    ranges: tuple[OffsetRange, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    observed: tuple[Observation, ...] = ()
    state: str | None = None
    parallelism: int = 1
    allocation: Allocation | None = None
    #: Racks of each range's replicas.
    racks: tuple[frozenset[str], ...] | None = None
    stream: int = 0
    partitions: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """The ranges of one Spark task; without an executor, it may run anywhere."""

    executor: str | None
    slot: int
    ranges: tuple[OffsetRange, ...]
    standbys: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return sum(r.size for r in self.ranges)


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks of a micro-batch, the state for the next one, and the reasons."""

    assignor: str
    tasks: tuple[Task, ...]
    state: str | None
    metrics: Mapping[str, str | int | float]
    reasons: tuple[str, ...] = ()


def to_batch(snapshot: Snapshot) -> MicroBatch:
    ranges, reports = snapshot.ranges, snapshot.observed
    measures = (
        np.array([getattr(report, name) for report in reports], np.float64)
        for name in ("records", "bytes", "seconds", "offsets", "cold_seconds")
    )
    return build_batch(
        encode_names([r.topic for r in ranges]),
        np.array([r.partition for r in ranges], np.int64),
        np.array([r.start for r in ranges], np.int64),
        np.array([r.end for r in ranges], np.int64),
        snapshot.executors,
        options=parse_options(snapshot.options),
        reports=ReadReports.of(
            encode_names([o.topic for o in reports]),
            np.array([o.partition for o in reports], np.int64),
            encode_names([o.executor for o in reports]),
            *measures,
        ),
        parallelism=snapshot.parallelism,
        allocation=snapshot.allocation,
        replicas=(
            None if snapshot.racks is None else Replicas.of(snapshot.racks, np.arange(len(ranges)))
        ),
        stream=snapshot.stream,
        partitions=snapshot.partitions,
    )


def plan(
    snapshot: Snapshot, find: Callable[[str], Assignor] = lookup, backlog: float = 1.0
) -> Plan:
    batch = replace(to_batch(snapshot), backlog_ratio=backlog)
    return to_plan(plan_batch(batch, snapshot.state, find))


def to_plan(outcome: PlannedBatch) -> Plan:
    answer = plan_to_json(outcome)
    tasks = tuple(
        Task(
            task["executor"],
            task["slot"],
            tuple(OffsetRange(**r) for r in task["ranges"]),
            tuple(task.get("standbys", ())),
        )
        for task in answer["tasks"]
    )
    return Plan(answer["assignor"], tasks, answer["state"], outcome.metrics, outcome.reasons)

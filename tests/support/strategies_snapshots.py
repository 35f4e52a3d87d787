"""Hypothesis strategies for snapshots, and helpers that summarize plans."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from assignor_bridge.model import Allocation, Executor, OffsetRange
from tests.support.planning import Observation, Snapshot

if TYPE_CHECKING:
    from tests.support.planning import Plan

HIGHEST = 2**63 - 1

topics = st.one_of(
    st.sampled_from(["orders", "payments", "t"]),
    st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=8),
)


@st.composite
def ranges(draw: st.DrawFn, max_ranges: int = 25) -> tuple[OffsetRange, ...]:
    """Draw ranges of distinct partitions: empty, small, huge, and up to the highest offset."""
    partitions = draw(
        st.lists(
            st.tuples(topics, st.integers(0, 2**31 - 1) | st.integers(0, 9)),
            unique=True,
            max_size=max_ranges,
        )
    )
    drawn = []
    for topic, partition in partitions:
        size = draw(
            st.sampled_from([0, 1, 2])
            | st.integers(0, 2000)
            | st.integers(0, 10**6)
            | st.just(HIGHEST)
        )
        start = draw(st.sampled_from([0, HIGHEST - size]) | st.integers(0, HIGHEST - size))
        drawn.append(OffsetRange(topic, partition, start, start + size))
    return tuple(drawn)


@st.composite
def executors(draw: st.DrawFn, max_executors: int = 6) -> tuple[Executor, ...]:
    """Draw executors with 1 to 16 slots on three hosts, or none."""
    ids = draw(st.lists(st.integers(0, 30).map(str), unique=True, max_size=max_executors))
    return tuple(
        Executor(
            i,
            draw(st.sampled_from(["h1", "h2", "h3"])),
            draw(st.integers(1, 16)),
            priority=draw(st.none() | st.integers(-2, 2)),
        )
        for i in ids
    )


@st.composite
def options(draw: st.DrawFn) -> dict[str, str]:
    chosen: dict[str, str] = {}
    if draw(st.booleans()):
        chosen["assignor.split"] = draw(st.sampled_from(["true", "false"]))
    if draw(st.booleans()):
        chosen["assignor.maxImbalance"] = draw(st.sampled_from(["0", "0.05", "0.5"]))
    if draw(st.integers(0, 3)) == 0:
        chosen["assignor.minRecordsPerTask"] = str(draw(st.integers(1, 500)))
    if draw(st.integers(0, 3)) == 0:
        chosen["assignor.tasksPerSlot"] = str(draw(st.integers(1, 4)))
    if draw(st.integers(0, 3)) == 0:
        chosen["minPartitions"] = str(draw(st.integers(1, 60)))
    return chosen


@st.composite
def observations(draw: st.DrawFn, seen: tuple[OffsetRange, ...]) -> tuple[Observation, ...]:
    """Draw reports, some of them absurd: no records, no seconds, or unknown executors."""
    return tuple(
        Observation(
            r.topic,
            r.partition + draw(st.integers(0, 1)),
            draw(st.sampled_from(["0", "1", "nobody"])),
            draw(st.integers(0, 10**9)),
            draw(st.integers(0, 10**12)),
            draw(st.floats(0, 1e6) | st.just(0.0)),
            draw(st.none() | st.integers(0, 10**9)),
            draw(st.floats(-1, 1e6) | st.sampled_from([0.0, float("nan")])),
        )
        for r in draw(st.lists(st.sampled_from(seen), max_size=10) if seen else st.just([]))
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    drawn_ranges = draw(ranges())
    return Snapshot(
        draw(executors()),
        drawn_ranges,
        draw(options()),
        draw(observations(drawn_ranges)),
        parallelism=draw(st.integers(1, 9)),
        allocation=draw(st.none() | allocations()),
    )


@st.composite
def allocations(draw: st.DrawFn) -> Allocation:
    """Draw the limits of a dynamic allocation and its interval of planning."""
    min_executors = draw(st.integers(0, 4))
    return Allocation(
        min_executors,
        draw(st.integers(max(1, min_executors), 9) | st.just(2**31 - 1)),
        draw(st.integers(1, 4)),
        draw(st.none() | st.floats(0, 100)),
    )


def list_offsets_read(plan: Plan) -> dict[tuple[str, int], list[tuple[int, int]]]:
    read: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for task in plan.tasks:
        for r in task.ranges:
            read[r.topic, r.partition].append((r.start, r.end))
    return {tp: sorted(pieces) for tp, pieces in read.items()}


def sum_loads(
    plan: Plan, weight: dict[tuple[str, int], float] | None = None
) -> dict[object, float]:
    """Return the work of each slot: its offsets, multiplied by `weight` if given."""
    work: dict[object, float] = defaultdict(float)
    for task in plan.tasks:
        for r in task.ranges:
            work[task.executor, task.slot] += r.size * (
                1.0 if weight is None else weight[r.topic, r.partition]
            )
    return work


def find_head_and_tail(plan: Plan) -> dict[tuple[str, int], tuple[str | None, str | None]]:
    pieces: dict[tuple[str, int], list[tuple[int, str | None]]] = defaultdict(list)
    for task in plan.tasks:
        for r in task.ranges:
            pieces[r.topic, r.partition].append((r.start, task.executor))
    return {tp: (min(p)[1], max(p)[1]) for tp, p in pieces.items()}


def generate_lags(shape: str, partitions: int, total: int, seed: int = 1) -> list[int]:
    """Return lags with a shape: zipf-1.2, lognormal, one-hot, or uniform."""
    rng = np.random.default_rng(seed)
    if shape.startswith("zipf"):
        raw = 1 / np.arange(1, partitions + 1) ** float(shape.partition("-")[2])
    elif shape == "lognormal":
        raw = rng.lognormal(0, 1.5, partitions)
    elif shape == "one-hot":
        raw = np.full(partitions, 0.01 / partitions)
        raw[0] = 0.99
    else:
        raw = np.ones(partitions)
    rng.shuffle(raw)
    return [int(size) for size in raw / raw.sum() * total]

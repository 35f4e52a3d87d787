"""Simulate batches in a closed loop: the planner plans, and the times of reading are reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from assignor_bridge.model import Executor
from assignor_bridge.options import parse_options
from assignor_bridge.planner.batch import ReadReports, build_batch
from assignor_bridge.planner.plan import PlannedBatch, plan_step
from checkpoints.state_text import decode, encode
from checkpoints.sticky_state import StickyState


@dataclass
class Loop:
    """A topic that is read batch by batch."""

    executors: tuple[Executor, ...]
    #: True seconds per range and per record.
    fixed: float = 0.0
    cost: float = 5e-5
    #: Factor of the cost of each partition's records, by partition number.
    costly: Mapping[int, float] = field(default_factory=dict)
    #: Factor of the slowness of executors, by id.
    slow: Mapping[str, float] = field(default_factory=dict)
    #: Relative noise of the reports; the results in `Step` have no noise.
    noise: float = 0.2
    seed: int = 1
    state: StickyState = field(default_factory=StickyState.empty)
    observed: ReadReports = field(default_factory=ReadReports.empty)

    def __post_init__(self) -> None:
        self.dice = np.random.default_rng(self.seed)
        self.ends: dict[int, int] = {}

    def step(self, records: Sequence[int] | NDArray[np.int64]) -> Step:
        """Plan and read a batch with this number of records per partition."""
        numbers = np.flatnonzero(records)
        count = np.asarray(records, np.int64)[numbers]
        start = np.array([self.ends.get(p, 0) for p in numbers.tolist()], np.int64)
        topic = (("t",), np.zeros(len(numbers), np.int64))
        options = {"assignor": "lag-aware-sticky"}
        batch = build_batch(
            topic, numbers, start, start + count, self.executors, options=parse_options(options),
            reports=self.observed, parallelism=1,
        )  # fmt: skip
        outcome = plan_step(batch, decode(encode(self.state)))
        self.state, pieces = outcome.state, outcome.tasks.pieces
        self.ends.update(zip(numbers.tolist(), (start + count).tolist(), strict=True))
        names = tuple(e.id for e in batch.executors)
        number, size = batch.partition[pieces.row], pieces.end - pieces.start
        executor = batch.slot_executor[pieces.slot]
        cost = self.cost * np.array([self.costly.get(p, 1.0) for p in number.tolist()])
        slowness = np.array([self.slow.get(name, 1.0) for name in names])
        seconds = (self.fixed + size * cost) * slowness[executor]
        reported = seconds * np.exp(self.dice.normal(0, self.noise, len(seconds)))
        self.observed = ReadReports.of(
            (("t",), np.zeros(len(number), np.int64)), number, (names, executor),
            size.astype(float), 100.0 * size, reported, size.astype(float),
        )  # fmt: skip
        busy = np.bincount(pieces.slot, seconds, batch.slots)
        whole = self.cost * np.array([self.costly.get(p, 1.0) for p in numbers.tolist()])
        ideal = float(
            (self.fixed + count * whole).sum() / (1 / slowness[batch.slot_executor]).sum()
        )
        first = pieces.start == batch.start[pieces.row]
        head_pieces = int(np.count_nonzero(outcome.tasks.task < outcome.tasks.head_count))
        readers = {p: names[e] for p, e in zip(number[first], executor[first], strict=True)}
        return Step(
            outcome, head_pieces, float(busy.max() / busy.mean()), busy.max() / ideal, readers
        )


@dataclass(frozen=True)
class Step:
    made: PlannedBatch
    #: Number of pieces that the slots' own tasks read; free slots take the others.
    head_pieces: int
    #: True seconds of the busiest slot over the mean of all slots, and over the ideal.
    over_mean: float
    over_ideal: float
    #: Executor that read the first record of each partition.
    readers: Mapping[int, str]


def make_executors(count: int) -> tuple[Executor, ...]:
    return tuple(Executor(str(i), f"h{i}", 1) for i in range(count))


def draw_zipf_counts(partitions: int, total: int, dice: np.random.Generator) -> NDArray[np.int64]:
    """Return record counts of a Zipf distribution with some noise."""
    share = 1 / np.arange(1, partitions + 1) ** 1.2
    noise = np.exp(dice.normal(0, 0.1, partitions))
    return np.maximum(1, share / share.sum() * total * noise).astype(np.int64)

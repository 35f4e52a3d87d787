"""A scenario: how records arrive, what they cost, and which executors are there, batch by batch.

Everything comes from the seed, so that mappings are compared on the same batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from assignor_bridge.errors import OptionError
from assignor_bridge.model import MOST_OFFSET, Executor, Partition
from assignor_bridge.planner.racks import Replicas

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

Lags = Literal["uniform", "zipf", "lognormal", "one-hot", "rotating"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens, in plain numbers."""

    partitions: int = 64
    executors: int = 8
    #: Task slots of each executor; with several, executors take them in turn.
    slots: tuple[int, ...] = (1,)
    batches: int = 50
    #: Records that arrive per batch, over all partitions.
    records: int = 160_000
    lags: Lags = "zipf"
    #: Exponent of `zipf`, or sigma of `lognormal`.
    skew: float = 1.2
    #: Relative noise of each partition's records per batch.
    noise: float = 0.1
    #: Seconds a record.
    cost: float = 0.0005
    #: How many times as much the most expensive partitions cost as the cheapest.
    cost_skew: float = 1.0
    #: How many times slower single executors are, by number.
    slow: Mapping[int, float] = field(default_factory=dict)
    #: Noise of service times that nobody can predict.
    service_noise: float = 0.05
    #: An executor is lost every N batches, and comes back N/2 batches later (one at least); 0 for
    #: never. A single one stays.
    churn_every: int = 0
    #: Seconds that each task costs in addition to its records.
    task_seconds: float = 0.004
    #: Seconds that a piece costs whose records another executor's consumer was positioned at.
    cold_seconds: float = 0.02
    #: Zones that executors and partitions are in, in turn; 0 for none. And those of a partition
    #: that have a replica which is read.
    zones: int = 0
    replication: int = 1
    seed: int = 1

    @property
    def topology(self) -> tuple[Executor, ...]:
        """All executors there can be."""
        return tuple(
            Executor(
                str(i),
                f"host-{i:03}",
                self.slots[i % len(self.slots)],
                rack=f"zone-{i % self.zones}" if self.zones else None,
            )
            for i in range(self.executors)
        )

    @property
    def replicas(self) -> Replicas | None:
        """Zones that hold each partition."""
        if not self.zones:
            return None
        first, copies = np.arange(self.partitions) % self.zones, min(self.replication, self.zones)
        sets = [[f"zone-{(z + i) % self.zones}" for i in range(copies)] for z in range(self.zones)]
        return Replicas.of(sets, first)


@dataclass(frozen=True, eq=False)
class SimulatedBatch:
    """One batch: what is to be read, by whom, and what it will really cost."""

    number: int
    executors: tuple[Executor, ...]
    #: Each partition; the columns below have a cell for each.
    partitions: Sequence[Partition]
    #: First offset, number of records and seconds a record, by partition.
    start: NDArray[np.int64]
    records: NDArray[np.int64]
    cost: NDArray[np.float64]
    #: How many times slower than usual each executor is, by id.
    slowness: Mapping[str, float]
    replicas: Replicas | None = None
    #: Bytes of a record, by partition; alike where None.
    bytes: NDArray[np.float64] | None = None
    #: One more than the highest partition of each topic that is read; None: unknown.
    live: Mapping[str, int] | None = None


def steps(scenario: Scenario) -> Iterator[SimulatedBatch]:
    """Play the arrivals of a scenario; raises OptionError where they are more than Kafka counts."""
    rng = np.random.default_rng(scenario.seed)
    rates = _rates(scenario, rng)
    cost = scenario.cost * np.exp(
        np.log(scenario.cost_skew) * rng.permutation(np.linspace(0, 1, scenario.partitions))
    )
    start = np.zeros(scenario.partitions, np.int64)
    partitions = tuple(Partition("events", number) for number in range(scenario.partitions))
    everybody = scenario.topology
    slowness = {everybody[i].id: factor for i, factor in sorted(scenario.slow.items())}
    replicas = scenario.replicas
    for number in range(scenario.batches):
        if scenario.lags == "rotating":
            rates = _rotating(scenario, rng)
        noise = np.exp(rng.normal(0, scenario.noise, scenario.partitions))
        records = np.floor(rates * noise * scenario.records + rng.random(scenario.partitions))
        if (start + records).sum() >= MOST_OFFSET:
            raise OptionError(
                f"batch {number} ends beyond {MOST_OFFSET:,} records in all partitions: fewer "
                "records or batches, or less noise, are expected"
            )
        yield SimulatedBatch(
            number,
            _present(scenario, everybody, number),
            partitions,
            start,
            records.astype(np.int64),
            cost,
            slowness,
            replicas,
        )
        start = start + records.astype(np.int64)


def _rates(scenario: Scenario, rng: np.random.Generator) -> NDArray[np.float64]:
    """Share of the records of each partition, in a random order."""
    count = scenario.partitions
    if scenario.lags == "rotating":
        return _rotating(scenario, rng)
    raw = np.ones(count)
    if scenario.lags == "zipf":
        raw = 1 / np.arange(1, count + 1) ** scenario.skew
    elif scenario.lags == "lognormal":
        raw = rng.lognormal(0, scenario.skew, count)
    elif scenario.lags == "one-hot":
        raw = np.full(count, 0.2 / max(1, count - 1))
        raw[0] = 0.8
    rng.shuffle(raw)
    return np.asarray(raw / raw.sum())


def _rotating(scenario: Scenario, rng: np.random.Generator) -> NDArray[np.float64]:
    """One partition in twenty, others each batch, has half of the records."""
    count = scenario.partitions
    raw = np.full(count, 0.5 / count)
    hot = rng.choice(count, max(1, count // 20), replace=False)
    raw[hot] += 0.5 / len(hot)
    return np.asarray(raw / raw.sum())


def _present(
    scenario: Scenario, everybody: tuple[Executor, ...], number: int
) -> tuple[Executor, ...]:
    every = scenario.churn_every
    if not every or len(everybody) < 2:
        return everybody
    cycle, phase = divmod(number, every)
    if cycle == 0 or phase >= max(1, every // 2):
        return everybody
    lost = cycle % len(everybody)
    return everybody[:lost] + everybody[lost + 1 :]

"""Generate the batches of a scenario from its seed: arriving records, costs, and executors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from assignor_bridge.errors import OptionError
from assignor_bridge.model import MAX_OFFSET, Executor, Partition
from assignor_bridge.planner.racks import Replicas

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

Lags = Literal["uniform", "zipf", "lognormal", "one-hot", "rotating"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """The parameters of a simulated query."""

    partitions: int = 64
    executors: int = 8
    #: Task slots per executor; several values are used alternately.
    slots: tuple[int, ...] = (1,)
    batches: int = 50
    #: Records that arrive per batch in all partitions.
    records: int = 160_000
    lags: Lags = "zipf"
    #: Exponent of `zipf`, or sigma of `lognormal`.
    skew: float = 1.2
    #: Relative noise of each partition's records per batch.
    noise: float = 0.1
    #: Seconds per record of the cheapest partition.
    cost: float = 0.0005
    #: Cost of the most expensive partition divided by that of the cheapest.
    cost_skew: float = 1.0
    #: Slowness of individual executors; 1 is usual.
    slowness_by_index: Mapping[int, float] = field(default_factory=dict)
    #: Relative noise of service times, which planners cannot predict.
    service_noise: float = 0.05
    #: An executor is lost every N batches and returns N/2 (at least one) batches later; 0 for
    #: never. A single executor is never lost.
    churn_every: int = 0
    #: Seconds per task, in addition to its records.
    task_seconds: float = 0.004
    #: Extra seconds per piece if the executor's consumer is not positioned at its start.
    cold_seconds: float = 0.02
    #: Number of zones, to which executors and partitions are assigned alternately; 0 for none.
    zones: int = 0
    #: Number of each partition's replicas, which are in different zones; at most `zones`.
    replication: int = 1
    seed: int = 1

    @property
    def topology(self) -> tuple[Executor, ...]:
        """All executors, including executors that are lost in some batches."""
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
        """Each partition's replica zones; None without zones."""
        if not self.zones:
            return None
        first_zone, zones = np.arange(self.partitions) % self.zones, range(self.zones)
        replica_indices = range(min(self.replication, self.zones))
        rack_lists = [[f"zone-{(z + i) % self.zones}" for i in replica_indices] for z in zones]
        return Replicas.of(rack_lists, first_zone)


@dataclass(frozen=True, eq=False)
class SimulatedBatch:
    """One batch with its ranges, its executors, and its actual costs."""

    number: int
    executors: tuple[Executor, ...]
    #: The partitions; the arrays below have one element per partition.
    partitions: Sequence[Partition]
    start: NDArray[np.int64]
    records: NDArray[np.int64]
    #: Seconds per record.
    cost: NDArray[np.float64]
    #: Slowness relative to a usual executor, by ID.
    slowness: Mapping[str, float]
    replicas: Replicas | None = None
    #: None if it is equal for all partitions.
    bytes_per_record: NDArray[np.float64] | None = None
    #: Highest partition number plus one, by topic; None if unknown.
    partition_counts: Mapping[str, int] | None = None


def generate_batches(scenario: Scenario) -> Iterator[SimulatedBatch]:
    """Yield a scenario's batches; raise OptionError if it has MAX_OFFSET records or more."""
    rng = np.random.default_rng(scenario.seed)
    shares = _draw_shares(scenario, rng)
    cost = scenario.cost * np.exp(
        np.log(scenario.cost_skew) * rng.permutation(np.linspace(0, 1, scenario.partitions))
    )
    start = np.zeros(scenario.partitions, np.int64)
    partitions = tuple(Partition("events", number) for number in range(scenario.partitions))
    topology = scenario.topology
    slowness = {topology[i].id: factor for i, factor in sorted(scenario.slowness_by_index.items())}
    replicas = scenario.replicas
    for number in range(scenario.batches):
        if scenario.lags == "rotating":
            shares = _draw_rotating_shares(scenario, rng)
        noise = np.exp(rng.normal(0, scenario.noise, scenario.partitions))
        records = np.floor(shares * noise * scenario.records + rng.random(scenario.partitions))
        if (start + records).sum() >= MAX_OFFSET:
            raise OptionError(
                f"the scenario has more than {MAX_OFFSET:,} records by batch {number}: choose "
                "fewer records or batches, or less noise"
            )
        yield SimulatedBatch(
            number,
            _list_executors(scenario, topology, number),
            partitions,
            start,
            records.astype(np.int64),
            cost,
            slowness,
            replicas,
        )
        start = start + records.astype(np.int64)


def _draw_shares(scenario: Scenario, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return each partition's share of the records, in random order."""
    count = scenario.partitions
    if scenario.lags == "rotating":
        return _draw_rotating_shares(scenario, rng)
    weights = np.ones(count)
    if scenario.lags == "zipf":
        weights = 1 / np.arange(1, count + 1) ** scenario.skew
    elif scenario.lags == "lognormal":
        weights = rng.lognormal(0, scenario.skew, count)
    elif scenario.lags == "one-hot":
        weights = np.full(count, 0.2 / max(1, count - 1))
        weights[0] = 0.8
    rng.shuffle(weights)
    return np.asarray(weights / weights.sum())


def _draw_rotating_shares(scenario: Scenario, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return shares: half for a random 5% of the partitions (at least one), half for all."""
    count = scenario.partitions
    weights = np.full(count, 0.5 / count)
    hot_partitions = rng.choice(count, max(1, count // 20), replace=False)
    weights[hot_partitions] += 0.5 / len(hot_partitions)
    return np.asarray(weights / weights.sum())


def _list_executors(
    scenario: Scenario, topology: tuple[Executor, ...], batch_number: int
) -> tuple[Executor, ...]:
    interval = scenario.churn_every
    if not interval or len(topology) < 2:
        return topology
    cycle, phase = divmod(batch_number, interval)
    if cycle == 0 or phase >= max(1, interval // 2):
        return topology
    lost_index = cycle % len(topology)
    return topology[:lost_index] + topology[lost_index + 1 :]

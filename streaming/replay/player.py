"""Replay the offset log of a query with assignors and with Spark's own mappings.

The log has the ranges of each batch. Each assignor and each of Spark's three mappings plans them on
the same executors, and a model of Spark's delay scheduling computes when the last task ends.
Nothing is read from Kafka, and Spark is not started.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.registry import lookup
from assignor_bridge.errors import AssignorError
from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.replay.replayed import DEFAULT_NAMES, ITSELF, Replay
from streaming.replay.traffic import PRICE_PER_GB
from streaming.simulator.play import SimulatedQuery, is_spark_mapping
from streaming.simulator.results import MappingResult
from streaming.simulator.scenario import Scenario, SimulatedBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from assignor_bridge.assignors.protocol import Assignor
    from streaming.replay.cluster import Cluster
    from streaming.replay.log import ReplayBatch
    from streaming.replay.racks_input import RackMap
    from streaming.replay.traffic import Traffic
    from streaming.simulator.mappings import PlacedTask

#: Only records have a cost, because the log has no costs for tasks and cold consumers. Their cost
#: has no noise unless the planner's state has an `unpredictability`.
RECORDS_ONLY = Scenario(service_noise=0, task_seconds=0, cold_seconds=0)


def replay(
    title: str,
    batches: Iterable[ReplayBatch],
    cluster: Cluster,
    names: Sequence[str] = DEFAULT_NAMES,
    *,
    options: Mapping[str, str] | None = None,
    find_assignor: Callable[[str], Assignor] = lookup,
    racks: RackMap | None = None,
    traffic: Traffic | None = None,
    logged_tasks: Mapping[int, Sequence[PlacedTask]] | None = None,
) -> Replay:
    """Replay the batches with data through each mapping or assignor.

    If a mapping fails (an assignor refuses, or an option is missing), its result has the error, and
    the others are still replayed. `options` are those of the planner. `racks` requires `traffic`.
    `logged_tasks` has the query's own tasks by batch number; batches without an entry are omitted.
    """
    replay_batches = [
        b for b in batches if b.offset_count and (logged_tasks is None or b.batch in logged_tasks)
    ]
    simulated_batches = [_convert_batch(b, cluster, racks, traffic) for b in replay_batches]
    leader_batches = simulated_batches
    scenario = dataclasses.replace(RECORDS_ONLY, service_noise=cluster.unpredictability)
    if racks is not None:
        leader_batches = [
            _convert_batch(b, cluster, racks, traffic, leaders_only=True) for b in replay_batches
        ]

    def play_one(name: str, **numbers: float) -> MappingResult:
        number_options = {f"assignor.{key}": str(number) for key, number in numbers.items()}
        all_options = {**(options or {}), **number_options}
        query = SimulatedQuery(name, scenario, all_options, find_assignor, cluster.locality_wait_s)
        return _play(query, leader_batches if is_spark_mapping(name) else simulated_batches)

    own_results = []
    if logged_tasks is not None:
        query = LoggedQuery(ITSELF, scenario, logged_tasks=logged_tasks)
        query.locality_wait_s = cluster.locality_wait_s
        own_results.append(_play(query, simulated_batches))
    if traffic is None:
        return Replay(title, cluster, replay_batches, [*own_results, *map(play_one, names)])
    # With a price of 0, only shares are reported; assignors must still respect zones.
    price = traffic.price_per_gb or PRICE_PER_GB
    results = [*own_results, *(play_one(name, zonePricePerGb=price) for name in names)]
    has_assignor = LAG_AWARE_STICKY in names
    without_zones = play_one(LAG_AWARE_STICKY, zonePricePerGb=0) if has_assignor else None
    return Replay(title, cluster, replay_batches, results, racks, traffic, without_zones)


@dataclass
class LoggedQuery(SimulatedQuery):
    """Replays the tasks that the query itself planned."""

    logged_tasks: Mapping[int, Sequence[PlacedTask]] = field(default_factory=dict)

    def plan(self, batch: SimulatedBatch) -> list[PlacedTask]:
        """Return the logged tasks of a batch."""
        return [*self.logged_tasks[batch.number]]


def _play(query: SimulatedQuery, batches: Sequence[SimulatedBatch]) -> MappingResult:
    results, reasons = [], []
    try:
        for batch in batches:
            results.append(query.play(batch))
            reasons.append(query.reasons)
    except AssignorError as error:
        return MappingResult(query.name, error=str(error))
    return MappingResult(query.name, results, reasons)


def _convert_batch(
    batch: ReplayBatch,
    cluster: Cluster,
    racks: RackMap | None,
    traffic: Traffic | None,
    *,
    leaders_only: bool = False,
) -> SimulatedBatch:
    ranges = [r for r in batch.ranges if r.size > 0]
    partitions = [r.tp for r in ranges]
    return SimulatedBatch(
        batch.batch,
        cluster.get_executors(batch.batch),
        partitions,
        np.array([r.start for r in ranges], np.int64),
        np.array([r.size for r in ranges], np.int64),
        np.array([cluster.unusual_costs.get(tp, cluster.cost_s) for tp in partitions]),
        cluster.slowness,
        None if racks is None else racks.get_replicas(partitions, leaders_only=leaders_only),
        None if traffic is None else traffic.list_offset_bytes(partitions),
        batch.partition_counts,
    )

"""What an assignor would have done for a query that ran without one: its offset log, played again.

The log says which offsets each batch read. Each batch's ranges go through the planner and through
Spark's three mappings on the same executors, and Spark's delay scheduling says when the last task
would have ended. Nothing is read from Kafka and nothing is started.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.registry import lookup
from assignor_bridge.errors import AssignorError
from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.replay.replayed import EVERYTHING, ITSELF, Replay
from streaming.replay.traffic import PRICE_PER_GB
from streaming.simulator.play import MappingResult, SimulatedQuery, is_sparks
from streaming.simulator.scenario import Scenario, SimulatedBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from assignor_bridge.assignors.protocol import Assignor
    from streaming.replay.cluster import Cluster
    from streaming.replay.log import ReplayBatch
    from streaming.replay.racks import RackMap
    from streaming.replay.traffic import Traffic
    from streaming.simulator.mappings import PlacedTask

#: Only records count: what tasks and cold consumers cost in addition is not in the log.
PLAIN = Scenario(service_noise=0, task_seconds=0, cold_seconds=0)


def replay(
    title: str,
    batches: Iterable[ReplayBatch],
    cluster: Cluster,
    names: Sequence[str] = EVERYTHING,
    *,
    options: Mapping[str, str] | None = None,
    find: Callable[[str], Assignor] = lookup,
    racks: RackMap | None = None,
    traffic: Traffic | None = None,
    logged: Mapping[int, Sequence[PlacedTask]] | None = None,
) -> Replay:
    """Play the batches that read something through each mapping or assignor.

    An assignor that refuses (its preconditions do not hold, its option is missing) is reported
    with its reason; the others are played all the same. With `racks`, `traffic` is expected, too.
    `logged` are the tasks that the query itself had, by batch: batches without are left out.
    """
    full = [b for b in batches if b.records and (logged is None or b.batch in logged)]
    steps = [_step(batch, cluster, racks, traffic) for batch in full]
    of_spark = steps
    if racks is not None:
        of_spark = [_step(batch, cluster, racks, traffic, leaders=True) for batch in full]

    def played(name: str, **more: float) -> MappingResult:
        given = {**(options or {}), **{f"assignor.{key}": str(n) for key, n in more.items()}}
        player = SimulatedQuery(name, PLAIN, given, find, cluster.locality_wait_s)
        return _play(player, of_spark if is_sparks(name) else steps)

    itself = []
    if logged is not None:
        then = AsLogged(ITSELF, PLAIN, locality_wait=cluster.locality_wait_s, logged=logged)
        itself = [_play(then, steps)]
    if traffic is None:
        return Replay(title, cluster, full, [*itself, *(played(name) for name in names)])
    price = traffic.price_per_gb
    # Where only shares are asked for, at no price, zones count all the same.
    mappings = [played(name, zonePricePerGb=price or PRICE_PER_GB) for name in names]
    without = played(LAG_AWARE_STICKY, zonePricePerGb=0) if LAG_AWARE_STICKY in names else None
    return Replay(title, cluster, full, [*itself, *mappings], racks, traffic, without)


@dataclass
class AsLogged(SimulatedQuery):
    """Has tasks that are given, by batch: those that the query itself had."""

    logged: Mapping[int, Sequence[PlacedTask]] = field(default_factory=dict)

    def plan(self, step: SimulatedBatch) -> list[PlacedTask]:
        """Return them."""
        return [*self.logged[step.number]]


def _play(player: SimulatedQuery, steps: Sequence[SimulatedBatch]) -> MappingResult:
    played, reasons = [], []
    try:
        for step in steps:
            played.append(player.play(step))
            reasons.append(player.reasons)
    except AssignorError as error:
        return MappingResult(player.name, error=str(error))
    return MappingResult(player.name, played, reasons)


def _step(
    batch: ReplayBatch,
    cluster: Cluster,
    racks: RackMap | None,
    traffic: Traffic | None,
    *,
    leaders: bool = False,
) -> SimulatedBatch:
    ranges = [r for r in batch.ranges if r.size > 0]
    partitions = [r.tp for r in ranges]
    return SimulatedBatch(
        batch.batch,
        cluster.executors_of(batch.batch),
        partitions,
        np.array([r.start for r in ranges], np.int64),
        np.array([r.size for r in ranges], np.int64),
        np.array([cluster.unusual.get(tp, cluster.cost_s) for tp in partitions]),
        cluster.slowness,
        None if racks is None else racks.replicas(partitions, leaders=leaders),
        None if traffic is None else traffic.bytes_of(partitions),
        batch.partitions,
    )

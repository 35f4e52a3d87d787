"""Choose the executors on which a checkpoint is replayed, and the cost of a record."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Executor
from assignor_bridge.planner.unpredictability import compute_unpredictability
from streaming.replay.log import read_costs, read_executors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assignor_bridge.model import Partition
    from streaming.replay.log import CheckpointLog, ReplayBatch
    from streaming.replay.racks_input import RackMap

_DEFAULT_EXECUTORS = 4
#: Texts that describe where executors and costs come from.
FROM_STATE = "from the checkpoint's state of the last batch"
FROM_PLAN_LOG = "from the plan log"
FROM_PLANNER = "as learned by the planner up to the last batch"
#: Matches a host's number of slots, from 1 to 9,999.
_SLOT_COUNT = re.compile(r"0*[1-9][0-9]{0,3}")


@dataclass(frozen=True, slots=True)
class Cluster:
    """The executors and costs of a replay; the offset log has neither."""

    executors: tuple[Executor, ...]
    #: Seconds to read and process a usual record.
    cost_s: float = 0.0001
    #: Seconds per record of each partition that differs. The planner had learned these costs by the
    #: last batch, so they are hindsight for all earlier batches.
    unusual_costs: Mapping[Partition, float] = field(default_factory=dict)
    #: Slowness by executor ID, where 1 is a usual executor; hindsight like `unusual_costs`.
    slowness: Mapping[str, float] = field(default_factory=dict)
    #: Relative noise of each partition's time that no plan can predict; 0 if unknown.
    unpredictability: float = 0.0
    #: Seconds that a task waits for its executor (`spark.locality.wait`).
    locality_wait_s: float = 3.0
    #: Texts that describe where `executors` and `cost` come from.
    origins: Mapping[str, str] = field(default_factory=dict)
    #: Executors by batch number, from a plan log; `executors` equals the last batch's entry.
    by_batch: Mapping[int, tuple[Executor, ...]] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        """Number of task slots of all executors."""
        return sum(executor.slots for executor in self.executors)

    def get_executors(self, batch: int) -> tuple[Executor, ...]:
        """Return the executors on which a batch is replayed."""
        return self.by_batch.get(batch, self.executors)


def choose_cluster(
    log: CheckpointLog,
    source: str,
    batches: Sequence[ReplayBatch],
    *,
    executors: int | None = None,
    slots: int | None = None,
    hosts: str | None = None,
    cost_us: float | None = None,
    locality_wait_s: float = 3.0,
    racks: RackMap | None = None,
    logged_executors: Mapping[int, tuple[Executor, ...]] | None = None,
) -> Cluster:
    """Return the cluster: from the plan log, the options, the state, `racks`, or assumptions.

    `logged_executors` is by batch number, in batch order. Raises OptionError for invalid `hosts`.
    """
    by_batch = dict(logged_executors or {})
    if by_batch:
        members, origin = tuple(by_batch.values())[-1], FROM_PLAN_LOG
    else:
        members, origin = _choose_executors(log, source, executors, slots, hosts=hosts, racks=racks)
    all_executors = list(
        dict.fromkeys([*members, *(e for each in by_batch.values() for e in each)])
    )
    if racks is not None:
        with_rack = dict(zip(all_executors, racks.add_racks_to(all_executors), strict=True))
        members = tuple(with_rack[e] for e in members)
        by_batch = {number: tuple(with_rack[e] for e in each) for number, each in by_batch.items()}
    state = log.checkpoint.states.get(source)
    costs = read_costs(state) if cost_us is None else None
    if cost_us is not None:
        cost_s, cost_origin = cost_us / 1e6, "as given"
    elif costs is not None:
        cost_s, cost_origin = costs.record, FROM_PLANNER
    elif (bound_s := _bound_cost(log, batches, Cluster(members, by_batch=by_batch))) is not None:
        cost_s, cost_origin = bound_s, "at most, from batch durations"
    else:
        cost_s, cost_origin = Cluster(()).cost_s, "assumed; set it with --cost-us"
    unusual_costs = costs.unusual_costs if costs else {}
    replayed_ids = (
        {e.id for e in all_executors} if origin in (FROM_STATE, FROM_PLAN_LOG) else set[str]()
    )
    slowness = (
        {name: f for name, f in costs.slowness.items() if name in replayed_ids} if costs else {}
    )
    origins = {"executors": origin, "cost": cost_origin}
    noise = compute_unpredictability(state.spreads) if state is not None else None
    settings = (noise or 0.0, locality_wait_s, origins, by_batch)
    return Cluster(members, cost_s, unusual_costs, slowness, *settings)


def _choose_executors(
    log: CheckpointLog,
    source: str,
    executors: int | None,
    slots: int | None,
    *,
    hosts: str | None,
    racks: RackMap | None,
) -> tuple[tuple[Executor, ...], str]:
    if hosts is not None:
        if executors is not None:
            raise OptionError("--hosts and --executors cannot be used together: give one of them")
        return _parse_hosts(hosts, slots or 1), "as given"
    if executors is None and slots is None:
        stored_executors = read_executors(log.checkpoint.states.get(source))
        if stored_executors:
            return stored_executors, FROM_STATE
    if executors is None and racks is not None:
        numbered_hosts = enumerate(sorted(racks.executors), 1)
        members = tuple(Executor(f"{n:05}", host, slots or 1) for n, host in numbered_hosts)
        return members, "from --racks"
    count = executors or _DEFAULT_EXECUTORS
    width = len(str(count))
    assumed_executors = tuple(
        Executor(f"{i:0{width}}", f"host-{i:0{width}}", slots or 1) for i in range(1, count + 1)
    )
    assumed_origin = "assumed; set them with --executors and --slots"
    return assumed_executors, assumed_origin if executors is None else "as given"


def _parse_hosts(text: str, default_slots: int) -> tuple[Executor, ...]:
    executors = []
    for number, part in enumerate(filter(None, (p.strip() for p in text.split(","))), 1):
        host, equals, count = part.partition("=")
        if not host or (equals and not _SLOT_COUNT.fullmatch(count)):
            raise OptionError(
                f"--hosts is {text!r}: give hosts with their slots, such as h1=4,h2=4"
            )
        executors.append(Executor(f"{number:05}", host, int(count) if equals else default_slots))
    if not executors:
        raise OptionError("--hosts is empty: give hosts with their slots, such as h1=4,h2=4")
    return tuple(executors)


def _bound_cost(
    log: CheckpointLog, batches: Sequence[ReplayBatch], cluster: Cluster
) -> float | None:
    """Return the median of the batches' upper bounds on a record's cost; None without durations.

    A bound assumes that all slots were always busy. A cost that is too high favours Spark's
    default: longer tasks give idle slots more time to take tasks that wait for their executor.
    """
    costs = [
        log.seconds[batch.batch]
        * sum(e.slots for e in cluster.get_executors(batch.batch))
        / batch.records
        for batch in batches
        if batch.records and log.seconds.get(batch.batch)
    ]
    return median(costs) if costs else None

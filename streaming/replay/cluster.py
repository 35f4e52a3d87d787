"""Choose the executors on which a checkpoint is replayed, and the cost of a record."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Executor
from assignor_bridge.planner.unpredictability import compute_unpredictability
from streaming.replay.log import compute_costs, list_executors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assignor_bridge.model import Partition
    from checkpoints.sticky_state import StickyState
    from streaming.replay.log import CheckpointLog, ReplayBatch
    from streaming.replay.racks_input import RackMap

_DEFAULT_EXECUTORS = 4
#: Texts that describe where executors and costs come from.
FROM_STATE = "from the checkpoint's state of the last batch"
FROM_PLAN_LOG = "from the plan log"
FROM_PLANNER = "as learned by the planner up to the last batch"
#: Matches a host's number of slots, from 1 to 9,999.
_SLOT_COUNT = re.compile(r"0*[1-9][0-9]{0,3}")
_HOSTS_FORMAT = "give hosts with 1 to 9,999 slots each, such as h1=4,h2=4"


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
    #: Texts that describe where the `executors` and the `cost` come from, by these two keys.
    origins: Mapping[str, str] = field(default_factory=dict)
    #: Executors by batch number, from a plan log; `executors` equals the last batch's entry.
    executors_by_batch: Mapping[int, tuple[Executor, ...]] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        """Number of task slots of all executors."""
        return sum(executor.slots for executor in self.executors)

    def get_executors(self, batch: int) -> tuple[Executor, ...]:
        """Return the executors on which a batch is replayed."""
        return self.executors_by_batch.get(batch, self.executors)


def choose_cluster(
    log: CheckpointLog,
    source: str,
    batches: Sequence[ReplayBatch],
    *,
    executor_count: int | None = None,
    slots: int | None = None,
    hosts: str | None = None,
    cost_us: float | None = None,
    locality_wait_s: float = 3.0,
    racks: RackMap | None = None,
    logged_executors: Mapping[int, tuple[Executor, ...]] | None = None,
) -> Cluster:
    """Return the cluster; executors come from the plan log, options, state, `racks`, or a default.

    Costs come from `cost_us`, the state, batch durations, or a default. `logged_executors` is by
    batch number, in batch order. Raises OptionError if `hosts` is invalid or used with
    `executor_count`, or if no executor is in `racks`.
    """
    executors_by_batch = dict(logged_executors or {})
    state = log.checkpoint.states.get(source)
    if executors_by_batch:
        executors, origin = tuple(executors_by_batch.values())[-1], FROM_PLAN_LOG
    else:
        executors, origin = _choose_executors(state, executor_count, slots, hosts, racks)
    all_executors = list(dict.fromkeys(chain(executors, *executors_by_batch.values())))
    if racks is not None:
        with_rack = dict(zip(all_executors, racks.add_racks_to(all_executors), strict=True))
        executors = tuple(with_rack[e] for e in executors)
        executors_by_batch = {
            number: tuple(with_rack[e] for e in es) for number, es in executors_by_batch.items()
        }
    costs = compute_costs(state) if cost_us is None else None
    cluster = Cluster(executors, executors_by_batch=executors_by_batch)
    if cost_us is not None:
        cost_s, cost_origin = cost_us / 1e6, "as given"
    elif costs is not None:
        cost_s, cost_origin = costs.record_s, FROM_PLANNER
    elif (bound_s := _bound_cost(log, batches, cluster)) is not None:
        cost_s, cost_origin = bound_s, "at most, from batch durations"
    else:
        cost_s, cost_origin = cluster.cost_s, "assumed; set it with --cost-us"
    unusual_costs = costs.unusual_costs if costs else {}
    slowness = {}
    if costs is not None and origin in (FROM_STATE, FROM_PLAN_LOG):
        ids = {e.id for e in all_executors}
        slowness = {id_: factor for id_, factor in costs.slowness.items() if id_ in ids}
    origins = {"executors": origin, "cost": cost_origin}
    unpredictability = compute_unpredictability(state.spreads) if state is not None else None
    settings = (unpredictability or 0.0, locality_wait_s, origins, executors_by_batch)
    return Cluster(executors, cost_s, unusual_costs, slowness, *settings)


def _choose_executors(
    state: StickyState | None,
    executor_count: int | None,
    slots: int | None,
    hosts: str | None,
    racks: RackMap | None,
) -> tuple[tuple[Executor, ...], str]:
    if hosts is not None:
        if executor_count is not None:
            raise OptionError("--hosts and --executors cannot be used together: give one of them")
        return _parse_hosts(hosts, slots or 1), "as given"
    if executor_count is None and slots is None and (stored_executors := list_executors(state)):
        return stored_executors, FROM_STATE
    if executor_count is None and racks is not None:
        numbered_hosts = enumerate(sorted(racks.executor_racks), 1)
        executors = tuple(Executor(f"{n:05}", host, slots or 1) for n, host in numbered_hosts)
        return executors, "from --racks"
    count = executor_count or _DEFAULT_EXECUTORS
    width = len(str(count))
    executors = tuple(
        Executor(f"{n:0{width}}", f"host-{n:0{width}}", slots or 1) for n in range(1, count + 1)
    )
    return executors, "as given" if executor_count else "assumed; see --executors and --slots"


def _parse_hosts(text: str, default_slots: int) -> tuple[Executor, ...]:
    executors = []
    for number, part in enumerate(filter(None, (p.strip() for p in text.split(","))), 1):
        host, equals, count = part.partition("=")
        if not host or (equals and not _SLOT_COUNT.fullmatch(count)):
            raise OptionError(f"--hosts is {text!r}: {_HOSTS_FORMAT}")
        executors.append(Executor(f"{number:05}", host, int(count) if equals else default_slots))
    if not executors:
        raise OptionError(f"--hosts is empty: {_HOSTS_FORMAT}")
    return tuple(executors)


def _bound_cost(
    log: CheckpointLog, batches: Sequence[ReplayBatch], cluster: Cluster
) -> float | None:
    """Return the median of the batches' upper bounds on a record's cost; None without durations.

    A bound assumes that all slots were always busy. A cost that is too high favours Spark's
    default: longer tasks give idle slots more time to take tasks that wait for their executor.
    """
    bounds_s = [
        log.seconds_by_batch[batch.batch]
        * sum(e.slots for e in cluster.get_executors(batch.batch))
        / batch.offset_count
        for batch in batches
        if batch.offset_count and log.seconds_by_batch.get(batch.batch)
    ]
    return median(bounds_s) if bounds_s else None

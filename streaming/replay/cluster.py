"""Which executors a checkpoint is replayed on, and what a record costs."""

from collections.abc import Mapping, Sequence
from statistics import median

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Executor
from streaming.replay.log import CheckpointLog, executors_in
from streaming.replay.player import Cluster, LoggedBatch

_DEFAULT_EXECUTORS = 4
_DEFAULT_COST_S = 0.0001


def cluster_for(
    log: CheckpointLog,
    source: str,
    batches: Sequence[LoggedBatch],
    *,
    executors: int | None = None,
    slots: int | None = None,
    hosts: str | None = None,
    cost_us: float | None = None,
    locality_wait_s: float = 3.0,
) -> tuple[Cluster, Mapping[str, str]]:
    """Give the cluster and, in words, where its parts are from."""
    members, why = _members(log, source, executors, slots, hosts)
    sources = {"executors": why}
    cost_s, sources["cost"] = cost_us and cost_us / 1e6, "as given"
    if cost_s is None:
        cost_s = _cost_by_time(log, batches, sum(e.slots for e in members))
        sources["cost"] = "at most, by the time the batches took"
    if cost_s is None:
        cost_s, sources["cost"] = _DEFAULT_COST_S, "assumed; give yours with --cost-us"
    return Cluster(members, cost_s, locality_wait_s), sources


def _members(
    log: CheckpointLog, source: str, executors: int | None, slots: int | None, hosts: str | None
) -> tuple[tuple[Executor, ...], str]:
    if hosts is not None:
        if executors is not None:
            raise OptionError("--hosts and --executors exclude each other: give one of them")
        return _by_host(hosts, slots or 1), "as given"
    if executors is None and slots is None:
        known = executors_in(log.states.get(source))
        if known:
            return known, "those of the last batch, from the state beside the checkpoint"
    count = executors or _DEFAULT_EXECUTORS
    members = tuple(
        Executor(f"{i:0{len(str(count))}}", f"host-{i:0{len(str(count))}}", slots or 1)
        for i in range(1, count + 1)
    )
    if executors is None:
        return members, "assumed; give yours with --executors and --slots"
    return members, "as given"


def _by_host(text: str, slots: int) -> tuple[Executor, ...]:
    members = []
    for number, part in enumerate(filter(None, (p.strip() for p in text.split(","))), 1):
        host, equals, count = part.partition("=")
        if not host or (equals and not count.isdigit()) or (equals and int(count) < 1):
            raise OptionError(
                f"--hosts is {text!r}: hosts with their slots are expected, such as h1=4,h2=4"
            )
        members.append(Executor(f"{number:05}", host, int(count) if equals else slots))
    if not members:
        raise OptionError("--hosts is empty: hosts are expected, such as h1=4,h2=4")
    return tuple(members)


def _cost_by_time(log: CheckpointLog, batches: Sequence[LoggedBatch], slots: int) -> float | None:
    """Bound the cost from above: had all slots been busy all the time.

    Too high a cost helps Spark's mapping: the longer tasks are, the sooner idle slots take some
    of those that wait for their executor.
    """
    costs = []
    for batch in batches:
        seconds = log.seconds.get(batch.batch)
        records = sum(r.size for r in batch.ranges)
        if seconds and records:
            costs.append(seconds * slots / records)
    return median(costs) if costs else None

"""`streams`: equal partition numbers of all topics form a task, with warm copies elsewhere."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.claims import claims
from assignor_bridge.assignors.constrained import different_subscriptions
from assignor_bridge.assignors.even import give_free, give_up
from assignor_bridge.assignors.group import Assignment
from assignor_bridge.assignors.partitions import Catalog, Partitions
from assignor_bridge.assignors.standbys import place_standbys
from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from assignor_bridge.assignors.group import Group


def not_co_partitioned(group: Group) -> str | None:
    """Say which topics are short of partitions; None when all subscribed ones have as many."""
    return "; ".join(_short_topics(group)) or None


def streams(group: Group) -> Assignment:
    """Keep partition p of every topic together, active on one member and copied on others.

    Promises, in order: (1) partition p of every topic (task p) goes to one member; (2) members'
    task counts differ by at most one; (3) as few tasks as possible leave the member that owns most
    of their partitions; (4) a task without owner goes to a member with room that has a standby copy
    of it; (5) each task has `standby_replicas` standbys (one less than there are members, at most),
    on distinct members and never the active one; (6) standby counts stay at the ceiling of the mean
    or below, where that is possible; (7) standbys stay where they were, unless another host, or
    else another rack, than the task's other copies has room. Topics with fewer partitions than the
    largest take no part in the last tasks: `notes` says so. Ties: by task number and member id.

    Source: Kafka Streams' tasks (KIP-441, KIP-924); the article on assignment strategies.

    Raises
    ------
    OptionError
        When members subscribe to different topics.
    """
    reason = different_subscriptions(group)
    if reason:
        raise OptionError(
            f"assignor 'streams' refused the group: {reason}. Use 'sticky' for such groups."
        )
    catalog = group.catalog
    owner = np.full(catalog.total, -1, np.int32)
    topics = [catalog.index[topic] for topic in group.subscribers]
    tasks = int(max((catalog.counts[t] for t in topics), default=0))
    if not tasks:
        return Assignment(group, owner)
    active = _task_owners(group, topics, tasks)
    numbers, members = np.arange(tasks), np.arange(len(group.members))
    give_up(Catalog({"tasks": tasks}), active, numbers, members)
    warm = _warm(group, tasks)
    _give_to_warm(active, warm, len(members))
    give_free(active, numbers, members)
    for t in topics:
        start, count = int(catalog.starts[t]), int(catalog.counts[t])
        owner[start : start + count] = active[:count]
    notes = list(_short_topics(group))
    copies = min(group.standby_replicas, len(members) - 1)
    if copies < group.standby_replicas:
        notes.append(
            f"{copies} standbys a task instead of {group.standby_replicas}: "
            f"there are {len(members)} members"
        )
    standbys: dict[str, Partitions] = {}
    if copies:
        held = place_standbys(group, active.tolist(), warm, copies)
        for name, of_member in zip(group.ids, held, strict=True):
            numbers = np.asarray(sorted(of_member), dtype=np.int64)
            ids = [catalog.starts[t] + numbers[numbers < catalog.counts[t]] for t in sorted(topics)]
            standbys[name] = Partitions(catalog, np.concatenate(ids))
    return Assignment(group, owner, standbys=standbys, notes=tuple(notes))


def _short_topics(group: Group) -> list[str]:
    counts = {topic: group.catalog[topic] for topic in group.subscribers}
    most = max(counts.values(), default=0)
    return [
        f"topic {topic!r} is short: {count} partitions, where {most} tasks are needed"
        for topic, count in counts.items()
        if count < most
    ]


def _task_owners(group: Group, topics: Sequence[int], tasks: int) -> NDArray[np.int32]:
    """Who owns most of each task's partitions; -1 for nobody, the first by id among equals."""
    held = claims(group).owner
    votes: list[Counter[int]] = [Counter() for _ in range(tasks)]
    for t in topics:
        part = held[int(group.catalog.starts[t]) : int(group.catalog.starts[t + 1])].tolist()
        for task, member in enumerate(part):
            if member >= 0:
                votes[task][member] += 1
    best = [min(v, key=lambda m: (-v[m], m)) if v else -1 for v in votes]
    return np.asarray(best, dtype=np.int32)


def _warm(group: Group, tasks: int) -> list[list[int]]:
    """Members that say that they have a standby copy of each task, by id."""
    warm: list[list[int]] = [[] for _ in range(tasks)]
    for index, member in enumerate(group.members):
        copied: Mapping[str, Sequence[int]] = member.standby
        for task in sorted({p for t, ps in copied.items() if t in group.subscribers for p in ps}):
            if 0 <= task < tasks:
                warm[task].append(index)
    return warm


def _give_to_warm(active: NDArray[np.int32], warm: list[list[int]], members: int) -> None:
    floor, extra = divmod(len(active), members)
    counts = np.bincount(active[active >= 0], minlength=members).tolist()
    extra -= sum(count > floor for count in counts)
    for task in np.flatnonzero(active < 0).tolist():
        room = [m for m in warm[task] if counts[m] < floor + (extra > 0)]
        if room:
            member = min(room, key=lambda m: (counts[m], m))
            extra -= counts[member] == floor
            counts[member] += 1
            active[task] = member

"""`streams`: equal partition numbers of all topics form a task, with warm copies elsewhere."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.claims import resolve_claims
from assignor_bridge.assignors.cooperative import describe_different_subscriptions
from assignor_bridge.assignors.group import Assignment
from assignor_bridge.assignors.partitions import Catalog, Partitions
from assignor_bridge.assignors.racks import find_task_racks
from assignor_bridge.assignors.standbys import place_standbys
from assignor_bridge.assignors.sticky import assign_unowned, divide_by_rack, release_surplus
from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assignor_bridge.assignors.group import Group


def describe_short_topics(group: Group) -> str | None:
    """Return which topics are short of partitions; None when all subscribed ones have as many."""
    return "; ".join(_short_topics(group)) or None


def streams(group: Group) -> Assignment:
    """Keep partition p of every topic together, active on one member and copied on others.

    Promises, in order: (1) partition p of every topic (task p) goes to one member; (2) members'
    task counts differ by at most one; (3) where racks make a difference (see `racks`), few tasks
    are active in a rack while another has replicas of more of their partitions, as `sticky` finds
    it for partitions; (4) as few tasks as possible leave the member that owns most of their
    partitions; (5) a task without owner goes to a member with room that has a standby copy of it;
    (6) each task has `standby_replicas` standbys (one less than there are members, at most), on
    distinct members and never the active one; (7) standby counts stay at the ceiling of the mean or
    below, where that is possible; (8) standbys stay where they were, unless another host, or else
    another rack, than the task's other copies has room. Topics with fewer partitions than the
    largest take no part in the last tasks: `notes` says so. Ties: by task number and member id.

    Source: Kafka Streams' tasks (KIP-441, KIP-924), and that traffic across racks weighs more than
    staying (KIP-925); the article on assignment strategies.

    Raises
    ------
    OptionError
        When members subscribe to different topics.

    >>> from assignor_bridge.assignors import Group, Member
    >>> members = (Member("C0", {"t0", "t1"}), Member("C1", {"t0", "t1"}))
    >>> answer = streams(Group(members, {"t0": 3, "t1": 3}, standby_replicas=1))
    >>> print(answer)
    C0: [t0p0, t0p2, t1p0, t1p2]
    C1: [t0p1, t1p1]
    >>> answer.standbys["C0"]
    {'t0': (1,), 't1': (1,)}
    """
    reason = describe_different_subscriptions(group)
    if reason:
        raise OptionError(
            f"assignor 'streams' refused the group: {reason}. Use 'sticky' for such groups."
        )
    catalog = group.catalog
    owner = np.full(catalog.total, -1, np.int32)
    tasks = max((catalog[topic] for topic in group.subscribers), default=0)
    if not tasks:
        return Assignment(group, owner)
    active = _task_owners(group, tasks)
    warm = _warm_members(group, tasks)
    _assign_active(group, active, warm)
    for topic in group.subscribers:
        owner[catalog.span(topic)] = active[: catalog[topic]]
    notes = _short_topics(group)
    copies = min(group.standby_replicas, len(group.members) - 1)
    if copies < group.standby_replicas:
        notes.append(
            f"{copies} standbys a task instead of {group.standby_replicas}: "
            f"there are {len(group.members)} members"
        )
    standbys: dict[str, Partitions] = {}
    if copies:
        for name, of_member in zip(
            group.ids, place_standbys(group, active.tolist(), warm, copies), strict=True
        ):
            by_topic = {t: [n for n in of_member if n < catalog[t]] for t in group.subscribers}
            standbys[name] = Partitions(catalog, catalog.ids(by_topic))
    return Assignment(group, owner, standbys=standbys, notes=tuple(notes))


def _short_topics(group: Group) -> list[str]:
    counts = {topic: group.catalog[topic] for topic in group.subscribers}
    tasks = max(counts.values(), default=0)
    return [
        f"topic {topic!r} is short: {count} partitions, where {tasks} tasks are needed"
        for topic, count in counts.items()
        if count < tasks
    ]


def _task_owners(group: Group, tasks: int) -> NDArray[np.int32]:
    """Return who owns most of each task's partitions; -1 for nobody, ties to the first by id."""
    owner = resolve_claims(group).owner
    votes: list[Counter[int]] = [Counter() for _ in range(tasks)]
    for topic in group.subscribers:
        for task, member in enumerate(owner[group.catalog.span(topic)].tolist()):
            if member >= 0:
                votes[task][member] += 1
    best = [min(v, key=lambda m: (-v[m], m)) if v else -1 for v in votes]
    return np.asarray(best, dtype=np.int32)


def _warm_members(group: Group, tasks: int) -> list[list[int]]:
    """Return the members, by id, that say that they have a standby copy of each task."""
    warm: list[list[int]] = [[] for _ in range(tasks)]
    for index, member in enumerate(group.members):
        copied = {p for t, ps in member.standby.items() if t in group.subscribers for p in ps}
        for task in copied:
            if 0 <= task < tasks:
                warm[task].append(index)
    return warm


def _assign_active(group: Group, active: NDArray[np.int32], warm: list[list[int]]) -> None:
    """Complete and balance the owners of tasks, in place."""
    numbers, members = np.arange(len(active)), np.arange(len(group.members))
    catalog, racks = Catalog({"tasks": len(active)}), find_task_racks(group, len(active))
    if racks is None:
        release_surplus(catalog, active, numbers, members)
        _give_to_warm(active, warm, len(members))
        assign_unowned(active, numbers, members)
        return
    near = [  # of tasks without owner
        [m for m in of if racks.near[kind, racks.of_member[m]]] if held < 0 else []
        for of, kind, held in zip(warm, racks.kind.tolist(), active.tolist(), strict=True)
    ]
    divide_by_rack(
        catalog, active, numbers, members, racks, lambda a: _give_to_warm(a, near, len(members))
    )
    divide_by_rack(catalog, active, numbers, members, racks)  # until nothing moves any more


def _give_to_warm(active: NDArray[np.int32], warm: list[list[int]], members: int) -> None:
    floor, extra = divmod(len(active), members)
    counts = np.bincount(active[active >= 0], minlength=members).tolist()
    extra -= sum(count > floor for count in counts)
    for task in np.flatnonzero(active < 0).tolist():
        with_room = [m for m in warm[task] if counts[m] < floor + (extra > 0)]
        if with_room:
            member = min(with_room, key=lambda m: (counts[m], m))
            extra -= counts[member] == floor
            counts[member] += 1
            active[task] = member

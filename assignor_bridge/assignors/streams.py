"""`streams`: partition p of all topics is one task; other members keep standby copies of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.claims import resolve_claims
from assignor_bridge.assignors.cooperative import describe_different_subscriptions
from assignor_bridge.assignors.group import Assignment
from assignor_bridge.assignors.partitions import Catalog, Partitions
from assignor_bridge.assignors.rack_aware import find_task_racks
from assignor_bridge.assignors.standbys import place_standbys
from assignor_bridge.assignors.sticky import assign_unowned, divide_by_rack, release_surplus
from assignor_bridge.errors import OptionError, pluralize

if TYPE_CHECKING:
    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.partitions import Owners


def describe_short_topics(group: Group) -> str | None:
    """Return text that lists the topics with fewer partitions than the largest topic, or None."""
    return "; ".join(_list_short_topics(group)) or None


def assign_streams(group: Group) -> Assignment:
    """Assign partition p of every topic to the same member, with standby copies on others.

    Assumption: all members subscribe to the same topics. Promises, in order: (1) partition p of
    every topic (task p) goes to one member; (2) members' task counts differ by at most one; (3) if
    racks matter (see `find_task_racks`), few tasks are active in a rack while another rack has
    replicas of more of their partitions, as in `sticky`; (4) the fewest tasks leave the member that
    owns most of their partitions; (5) a task without an owner goes to a member with room and a
    standby copy of it; (6) each task has `standby_replicas` standbys (at most one less than there
    are members) on distinct members, never the active one; (7) standby counts do not exceed the
    ceiling of the mean, if that is possible; (8) a standby moves only to a member with room on a
    host, or else in a rack, without another copy of the task. `notes` reports topics with fewer
    partitions than tasks, and missing standbys. Ties: by task, then member id.

    Source: Kafka Streams' tasks (KIP-441, KIP-924), where rack traffic precedes stickiness
    (KIP-925); the article that `assign_failover` cites.

    Raises OptionError if members subscribe to different topics.

    >>> from assignor_bridge.assignors import Group, Member
    >>> members = (Member("C0", {"t0", "t1"}), Member("C1", {"t0", "t1"}))
    >>> answer = assign_streams(Group(members, {"t0": 3, "t1": 3}, standby_replicas=1))
    >>> print(answer)
    C0: [t0p0, t0p2, t1p0, t1p2]
    C1: [t0p1, t1p1]
    >>> answer.standbys["C0"]
    {'t0': (1,), 't1': (1,)}
    """
    if reason := describe_different_subscriptions(group):
        raise OptionError(
            f"assignor 'streams' refused the group: {reason}. Use 'sticky' for such groups."
        )
    catalog = group.catalog
    owner = np.full(catalog.total, -1, np.int32)
    task_count = max((catalog[topic] for topic in group.subscribers), default=0)
    if not task_count:
        return Assignment(group, owner)
    task_owner = _find_task_owners(group, task_count)
    warm_members = _find_warm_members(group, task_count)
    _balance_tasks(group, task_owner, warm_members)
    for topic in group.subscribers:
        owner[catalog.span(topic)] = task_owner[: catalog[topic]]
    notes = _list_short_topics(group)
    copies_per_task = min(group.standby_replicas, len(group.members) - 1)
    if copies_per_task < group.standby_replicas:
        notes.append(
            f"{pluralize(copies_per_task, 'standby')} per task instead of "
            f"{group.standby_replicas}: the group has {pluralize(len(group.members), 'member')}"
        )
    standbys: dict[str, Partitions] = {}
    if copies_per_task:
        task_sets = place_standbys(group, task_owner.tolist(), warm_members, copies_per_task)
        for member_id, tasks in zip(group.ids, task_sets, strict=True):
            numbers_by_topic = {t: [n for n in tasks if n < catalog[t]] for t in group.subscribers}
            standbys[member_id] = Partitions(catalog, catalog.ids(numbers_by_topic))
    return Assignment(group, owner, standbys=standbys, notes=tuple(notes))


def _list_short_topics(group: Group) -> list[str]:
    count_by_topic = {topic: group.catalog[topic] for topic in group.subscribers}
    task_count = max(count_by_topic.values(), default=0)
    tasks_text = pluralize(task_count, "task")
    return [
        f"topic {topic!r} is short: {pluralize(count, 'partition')} for {tasks_text}"
        for topic, count in count_by_topic.items()
        if count < task_count
    ]


def _find_task_owners(group: Group, task_count: int) -> Owners:
    """Return the member that owns most of each task's partitions, -1 for none; ties by id."""
    owner = resolve_claims(group).owner
    votes: list[Counter[int]] = [Counter() for _ in range(task_count)]
    for topic in group.subscribers:
        for task, member in enumerate(owner[group.catalog.span(topic)].tolist()):
            if member >= 0:
                votes[task][member] += 1
    owners = [min(v, key=lambda m: (-v[m], m)) if v else -1 for v in votes]
    return np.asarray(owners, dtype=np.int32)


def _find_warm_members(group: Group, task_count: int) -> list[list[int]]:
    """Return the members that report a standby copy of each task, sorted by id."""
    warm_members: list[list[int]] = [[] for _ in range(task_count)]
    for index, member in enumerate(group.members):
        copied_tasks = {p for t, ps in member.standby.items() if t in group.subscribers for p in ps}
        for task in copied_tasks:
            if 0 <= task < task_count:
                warm_members[task].append(index)
    return warm_members


def _balance_tasks(group: Group, owner: Owners, warm_members: list[list[int]]) -> None:
    """Assign tasks without an owner (-1) and balance all tasks, in place."""
    task_ids, members = np.arange(len(owner)), np.arange(len(group.members))
    catalog, racks = Catalog({"tasks": len(owner)}), find_task_racks(group, len(owner))
    if racks is None:
        release_surplus(catalog, owner, task_ids, members)
        _assign_to_warm(owner, warm_members, len(members))
        assign_unowned(owner, task_ids, members)
        return
    near_warm_members = [  # of each task without an owner
        [m for m in warm if racks.near[rack_set, racks.rack_of_member[m]]] if member < 0 else []
        for warm, rack_set, member in zip(
            warm_members, racks.rack_set.tolist(), owner.tolist(), strict=True
        )
    ]

    def prefer_warm_members(owner: Owners) -> None:
        _assign_to_warm(owner, near_warm_members, len(members))

    divide_by_rack(catalog, owner, task_ids, members, racks, prefer=prefer_warm_members)
    divide_by_rack(catalog, owner, task_ids, members, racks)  # the first may make only one pass


def _assign_to_warm(owner: Owners, warm_members: list[list[int]], member_count: int) -> None:
    """Assign each task without an owner to its least loaded warm member with room, if any."""
    min_quota, extra_members = divmod(len(owner), member_count)
    counts = np.bincount(owner[owner >= 0], minlength=member_count).tolist()
    extra_members -= sum(count > min_quota for count in counts)
    for task in np.flatnonzero(owner < 0).tolist():
        max_count = min_quota + (extra_members > 0)
        if candidates := [m for m in warm_members[task] if counts[m] < max_count]:
            member = min(candidates, key=lambda m: (counts[m], m))
            extra_members -= counts[member] == min_quota
            counts[member] += 1
            owner[task] = member

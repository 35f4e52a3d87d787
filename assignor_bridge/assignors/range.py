"""`range`: each member gets a contiguous block of each topic, with the same partition numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.group import Assignment

if TYPE_CHECKING:
    from collections.abc import Callable

    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.partitions import Owners


def assign_range(group: Group) -> Assignment:
    """Assign each member a contiguous block of each topic; the first members get one more.

    Promises, in order: (1) each subscribed partition goes to one subscriber; (2) per topic, counts
    differ by at most one; (3) topics with the same subscribers and the same number of partitions
    are divided in the same way (co-partitioning); (4) if racks are known and differ between
    partitions, each partition, in order, goes to the first member with room in one of its racks
    (KIP-881). Ties: members by instance id, if they have one, then by id. Counts over all topics
    are not balanced (the first members get more of every topic); lags and owners are ignored.

    Source: Kafka 4.1.0 `RangeAssignor`; the answers are identical, also with racks.

    >>> from assignor_bridge.assignors import Group, Member
    >>> members = (Member("C0", {"t0", "t1"}), Member("C1", {"t0", "t1"}))
    >>> print(assign_range(Group(members, {"t0": 3, "t1": 3})))
    C0: [t0p0, t0p1, t1p0, t1p1]
    C1: [t0p2, t1p2]
    """
    owner = np.full(group.catalog.total, -1, np.int32)
    rank = np.argsort(np.asarray(group.kafka_order, dtype=np.int64))
    members_by_subscribers: dict[tuple[int, ...], tuple[int, ...]] = {}
    states: list[_TopicAssignment] = []
    for topic, subscribers in group.subscribers.items():
        if subscribers not in members_by_subscribers:
            members_by_subscribers[subscribers] = tuple(sorted(subscribers, key=rank.__getitem__))
        members, topic_owner = members_by_subscribers[subscribers], owner[group.catalog.span(topic)]
        states.append(_TopicAssignment(group, topic, members, topic_owner))
    if any(state.racks_matter for state in states):
        _assign_near_members(states)
        for state in states:
            state.fill(lambda _member, _partition: True)
    else:
        for state in states:
            block_sizes = np.full(len(state.members), state.min_quota)
            block_sizes[: state.extra_members] += 1
            state.owner[:] = np.repeat(state.members, block_sizes)
    return Assignment(group, owner)


class _TopicAssignment:
    """The members' partition counts in one topic (Kafka's TopicAssignmentState)."""

    def __init__(self, group: Group, topic: str, members: tuple[int, ...], owner: Owners) -> None:
        self.members = members
        #: A view of the owners of this topic's partitions.
        self.owner = owner
        #: `extra_members` members may still exceed the minimum quota by one.
        self.min_quota, self.extra_members = divmod(len(owner), len(members))
        self.counts = dict.fromkeys(members, 0)
        self.rack_by_member = {m: group.members[m].rack for m in members if group.members[m].rack}
        racks_by_partition = group.partition_racks.get(topic, {})
        partitions = range(len(owner) if self.rack_by_member else 0)
        self.partition_racks = [frozenset(racks_by_partition.get(p, ())) for p in partitions]
        all_racks = frozenset().union(*self.partition_racks)
        self.racks_matter = not all_racks.isdisjoint(self.rack_by_member.values()) and any(
            racks != all_racks for racks in self.partition_racks
        )

    def is_near(self, member: int, partition: int) -> bool:
        rack = self.rack_by_member.get(member)
        return rack is None or rack in self.partition_racks[partition]

    def count_room(self, member: int) -> int:
        return max(0, self.min_quota + (self.extra_members > 0) - self.counts[member])

    def assign(self, member: int, partition: int) -> None:
        self.owner[partition] = member
        self.counts[member] += 1
        if self.counts[member] > self.min_quota:
            self.extra_members -= 1

    def fill(self, may_assign: Callable[[int, int], bool]) -> None:
        """Give each member, in order, the unowned partitions that it may have, up to its room."""
        for member in self.members:
            numbers = [p for p in np.flatnonzero(self.owner < 0).tolist() if may_assign(member, p)]
            for partition in numbers[: self.count_room(member)]:
                self.assign(member, partition)


def _assign_near_members(states: list[_TopicAssignment]) -> None:
    """Assign partitions to members in a rack with a replica, co-partitioned topics together."""
    states_by_shape: dict[tuple[tuple[int, ...], int], list[_TopicAssignment]] = {}
    for state in states:
        states_by_shape.setdefault((state.members, len(state.partition_racks)), []).append(state)
    for (members, count), shape_states in states_by_shape.items():
        if len(shape_states) == 1:
            if shape_states[0].racks_matter:
                shape_states[0].fill(shape_states[0].is_near)
            continue
        candidate_members = list(members)
        for partition in range(count):
            for member in candidate_members:
                if all(s.is_near(member, partition) and s.count_room(member) for s in shape_states):
                    for state in shape_states:
                        state.assign(member, partition)
                    if not any(s.count_room(member) for s in shape_states):
                        candidate_members.remove(member)
                    break

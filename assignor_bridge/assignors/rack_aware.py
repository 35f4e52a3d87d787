"""Racks in the sticky assignors: prefer members in a rack with a replica (KIP-881)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.partitions import Catalog, Ids, Owners

    #: Indices of the topics of a distinct subscription, and of the members that have it.
    Subscription = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class GroupRacks:
    """The racks of a group's members and partitions."""

    #: Rack index of each member, -1 for none.
    rack_of_member: Ids
    #: Index in `near` of each partition's set of racks.
    rack_set: Ids
    #: Whether a rack set (row) has a rack (column); the last column is for members without a rack.
    near: NDArray[np.bool_]
    #: Number of members whose rack is in each set.
    near_counts: Ids

    def is_far(self, partition: Ids, member: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return for each partition whether its member's rack has no replica of it."""
        return np.asarray(~self.near[self.rack_set[partition], self.rack_of_member[member]])


def find_racks(group: Group) -> GroupRacks | None:
    """Return a group's racks, or None if racks do not matter.

    As in Kafka, they matter if members have racks, partitions have replicas in some of these racks,
    and not all partitions have the same racks. A member without a rack is near to every partition;
    a partition without racks is far from every member that has a rack.
    """
    names = sorted({m.rack for m in group.members if m.rack})
    if not names or not group.partition_racks:
        return None
    catalog, no_racks = group.catalog, frozenset[str]()
    code_by_racks: dict[frozenset[str], int] = {no_racks: 0}
    rack_set = np.zeros(catalog.total, np.int64)
    for topic, racks_of_topic in group.partition_racks.items():
        if topic in catalog:
            start, count = catalog.span(topic).start, catalog[topic]
            for partition, racks in racks_of_topic.items():
                if 0 <= partition < count:
                    code = code_by_racks.setdefault(frozenset(racks), len(code_by_racks))
                    rack_set[start + partition] = code
    sorted_sets = sorted(code_by_racks, key=sorted)  # independent of the order of the input
    rack_set = np.argsort([code_by_racks[racks] for racks in sorted_sets])[rack_set]
    used_indices = set(rack_set[group.subscribed].tolist())
    used_sets = [racks for index, racks in enumerate(sorted_sets) if index in used_indices]
    all_racks = no_racks.union(*used_sets)
    if all_racks.isdisjoint(names) or all(racks == all_racks for racks in used_sets):
        return None
    index_by_rack = {name: i for i, name in enumerate(names)}
    racks_of_members = (m.rack or "" for m in group.members)
    rack_of_member = np.array([index_by_rack.get(r, -1) for r in racks_of_members], np.int64)
    near = np.array([[*(name in racks for name in names), True] for racks in sorted_sets], np.bool_)
    members_per_rack = np.bincount(rack_of_member[rack_of_member >= 0], minlength=len(names))
    return GroupRacks(rack_of_member, rack_set, near, near[:, :-1] @ members_per_rack)


def find_task_racks(group: Group, task_count: int) -> GroupRacks | None:
    """Return the racks of tasks (partition p of each topic), or None if they do not matter.

    A member with a rack is near to a task if that rack has the most partitions of the task.
    """
    racks = find_racks(group)
    if racks is None:
        return None
    replica_counts = np.zeros((task_count, racks.near.shape[1] - 1), np.int64)
    for topic in group.subscribers:
        rack_set = racks.rack_set[group.catalog.span(topic)]
        replica_counts[: group.catalog[topic]] += racks.near[rack_set, :-1]
    has_most = replica_counts == replica_counts.max(axis=1, keepdims=True)
    if has_most.all():
        return None
    sets, rack_set = np.unique(has_most, axis=0, return_inverse=True)
    member_racks = racks.rack_of_member[racks.rack_of_member >= 0]
    members_per_rack = np.bincount(member_racks, minlength=sets.shape[1])
    near = np.column_stack((sets, np.ones(len(sets), np.bool_)))
    return GroupRacks(racks.rack_of_member, rack_set.reshape(-1), near, sets @ members_per_rack)


def assign_unowned_by_rack(
    racks: GroupRacks, owner: Owners, old_owner: Owners, ids: Ids, members: Ids
) -> None:
    """Assign unowned partitions to members below their quota, near members first, in place.

    Assumption: all `members` subscribe to all topics of `ids`. As in Kafka's constrained assignor,
    a member without a rack is near to no partition.
    (1) Each partition goes to the next near member below the minimum quota, else to a near member
    that may get an extra one; partitions with the fewest near members come first. (2) If no near
    member has room, a partition stays with its old owner if that has room (not in Kafka).
    (3) The remaining partitions go to the next members with room, extra ones last.
    """
    unowned_ids = ids[owner[ids] < 0]
    quotas = _MemberQuotas(owner, ids, members, racks.rack_of_member.tolist())
    near = [[*flags, False] for flags in racks.near[:, :-1].tolist()]  # False: no rack
    # 1. Assign to near members.
    ids_without_near_member = []
    fewest_near_first = np.argsort(racks.near_counts[racks.rack_set[unowned_ids]], kind="stable")
    for partition in unowned_ids[fewest_near_first].tolist():
        member = quotas.take_near(near[racks.rack_set[partition]])
        if member < 0:
            ids_without_near_member.append(partition)
        else:
            owner[partition] = member
    # 2. Keep with far members.
    unplaced_ids = []
    for partition in ids_without_near_member:
        member = int(old_owner[partition])
        if member >= 0 and quotas.take(member):
            owner[partition] = member
        else:
            unplaced_ids.append(partition)
    # 3. Assign the remaining partitions.
    quotas.next_index = 0
    for partition in unplaced_ids:
        owner[partition] = quotas.take_next()


def split_topics_by_rack_set(
    catalog: Catalog, classes: Sequence[Subscription], racks: GroupRacks | None
) -> tuple[dict[int, Ids], Sequence[Subscription], dict[int, frozenset[int]]]:
    """Split topics by rack set; return ids by part, the classes' parts, and far members by part."""
    topics = sorted({topic for topics_of_class, _ in classes for topic in topics_of_class})
    if racks is None:
        return {t: catalog.all_of([t]) for t in topics}, classes, {}
    ids_by_part: dict[int, Ids] = {}
    parts_by_topic: dict[int, list[int]] = {topic: [] for topic in topics}
    set_count = len(racks.near)
    for topic in topics:
        ids = catalog.all_of([topic])
        for rack_set in np.unique(racks.rack_set[ids]).tolist():
            ids_by_part[topic * set_count + rack_set] = ids[racks.rack_set[ids] == rack_set]
            parts_by_topic[topic].append(topic * set_count + rack_set)
    members_by_class: dict[tuple[tuple[int, ...], int], list[int]] = {}
    far_members_by_part: dict[int, set[int]] = {}
    for topics_of_class, members in classes:
        class_parts = tuple(part for topic in topics_of_class for part in parts_by_topic[topic])
        for member in members:
            rack = int(racks.rack_of_member[member])
            members_by_class.setdefault((class_parts, rack), []).append(member)
            for part in class_parts:
                if not racks.near[part % set_count, rack]:
                    far_members_by_part.setdefault(part, set()).add(member)
    part_classes = [(parts, tuple(members)) for (parts, _), members in members_by_class.items()]
    return ids_by_part, part_classes, {p: frozenset(ms) for p, ms in far_members_by_part.items()}


class _MemberQuotas:
    """The members' partition counts, and which members still have room for a partition."""

    def __init__(
        self, owner: Owners, ids: Ids, members: Ids, rack_of_member: Sequence[int]
    ) -> None:
        self.rack_of_member = rack_of_member
        self.min_quota, extra_members = divmod(len(ids), len(members))
        owners = owner[ids]
        counts = np.bincount(owners[owners >= 0], minlength=int(members.max()) + 1)
        columns = members.tolist(), counts[members].tolist()
        self.counts: dict[int, int] = dict(zip(*columns, strict=True))
        #: Kafka's term: number of members that may still exceed the minimum quota by one.
        self.remaining_members_to_get_an_extra_partition = extra_members - sum(
            count > self.min_quota for count in self.counts.values()
        )
        self.below_min_quota = [m for m, count in self.counts.items() if count < self.min_quota]
        self.at_min_quota = [m for m, count in self.counts.items() if count == self.min_quota]
        #: Number of members of `below_min_quota` and of `at_min_quota` in each rack.
        self.below_min_quota_by_rack = Counter(rack_of_member[m] for m in self.below_min_quota)
        self.at_min_quota_by_rack = Counter(rack_of_member[m] for m in self.at_min_quota)
        self.next_index = 0

    def take_near(self, is_near: Sequence[bool]) -> int:
        """Add a partition to the next member with room in a near rack; return it, or -1 if none."""
        below_min_quota, rack = self.below_min_quota, self.rack_of_member
        if any(count and is_near[r] for r, count in self.below_min_quota_by_rack.items()):
            index = self.next_index
            while not is_near[rack[below_min_quota[index]]]:
                index = (index + 1) % len(below_min_quota)
            return self._take_below(index)
        if self.remaining_members_to_get_an_extra_partition and any(
            count and is_near[r] for r, count in self.at_min_quota_by_rack.items()
        ):
            return self._take_extra(next(m for m in self.at_min_quota if is_near[rack[m]]))
        return -1

    def take(self, member: int) -> bool:
        """Add a partition to this member; return whether it had room."""
        is_at_min_quota = self.counts[member] == self.min_quota
        if self.counts[member] < self.min_quota:
            self._take_below(self.below_min_quota.index(member))
        elif is_at_min_quota and self.remaining_members_to_get_an_extra_partition:
            self._take_extra(member)
        else:
            return False
        return True

    def take_next(self) -> int:
        """Add a partition to the next member with room, which must exist, and return it."""
        if self.below_min_quota:
            return self._take_below(self.next_index)
        return self._take_extra(self.at_min_quota[0])

    def _take_below(self, index: int) -> int:
        member = self.below_min_quota[index]
        self.counts[member] += 1
        if self.counts[member] == self.min_quota:
            del self.below_min_quota[index]
            self.at_min_quota.append(member)
            self.below_min_quota_by_rack[self.rack_of_member[member]] -= 1
            self.at_min_quota_by_rack[self.rack_of_member[member]] += 1
        else:
            index += 1
        self.next_index = index % len(self.below_min_quota) if self.below_min_quota else 0
        return member

    def _take_extra(self, member: int) -> int:
        self.counts[member] += 1
        self.at_min_quota.remove(member)
        self.at_min_quota_by_rack[self.rack_of_member[member]] -= 1
        self.remaining_members_to_get_an_extra_partition -= 1
        return member

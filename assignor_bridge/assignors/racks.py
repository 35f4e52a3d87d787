"""Racks in the sticky assignors: whose partitions have a replica near by (KIP-881)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.partitions import Catalog, Ids


@dataclass(frozen=True, eq=False)
class GroupRacks:
    """The racks of a group's members and partitions, where they make a difference."""

    #: Rack of each member, -1 for none.
    of_member: Ids
    #: Place of each partition's set of racks in `near`.
    kind: Ids
    #: By set and rack, the last column for members without one: whether the set has the rack.
    near: NDArray[np.bool_]
    #: Number of members in the racks of each set.
    members: Ids

    def far(self, partition: Ids, member: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return whether each partition has no replica in the rack of its member."""
        return np.asarray(~self.near[self.kind[partition], self.of_member[member]])


def find_racks(group: Group) -> GroupRacks | None:
    """Return the racks of a group, None where they make no difference.

    Kafka's rule: members have racks, partitions have some of them, and not all have the same. A
    member without a rack is near to everything, and a partition without one to no member that has.
    """
    names = sorted({m.rack for m in group.members if m.rack})
    if not names or not group.partition_racks:
        return None
    catalog, nothing = group.catalog, frozenset[str]()
    sets: dict[frozenset[str], int] = {nothing: 0}
    kind = np.zeros(catalog.total, np.int64)
    for topic, of_topic in group.partition_racks.items():
        if topic in catalog:
            start, count = catalog.span(topic).start, catalog[topic]
            for partition, held in of_topic.items():
                if 0 <= partition < count:
                    kind[start + partition] = sets.setdefault(frozenset(held), len(sets))
    ranked = sorted(sets, key=sorted)  # not in the order of the input
    kind = np.argsort([sets[held] for held in ranked])[kind]
    used = set(kind[group.subscribed].tolist())
    present = [held for place, held in enumerate(ranked) if place in used]
    everywhere = nothing.union(*present)
    if everywhere.isdisjoint(names) or all(held == everywhere for held in present):
        return None
    place = {name: i for i, name in enumerate(names)}
    of_member = np.array([place[m.rack] if m.rack else -1 for m in group.members], np.int64)
    near = np.array([[*(name in held for name in names), True] for held in ranked], np.bool_)
    counts = np.bincount(of_member[of_member >= 0], minlength=len(names))
    return GroupRacks(of_member, kind, near, near[:, :-1] @ counts)


def find_task_racks(group: Group, tasks: int) -> GroupRacks | None:
    """Return racks where task p is partition p of each topic; None where they make no difference.

    A member is near to a task if no rack has replicas of more of its partitions.
    """
    racks = find_racks(group)
    if racks is None:
        return None
    held = np.zeros((tasks, racks.near.shape[1] - 1), np.int64)
    for topic in group.subscribers:
        held[: group.catalog[topic]] += racks.near[racks.kind[group.catalog.span(topic)], :-1]
    most = held == held.max(axis=1, keepdims=True)
    if most.all():
        return None
    sets, kind = np.unique(most, axis=0, return_inverse=True)
    counts = np.bincount(racks.of_member[racks.of_member >= 0], minlength=sets.shape[1])
    near = np.column_stack((sets, np.ones(len(sets), np.bool_)))
    return GroupRacks(racks.of_member, kind.reshape(-1), near, sets @ counts)


def assign_unowned_by_rack(
    racks: GroupRacks,
    owner: NDArray[np.int32],
    claimed: NDArray[np.int32],
    ids: Ids,
    members: Ids,
) -> None:
    """Give what nobody holds to members with room, near ones first, in place.

    As Kafka's constrained assignor: partitions that fewest members are near to come first, each to
    the next member in turn that is near; then the others in turn. Here misplaced partitions
    stay where no near member has room. Members get the floor of the mean before any gets one more.
    """
    free = ids[owner[ids] < 0]
    places = _Places(owner, ids, members, racks.of_member.tolist())
    near = [[*flags, False] for flags in racks.near[:, :-1].tolist()]  # without a rack: not first
    left = []
    for partition in free[np.argsort(racks.members[racks.kind[free]], kind="stable")].tolist():
        member = places.take_near(near[racks.kind[partition]])
        if member < 0:
            left.append(partition)
        else:
            owner[partition] = member
    homeless = []
    for partition in left:
        member = int(claimed[partition])
        if member >= 0 and places.take(member):
            owner[partition] = member
        else:
            homeless.append(partition)
    places.turn = 0
    for partition in homeless:
        owner[partition] = places.take_next()


def divide_by_racks(
    catalog: Catalog,
    classes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
    racks: GroupRacks | None,
) -> tuple[
    dict[int, Ids], Sequence[tuple[tuple[int, ...], tuple[int, ...]]], dict[int, frozenset[int]]
]:
    """Divide topics and subscriptions by racks.

    Return the partitions of each topic, the distinct subscriptions, and the members that are far
    from a topic, where there are any.
    """
    topics = sorted({topic for listed, _ in classes for topic in listed})
    if racks is None:
        return {t: catalog.all_of([t]) for t in topics}, classes, {}
    parts: dict[int, Ids] = {}
    parts_of: dict[int, list[int]] = {topic: [] for topic in topics}
    kinds = len(racks.near)
    for topic in topics:
        ids = catalog.all_of([topic])
        for kind in np.unique(racks.kind[ids]).tolist():
            parts[topic * kinds + kind] = ids[racks.kind[ids] == kind]
            parts_of[topic].append(topic * kinds + kind)
    divided: dict[tuple[tuple[int, ...], int], list[int]] = {}
    far: dict[int, set[int]] = {}
    for listed, members in classes:
        own = tuple(part for topic in listed for part in parts_of[topic])
        for member in members:
            rack = int(racks.of_member[member])
            divided.setdefault((own, rack), []).append(member)
            for part in own:
                if not racks.near[part % kinds, rack]:
                    far.setdefault(part, set()).add(member)
    return (
        parts,
        [(own, tuple(members)) for (own, _), members in divided.items()],
        {part: frozenset(members) for part, members in far.items()},
    )


class _Places:
    """Room of members: those below the floor in turn, then one more for some."""

    def __init__(
        self, owner: NDArray[np.int32], ids: Ids, members: Ids, rack: Sequence[int]
    ) -> None:
        self.rack = rack
        self.floor, extra = divmod(len(ids), len(members))
        holder = owner[ids]
        held = np.bincount(holder[holder >= 0], minlength=int(members.max()) + 1)
        self.held: dict[int, int] = dict(zip(members.tolist(), held[members].tolist(), strict=True))
        #: How many may still get one above the floor.
        self.extra = extra - sum(count > self.floor for count in self.held.values())
        self.below = [m for m, count in self.held.items() if count < self.floor]
        self.level = [m for m, count in self.held.items() if count == self.floor]
        #: How many of those are in each rack.
        self.racks_below = Counter(rack[m] for m in self.below)
        self.racks_level = Counter(rack[m] for m in self.level)
        self.turn = 0

    def take_near(self, near: Sequence[bool]) -> int:
        """Take a place of the next member in a rack that is near; -1 if none has room."""
        below, rack = self.below, self.rack
        if any(count and near[r] for r, count in self.racks_below.items()):
            place = self.turn
            while not near[rack[below[place]]]:
                place = (place + 1) % len(below)
            return self._add_below(place)
        if self.extra and any(count and near[r] for r, count in self.racks_level.items()):
            return self._add_level(next(m for m in self.level if near[rack[m]]))
        return -1

    def take(self, member: int) -> bool:
        """Take a place of this member, if it has room."""
        if self.held[member] < self.floor:
            self._add_below(self.below.index(member))
        elif self.extra and self.held[member] == self.floor:
            self._add_level(member)
        else:
            return False
        return True

    def take_next(self) -> int:
        """Take a place of whoever is next."""
        return self._add_below(self.turn) if self.below else self._add_level(self.level[0])

    def _add_below(self, place: int) -> int:
        member = self.below[place]
        self.held[member] += 1
        if self.held[member] == self.floor:
            del self.below[place]
            self.level.append(member)
            self.racks_below[self.rack[member]] -= 1
            self.racks_level[self.rack[member]] += 1
        else:
            place += 1
        self.turn = place % len(self.below) if self.below else 0
        return member

    def _add_level(self, member: int) -> int:
        self.held[member] += 1
        self.level.remove(member)
        self.racks_level[self.rack[member]] -= 1
        self.extra -= 1
        return member

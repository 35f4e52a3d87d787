"""`range`: contiguous blocks of each topic, so that equal partition numbers meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.group import Assignment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from assignor_bridge.assignors.group import Group


def range_(group: Group) -> Assignment:
    """Per topic, give members contiguous blocks of partitions, the first members one more.

    Promises, in order: (1) each subscribed partition goes to one subscriber; (2) per topic, counts
    differ by at most one; (3) topics with the same subscribers and the same number of partitions
    are divided alike (co-partitioning); (4) where racks are known and partitions differ in them,
    partitions go, in order, to the first member in one of their racks that has room (KIP-881).
    Ties: members by instance id, where they have one, then by id. Counts over all topics are not
    evened out (the first members get more of every topic), lags and owners are not looked at.

    Source: Kafka 4.1.0 `RangeAssignor`; identical answers, racks included.

    >>> from assignor_bridge.assignors import Group, Member
    >>> members = (Member("C0", {"t0", "t1"}), Member("C1", {"t0", "t1"}))
    >>> print(range_(Group(members, {"t0": 3, "t1": 3})))
    C0: [t0p0, t0p1, t1p0, t1p1]
    C1: [t0p2, t1p2]
    """
    owner = np.full(group.catalog.total, -1, np.int32)
    rank = np.argsort(np.asarray(group.kafka_order, dtype=np.int64))
    ranked: dict[tuple[int, ...], tuple[int, ...]] = {}
    states: list[_Topic] = []
    for topic, subscribers in group.subscribers.items():
        if subscribers not in ranked:
            ranked[subscribers] = tuple(sorted(subscribers, key=rank.__getitem__))
        states.append(_Topic(group, topic, ranked[subscribers], owner[group.catalog.span(topic)]))
    if any(state.racks_matter for state in states):
        _match_racks(states)
        for state in states:
            state.fill(lambda _member, _partition: True)
    else:
        for state in states:
            blocks = np.full(len(state.members), state.share)
            blocks[: state.extra] += 1
            state.owner[:] = np.repeat(state.members, blocks)
    return Assignment(group, owner)


class _Topic:
    """One topic, and what is left to give of it while racks are matched."""

    def __init__(
        self, group: Group, name: str, members: tuple[int, ...], owner: NDArray[np.int32]
    ) -> None:
        self.members = members
        #: A view of the owners of this topic's partitions.
        self.owner = owner
        self.share, self.extra = divmod(len(owner), len(members))
        self.count = dict.fromkeys(members, 0)
        self.rack = {m: group.members[m].rack for m in members if group.members[m].rack}
        known = group.partition_racks.get(name, {}) if self.rack else {}
        self.racks: Sequence[frozenset[str]] = (
            [frozenset(known.get(p, ())) for p in range(len(owner))] if self.rack else ()
        )
        everywhere = frozenset().union(*self.racks)
        self.racks_matter = not everywhere.isdisjoint(self.rack.values()) and any(
            racks != everywhere for racks in self.racks
        )

    def matches(self, member: int, partition: int) -> bool:
        rack = self.rack.get(member)
        return rack is None or rack in self.racks[partition]

    def room(self, member: int) -> int:
        return max(0, self.share + (self.extra > 0) - self.count[member])

    def give(self, member: int, partition: int) -> None:
        self.owner[partition] = member
        self.count[member] += 1
        if self.count[member] > self.share:
            self.extra -= 1

    def fill(self, may: Callable[[int, int], bool]) -> None:
        for member in self.members:
            free = [p for p in np.flatnonzero(self.owner < 0).tolist() if may(member, p)]
            for partition in free[: self.room(member)]:
                self.give(member, partition)


def _match_racks(topics: list[_Topic]) -> None:
    """Give what can go to a member in a rack of a replica, co-partitioned topics together."""
    alike: dict[tuple[tuple[int, ...], int], list[_Topic]] = {}
    for topic in topics:
        alike.setdefault((topic.members, len(topic.racks)), []).append(topic)
    for (members, count), same in alike.items():
        if len(same) == 1:
            if same[0].racks_matter:
                same[0].fill(same[0].matches)
            continue
        remaining = list(members)
        for p in range(count):
            for member in remaining:
                if all(t.matches(member, p) and t.room(member) for t in same):
                    for topic in same:
                        topic.give(member, p)
                    if not any(t.room(member) for t in same):
                        remaining.remove(member)
                    break

"""`range`: contiguous blocks of each topic, so that equal partition numbers meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.group import Assignment
from assignor_bridge.assignors.order import kafka_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    """
    catalog = group.catalog
    owner = np.full(catalog.total, -1, np.int32)
    order = np.argsort(np.asarray(kafka_order(group), dtype=np.int64))  # rank of each member
    ranked: dict[tuple[int, ...], tuple[int, ...]] = {}
    states: list[_Topic] = []
    for topic, subscribers in group.subscribers.items():
        start, count = int(catalog.starts[catalog.index[topic]]), catalog[topic]
        if not count:
            continue
        members = ranked.get(subscribers)
        if members is None:
            members = ranked[subscribers] = tuple(sorted(subscribers, key=order.__getitem__))
        states.append(_Topic(group, topic, members, start, count))
    if any(state.racks_matter for state in states):
        _match_racks(states, owner)
        for state in states:
            _fill(state, owner, lambda _member, _partition: True)
    else:
        for state in states:
            share, extra = divmod(state.count, len(state.members))
            blocks = np.full(len(state.members), share)
            blocks[:extra] += 1
            owner[state.start : state.start + state.count] = np.repeat(state.members, blocks)
    return Assignment(group, owner)


class _Topic:
    """What is left to give of one topic, while racks are matched."""

    def __init__(
        self, group: Group, topic: str, members: tuple[int, ...], start: int, count: int
    ) -> None:
        self.members, self.start, self.count = members, start, count
        self.share, self.extra = divmod(count, len(members))
        self.got = dict.fromkeys(members, 0)
        self.rack = {m: group.members[m].rack for m in members if group.members[m].rack}
        known = group.partition_racks.get(topic, {}) if self.rack else {}
        self.racks: Sequence[frozenset[str]] = (
            [frozenset(known.get(p, ())) for p in range(count)] if self.rack else ()
        )
        everywhere = frozenset().union(*self.racks)
        self.racks_matter = not everywhere.isdisjoint(self.rack.values()) and any(
            racks != everywhere for racks in self.racks
        )

    def matches(self, member: int, partition: int) -> bool:
        rack = self.rack.get(member)
        return rack is None or rack in self.racks[partition]

    def room(self, member: int) -> int:
        return max(0, self.share + (self.extra > 0) - self.got[member])

    def give(self, owner: np.ndarray[tuple[int], np.dtype[np.int32]], member: int, p: int) -> None:
        owner[self.start + p] = member
        self.got[member] += 1
        if self.got[member] > self.share:
            self.extra -= 1


def _match_racks(states: list[_Topic], owner: np.ndarray[tuple[int], np.dtype[np.int32]]) -> None:
    alike: dict[tuple[tuple[int, ...], int], list[_Topic]] = {}
    for state in states:
        alike.setdefault((state.members, len(state.racks)), []).append(state)
    for (members, count), topics in alike.items():
        if len(topics) == 1:
            if topics[0].racks_matter:
                _fill(topics[0], owner, topics[0].matches)
            continue
        remaining = list(members)
        for p in range(count):
            for member in remaining:
                if all(t.matches(member, p) and t.room(member) for t in topics):
                    for topic in topics:
                        topic.give(owner, member, p)
                    if not any(t.room(member) for t in topics):
                        remaining.remove(member)
                    break


def _fill(
    state: _Topic,
    owner: np.ndarray[tuple[int], np.dtype[np.int32]],
    may: Callable[[int, int], bool],
) -> None:
    for member in state.members:
        free = [p for p in range(state.count) if owner[state.start + p] < 0 and may(member, p)]
        for p in free[: state.room(member)]:
            state.give(owner, member, p)

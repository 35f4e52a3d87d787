"""`roundrobin`: all partitions dealt over all members, like cards."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.group import Assignment

if TYPE_CHECKING:
    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.partitions import Ids


def roundrobin(group: Group) -> Assignment:
    """Deal the partitions, by topic and number, to the members in turn, skipping non-subscribers.

    Promises, in order: (1) each subscribed partition goes to one subscriber; (2) with equal
    subscriptions counts differ by at most one; with different ones they may differ by much more
    than `sticky` would. Ties: members by instance id, where they have one, then by id. Owners are
    not looked at: one member more or less moves nearly everything.

    Source: Kafka 4.1.0 `RoundRobinAssignor`; identical answers.

    >>> from assignor_bridge.assignors import Group, Member
    >>> members = (Member("C0", {"t0", "t1"}), Member("C1", {"t0", "t1"}))
    >>> print(roundrobin(Group(members, {"t0": 3, "t1": 3})))
    C0: [t0p0, t0p2, t1p1]
    C1: [t0p1, t1p0, t1p2]
    """
    catalog = group.catalog
    owner = np.full(catalog.total, -1, np.int32)
    order = np.asarray(group.kafka_order, dtype=np.int64)
    rank = np.argsort(order)
    turns: dict[tuple[int, ...], Ids] = {}
    turn = 0  # whose turn it is, as a place in `order`
    for topic, subscribers in group.subscribers.items():
        count = catalog[topic]
        if not count:
            continue
        places = turns.get(subscribers)
        if places is None:
            places = turns[subscribers] = np.sort(rank[list(subscribers)])
        first = bisect_left(places, turn)
        dealt = places[(first + np.arange(count)) % len(places)]
        owner[catalog.span(topic)] = order[dealt]
        turn = (int(dealt[-1]) + 1) % len(order)
    return Assignment(group, owner)

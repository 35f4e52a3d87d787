"""`roundrobin`: deal the partitions of all topics to the members in rotation."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.group import Assignment

if TYPE_CHECKING:
    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.partitions import Ids


def assign_roundrobin(group: Group) -> Assignment:
    """Deal partitions, sorted by topic and number, to the subscribers in rotation.

    Promises, in order: (1) each subscribed partition goes to one subscriber; (2) if all members
    subscribe to the same topics, counts differ by at most one; otherwise they may differ by much
    more than with `sticky`. Ties: members by instance id, if they have one, then by id. Owners are
    ignored: nearly all partitions move if a member joins or leaves.

    Source: Kafka 4.1.0 `RoundRobinAssignor`; the answers are identical.

    >>> from assignor_bridge.assignors import Group, Member
    >>> members = (Member("C0", {"t0", "t1"}), Member("C1", {"t0", "t1"}))
    >>> print(assign_roundrobin(Group(members, {"t0": 3, "t1": 3})))
    C0: [t0p0, t0p2, t1p1]
    C1: [t0p1, t1p0, t1p2]
    """
    catalog = group.catalog
    owner = np.full(catalog.total, -1, np.int32)
    order = np.asarray(group.kafka_order, dtype=np.int64)
    rank = np.argsort(order)
    positions_by_subscribers: dict[tuple[int, ...], Ids] = {}
    next_position = 0  # of the next member in `order`
    for topic, subscribers in group.subscribers.items():
        count = catalog[topic]
        if not count:
            continue
        positions = positions_by_subscribers.get(subscribers)
        if positions is None:
            positions = positions_by_subscribers[subscribers] = np.sort(rank[list(subscribers)])
        first_index = bisect_left(positions, next_position)
        dealt_positions = positions[(first_index + np.arange(count)) % len(positions)]
        owner[catalog.span(topic)] = order[dealt_positions]
        next_position = (int(dealt_positions[-1]) + 1) % len(order)
    return Assignment(group, owner)

"""`failover`: active/passive; the highest-priority member gets all partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.group import Assignment
from checkpoints.user_data import decode_priority, encode_priority

if TYPE_CHECKING:
    from assignor_bridge.assignors.group import Group, Member


def assign_failover(group: Group) -> Assignment:
    """Give all partitions of a topic to its highest-priority subscriber.

    Promises, in order: (1) each subscribed partition goes to one subscriber; (2) the
    highest-priority subscriber gets all partitions of a topic; when it leaves, the next-highest
    subscriber gets them. Ties: the first member by id. Members without a priority, in `priority` or
    in user data, rank below all others (in the article they rank highest and would get all
    partitions). Balance, lags, racks and owners are ignored.

    Source: `FailoverAssignor` of "Understanding Kafka partition assignment strategies".

    >>> from assignor_bridge.assignors import Group, Member
    >>> members = (Member("C0", {"t0"}), Member("C1", {"t0"}, priority=2))
    >>> print(assign_failover(Group(members, {"t0": 3})))
    C0: []
    C1: [t0p0, t0p1, t0p2]
    """
    owner = np.full(group.catalog.total, -1, np.int32)
    ranks = [_rank_priority(member) for member in group.members]
    member_by_subscribers: dict[tuple[int, ...], int] = {}
    for topic, subscribers in group.subscribers.items():
        if subscribers not in member_by_subscribers:
            member_by_subscribers[subscribers] = max(subscribers, key=lambda m: (ranks[m], -m))
        owner[group.catalog.span(topic)] = member_by_subscribers[subscribers]
    return Assignment(group, owner)


def write_priority(member: Member) -> bytes | None:
    """Return the member's priority as user data, or None if it has no priority."""
    return None if member.priority is None else encode_priority(member.priority)


def _rank_priority(member: Member) -> tuple[bool, int]:
    priority = member.priority
    if priority is None:
        priority = decode_priority(member.user_data)
    return priority is not None, priority or 0

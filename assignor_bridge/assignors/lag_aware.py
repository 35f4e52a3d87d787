"""`lag-aware`: balance partition counts, then lags, per topic. `Offsets` defines lag."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.group import Assignment
from assignor_bridge.assignors.rack_aware import assign_unowned_by_rack, find_racks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.rack_aware import GroupRacks

#: A member in a rack with a replica is preferred if its lag exceeds the minimum by at most this
#: fraction of the members' mean lag (per topic).
_TOLERATED_SHARE = 0.05


def assign_lag_aware(group: Group) -> Assignment:
    """Assign each topic's partitions in rounds, the largest lag to the least loaded member.

    Promises, in order: (1) each subscribed partition goes to one subscriber; (2) per topic, counts
    differ by at most one; (3) per topic, no member's total lag exceeds another's by more than the
    largest lag. Ties: partitions of equal lag by number, members by id. Without lags it is as
    balanced as `range`. If racks matter (see `find_racks`), a member in a rack with a replica is
    preferred if its lag exceeds the minimum by at most 5% of the members' mean; bound (3) grows by
    that amount. Negative lags become 0. Lags are not balanced across topics, and owners are
    ignored: use `lag-aware-sticky` for that.

    Source: the lag-aware proposal (KAFKA-5337), extended by racks.

    >>> from assignor_bridge.assignors import Group, Member
    >>> members = (Member("C0", {"t0"}), Member("C1", {"t0"}))
    >>> lags = {"t0": {0: 100_000, 1: 60_000, 2: 50_000}}
    >>> print(assign_lag_aware(Group(members, {"t0": 3}, lags)))
    C0: [t0p0]
    C1: [t0p1, t0p2]
    """
    owner = np.full(group.catalog.total, -1, np.int32)
    lags, racks = group.lag_list(), find_racks(group)
    for topic, subscribers in group.subscribers.items():
        span, count = group.catalog.span(topic), group.catalog[topic]
        topic_lags = lags[span]
        if not any(topic_lags):
            if racks is None:
                owner[span] = np.resize(np.asarray(subscribers), count)
            elif count:
                ids = np.arange(span.start, span.stop)
                assign_unowned_by_rack(racks, owner, owner.copy(), ids, np.asarray(subscribers))
            continue
        sorted_partitions = sorted(range(count), key=lambda p: -topic_lags[p])
        lag_by_member: dict[int, float] = dict.fromkeys(subscribers, 0)
        tolerated_lag = _TOLERATED_SHARE * sum(topic_lags) / len(lag_by_member)
        for start in range(0, count, len(lag_by_member)):  # counts are equal when a round begins
            member_lags = sorted(lag_by_member.items(), key=lambda item: (item[1], item[0]))
            partitions = sorted_partitions[start : start + len(lag_by_member)]
            members = [member for member, _ in member_lags]
            if racks is not None:
                rack_sets = racks.rack_set[span][partitions].tolist()
                members = _prefer_near_members(racks, rack_sets, member_lags, tolerated_lag)
            for partition, member in zip(partitions, members, strict=False):
                owner[span.start + partition] = member
                lag_by_member[member] += topic_lags[partition]
    return Assignment(group, owner)


def _prefer_near_members(
    racks: GroupRacks,
    rack_sets: Sequence[int],
    member_lags: Sequence[tuple[int, float]],
    tolerated_lag: float,
) -> list[int]:
    """Return a member for each partition, all different, given the partitions' rack sets.

    `member_lags` is sorted by lag. The first free near member (see `find_racks`) is used if its
    lag exceeds the first free member's by at most `tolerated_lag`, else the first free member.
    """
    queue_by_rack: dict[int, deque[int]] = {}  # free indices in `member_lags`
    rack_of_member = racks.rack_of_member.tolist()
    for index, (member, _) in enumerate(member_lags):
        queue_by_rack.setdefault(rack_of_member[member], deque()).append(index)
    chosen_members = []
    for rack_set in rack_sets:
        least_lag_index = min(queue[0] for queue in queue_by_rack.values())
        near_indices = [q[0] for rack, q in queue_by_rack.items() if racks.near[rack_set, rack]]
        index = min(near_indices, default=least_lag_index)
        if member_lags[index][1] > member_lags[least_lag_index][1] + tolerated_lag:
            index = least_lag_index
        member = member_lags[index][0]
        queue = queue_by_rack[rack_of_member[member]]
        queue.popleft()
        if not queue:
            del queue_by_rack[rack_of_member[member]]
        chosen_members.append(member)
    return chosen_members


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets of one partition that determine its lag."""

    #: Offset after the last record.
    latest: int
    #: Offset of the first record that is not deleted.
    beginning: int = 0
    #: The group's committed offset; None if there is no commit.
    committed: int | None = None

    def lag(self, offset_reset: str = "latest") -> int:
        """Return the number of offsets still to be read, at least 0.

        Without a commit it is 0 if the group starts at the end (`auto.offset.reset=latest`), and
        the size of the log otherwise. It is 0 if the commit is beyond the end (of a truncated or
        recreated log). As in Kafka's tools, it includes deleted records after the commit.

        >>> Offsets(latest=100, beginning=10, committed=40).lag()
        60
        >>> Offsets(latest=100, beginning=10).lag("earliest")
        90
        """
        if self.committed is not None:
            return max(self.latest - self.committed, 0)
        return 0 if offset_reset == "latest" else max(self.latest - self.beginning, 0)

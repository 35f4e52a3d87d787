"""`lag-aware`: even counts first, then even lag, topic by topic; and what counts as lag."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.group import Assignment
from assignor_bridge.assignors.racks import assign_unowned_by_rack, find_racks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.racks import GroupRacks

#: Share of a member's mean lag of a topic by which members may differ and count as alike, where
#: one of them is in a rack with a replica.
_ALIKE = 0.05


def lag_aware(group: Group) -> Assignment:
    """Deal each topic's partitions, largest lag first, to who has the fewest, then the least lag.

    Promises, in order: (1) each subscribed partition goes to one subscriber; (2) per topic, counts
    differ by at most one; (3) within that, per topic, total lags are as even as this greedy rule
    makes them: no member's exceeds another's by more than the largest lag. Ties: partitions of
    equal lag by number, members by id. With no lag at all it is as balanced as `range`. Where racks
    make a difference (see `racks`), members of the same count whose lags differ by less than 5% of
    the mean count as alike, and one that is near takes the partition; so the bound of (3) is wider
    by that much. Negative lags count as 0. Lags over several topics are not evened out, and owners
    are not looked at: for that see `lag-aware-sticky`.

    Source: the lag-aware proposal (KAFKA-5337); racks are ours.

    >>> from assignor_bridge.assignors import Group, Member
    >>> members = (Member("C0", {"t0"}), Member("C1", {"t0"}))
    >>> lags = {"t0": {0: 100_000, 1: 60_000, 2: 50_000}}
    >>> print(lag_aware(Group(members, {"t0": 3}, lags)))
    C0: [t0p0]
    C1: [t0p1, t0p2]
    """
    owner = np.full(group.catalog.total, -1, np.int32)
    lags, racks = group.lag_list(), find_racks(group)
    for topic, subscribers in group.subscribers.items():
        span, count = group.catalog.span(topic), group.catalog[topic]
        of_topic = lags[span]
        if not any(of_topic):
            if racks is None:
                owner[span] = np.resize(np.asarray(subscribers), count)
            elif count:
                ids = np.arange(span.start, span.stop)
                assign_unowned_by_rack(racks, owner, owner.copy(), ids, np.asarray(subscribers))
            continue
        heaviest_first = sorted(range(count), key=lambda p: -of_topic[p])
        total: dict[int, float] = dict.fromkeys(subscribers, 0)
        alike = _ALIKE * sum(of_topic) / len(total)
        for dealt in range(0, count, len(total)):  # all have the same count when a round begins
            turn = sorted(total.items(), key=_by_lag)
            dealt_now = heaviest_first[dealt : dealt + len(total)]
            members = [member for member, _ in turn]
            if racks is not None:
                kinds = racks.kind[span][dealt_now].tolist()
                members = _near_first(racks, kinds, turn, alike)
            for partition, member in zip(dealt_now, members, strict=False):
                owner[span.start + partition] = member
                total[member] += of_topic[partition]
    return Assignment(group, owner)


def _near_first(
    racks: GroupRacks, kinds: Sequence[int], turn: Sequence[tuple[int, float]], alike: float
) -> list[int]:
    """Return the member of each partition, which are sets of racks here: who has the least lag.

    But if somebody who has hardly more is in a rack with a replica, the first of those.
    """
    queues: dict[int, deque[int]] = {}  # places in `turn`, by rack
    of_member = racks.of_member.tolist()
    for place, (member, _) in enumerate(turn):
        queues.setdefault(of_member[member], deque()).append(place)
    chosen = []
    for kind in kinds:
        first = min(queue[0] for queue in queues.values())
        near = [q[0] for rack, q in queues.items() if racks.near[kind, rack]]
        place = min(near, default=first)
        if turn[place][1] > turn[first][1] + alike:
            place = first
        member = turn[place][0]
        queue = queues[of_member[member]]
        queue.popleft()
        if not queue:
            del queues[of_member[member]]
        chosen.append(member)
    return chosen


def _by_lag(item: tuple[int, float]) -> tuple[float, int]:
    return item[1], item[0]


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets of one partition that its lag follows from."""

    #: Offset after the last record.
    latest: int
    #: Offset of the first record that is still there.
    beginning: int = 0
    #: Offset that the group committed; None when it never did.
    committed: int | None = None

    def lag(self, offset_reset: str = "latest") -> int:
        """Return how many offsets are still to be read; never negative.

        Without a commit that is none if the group starts at the end (`auto.offset.reset=latest`)
        and everything there is otherwise. A commit beyond the end, of a log that was cut or
        recreated, counts as no lag; one before the first record that is still there counts from the
        commit, as Kafka's tools count: more than can be read.

        >>> Offsets(latest=100, beginning=10, committed=40).lag()
        60
        >>> Offsets(latest=100, beginning=10).lag("earliest")
        90
        """
        if self.committed is not None:
            return max(self.latest - self.committed, 0)
        return 0 if offset_reset == "latest" else max(self.latest - self.beginning, 0)

"""`lag-aware`: even counts first, then even lag, topic by topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.group import Assignment

if TYPE_CHECKING:
    from assignor_bridge.assignors.group import Group


def lag_aware(group: Group) -> Assignment:
    """Deal each topic's partitions, largest lag first, to who has the fewest, then the least lag.

    Promises, in order: (1) each subscribed partition goes to one subscriber; (2) per topic, counts
    differ by at most one; (3) within that, per topic, total lags are as even as this greedy rule
    makes them: no member's exceeds another's by more than the largest lag. Ties: partitions of
    equal lag by number, members by id. With no lag at all it is as balanced as `range`. Negative
    lags count as 0. Lags over several topics are not evened out, and owners are not looked at: for
    that see `lag-aware-sticky`.

    Source: the lag-aware proposal (KAFKA-5337).
    """
    catalog = group.catalog
    owner = np.full(catalog.total, -1, np.int32)
    lags = group.lag_list()
    for topic, subscribers in group.subscribers.items():
        start, count = int(catalog.starts[catalog.index[topic]]), catalog[topic]
        of_topic = lags[start : start + count]
        if not any(of_topic):
            owner[start : start + count] = np.resize(np.asarray(subscribers), count)
            continue
        heaviest_first = sorted(range(count), key=lambda p: -of_topic[p])
        total: dict[int, float] = dict.fromkeys(subscribers, 0)
        for dealt in range(0, count, len(total)):  # all have the same count when a round begins
            turn = sorted(total.items(), key=_by_lag)
            for partition, (member, _) in zip(
                heaviest_first[dealt : dealt + len(total)], turn, strict=False
            ):
                owner[start + partition] = member
                total[member] += of_topic[partition]
    return Assignment(group, owner)


def _by_lag(item: tuple[int, float]) -> tuple[float, int]:
    return item[1], item[0]

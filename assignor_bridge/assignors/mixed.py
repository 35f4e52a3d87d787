"""Members with different, overlapping subscriptions: the balanced assignment with the fewest moves.

Partitions of one topic are interchangeable but for who owned them, so the search runs on counts,
`flow[topic][member]`, of which there are far fewer than partitions; the partitions themselves are
chosen once at the end. Three steps: give the free ones greedily (as Kafka does), balance by chains
of moves, then undo needless moves by cycles; the last two are in `chains`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.chains import Flow, balance, move_less

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from assignor_bridge.assignors.partitions import Catalog, Ids


def mixed(
    catalog: Catalog,
    owner: NDArray[np.int32],
    classes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
) -> None:
    """Complete and balance the partitions of connected subscriptions, in place.

    Parameters
    ----------
    catalog
        Numbers of partitions.
    owner
        Index of the member whose claim counts for each partition, -1 for none; changed in place.
    classes
        Each distinct subscription: indices of its topics, and of its members.
    """
    subscribers: dict[int, list[int]] = {}
    for topics, members in classes:
        for topic in topics:
            subscribers.setdefault(topic, []).extend(members)
    span = {t: slice(int(catalog.starts[t]), int(catalog.starts[t + 1])) for t in subscribers}
    claimed = {t: owner[span[t]].copy() for t in sorted(subscribers)}
    load = np.zeros(max(max(members) for _, members in classes) + 1, np.int64)
    for holders in claimed.values():
        load += np.bincount(holders[holders >= 0], minlength=len(load))
    for topic in sorted(subscribers, key=lambda t: (len(subscribers[t]), t)):
        part = owner[span[topic]]
        free = np.flatnonzero(part < 0)
        if len(free):
            given = _to_least_loaded(load, np.asarray(sorted(subscribers[topic])), len(free))
            part[free] = given
            load += np.bincount(given, minlength=len(load))
    flow = Flow(
        classes,
        {t: _counted(owner[span[t]]) for t in claimed},
        {t: _counted(holders[holders >= 0]) for t, holders in claimed.items()},
        load.tolist(),
    )
    if balance(flow) | move_less(flow):
        for topic, before in claimed.items():
            _place(owner[span[topic]], before, flow.count[topic])


def _counted(holders: NDArray[np.int32]) -> dict[int, int]:
    members, counts = np.unique(holders, return_counts=True)
    return dict(zip(members.tolist(), counts.tolist(), strict=True))


def _to_least_loaded(load: Ids, members: Ids, count: int) -> Ids:
    """Members for `count` partitions, one by one to the least loaded, ties in order."""
    loads = load[members]
    ranked = np.sort(loads)
    cost = np.arange(1, len(ranked) + 1) * ranked - np.cumsum(ranked)  # to lift the first k level
    lifted = int(np.searchsorted(cost, count, side="right"))
    level, rest = divmod(count + int(ranked[:lifted].sum()), lifted)
    gets = np.maximum(level - loads, 0)
    gets[np.flatnonzero(loads <= level)[:rest]] += 1
    who = np.repeat(np.arange(len(members)), gets)
    height = loads[who] + np.arange(len(who)) - np.repeat(np.cumsum(gets) - gets, gets)
    return np.asarray(members[who[np.lexsort((who, height))]])


def _place(part: NDArray[np.int32], before: NDArray[np.int32], wanted: dict[int, int]) -> None:
    """Choose a topic's partitions: owned ones stay first, then those already given, then any."""
    given = part.copy()
    part[:] = -1
    left = dict(wanted)
    for source in (before, given):
        for place, member in enumerate(source.tolist()):
            if part[place] < 0 and left.get(member, 0):
                part[place] = member
                left[member] -= 1
    members = sorted(left)
    part[part < 0] = np.repeat(members, [left[member] for member in members])

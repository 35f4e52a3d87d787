"""Mixed subscriptions, for `assign` and the library: in Spark all slots subscribe alike.

The balanced assignment that crosses fewest racks and then moves least, as a minimum-cost flow.
Partitions of one topic differ only in who owned them, so the search runs on counts by topic and
member, of which there are far fewer than partitions; the partitions themselves are chosen once at
the end. Three steps: give the free ones greedily (as Kafka does), then two stages of moves.

A *chain* (an augmenting path) passes one partition from a member to the next, topic by topic, and
ends at a member with at least two fewer than the first: as long as there is one, counts are not yet
as even as they can be (and when there is none they are: loads over subscriptions form a base
polyhedron, where every local optimum is the least in sorted order). A *cycle* of moves leaves the
sorted counts as they are; one that returns more partitions to their owners than it takes away saves
moves, and when there is none left the number of moves is the least possible. The same with racks:
one crossing costs more than all moves of a cycle.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.racks import divide_by_racks
from assignor_bridge.negative_cycle import negative_cycle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from assignor_bridge.assignors.partitions import Catalog, Ids
    from assignor_bridge.assignors.racks import GroupRacks

_NOBODY: frozenset[int] = frozenset()


def balance_mixed_subscriptions(
    catalog: Catalog,
    owner: NDArray[np.int32],
    classes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
    racks: GroupRacks | None = None,
) -> None:
    """Complete and balance the partitions of connected subscriptions, in place.

    `owner` has the index of the member whose claim counts for each partition, -1 for none;
    `classes` each distinct subscription: indices of its topics, and of its members. With racks,
    the partitions of a topic whose replicas are in the same ones are a topic of their own here.
    """
    ids, classes, far = divide_by_racks(catalog, classes, racks)
    subscribers: dict[int, list[int]] = {}
    for topics, members in classes:
        for topic in topics:
            subscribers.setdefault(topic, []).extend(members)
    parts = {t: owner[ids[t]] for t in sorted(subscribers)}
    claimed = {t: part.copy() for t, part in parts.items()}
    load = np.zeros(max(max(members) for _, members in classes) + 1, np.int64)
    for topic, holders in parts.items():
        if topic in far:
            holders[np.isin(holders, list(far[topic]))] = -1
        load += np.bincount(holders[holders >= 0], minlength=len(load))
    for topic in sorted(subscribers, key=lambda t: (len(subscribers[t]), t)):
        free = np.flatnonzero(parts[topic] < 0)
        if len(free):
            near = [m for m in subscribers[topic] if m not in far.get(topic, ())]
            given = _to_least_loaded(
                load, np.asarray(sorted(near or subscribers[topic])), len(free)
            )
            parts[topic][free] = given
            load += np.bincount(given, minlength=len(load))
    flow = _Flow(
        [topics for topics, _ in classes],
        {m: c for c, (_, members) in enumerate(classes) for m in members},
        {t: _counted(part) for t, part in parts.items()},
        {t: _counted(holders[holders >= 0]) for t, holders in claimed.items()},
        load.tolist(),
        far,
    )
    balanced, better = _balance(flow), _improve(flow)
    for topic, part in parts.items():
        if balanced or better or far:
            _choose_partitions(part, claimed[topic], flow.count[topic])
        owner[ids[topic]] = part


def _counted(holders: NDArray[np.int32]) -> dict[int, int]:
    members, counts = np.unique(holders, return_counts=True)
    return dict(zip(members.tolist(), counts.tolist(), strict=True))


def _to_least_loaded(load: Ids, members: Ids, count: int) -> Ids:
    """Return members for `count` partitions, one by one to the least loaded, ties in order."""
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


def _choose_partitions(
    part: NDArray[np.int32], claimed: NDArray[np.int32], counts: dict[int, int]
) -> None:
    """Choose a topic's partitions: owned ones stay first, then those already given, then any."""
    given = part.copy()
    part[:] = -1
    missing = dict(counts)
    for source in (claimed, given):
        for place, member in enumerate(source.tolist()):
            if part[place] < 0 and missing.get(member, 0):
                part[place] = member
                missing[member] -= 1
    members = sorted(missing)
    part[part < 0] = np.repeat(members, [missing[member] for member in members])


@dataclass(slots=True)
class _Flow:
    """Counts of partitions by topic and member, changed by chains and cycles."""

    #: Topics of each distinct subscription, and the class (its subscription) of each member.
    topics: list[tuple[int, ...]]
    class_of: dict[int, int]
    #: By topic: how many partitions each holder has now; no zeros.
    count: dict[int, dict[int, int]]
    #: By topic: how many each member's claims cover.
    owned: dict[int, dict[int, int]]
    #: Partitions of each member, over all topics.
    load: list[int]
    #: By topic: the members in whose racks no replica is; topics without any are left out.
    far: dict[int, frozenset[int]]

    def move(self, topic: int, giver: int, taker: int) -> None:
        """Pass one partition of `topic`; loads are left to the caller."""
        holders = self.count[topic]
        holders[giver] -= 1
        if not holders[giver]:
            del holders[giver]
        holders[taker] = holders.get(taker, 0) + 1


def _balance(flow: _Flow) -> bool:
    """Make counts as even as they can be; return whether anything was changed."""
    changed = False
    again = True
    load = flow.load
    while again:
        again = False
        closed: dict[int, bool] = {}
        for low in sorted(flow.class_of, key=lambda m: (load[m], m)):
            while not closed.get(low):
                reached, high = _reach(flow, low)
                if load[high] < load[low] + 2:
                    for member in reached:  # what they can draw from lies within what `low` can
                        if load[member] >= load[low]:
                            closed[member] = True
                    closed[low] = True
                    break
                load[high] -= 1
                load[low] += 1
                while high != low:
                    topic, taker = reached[high]
                    flow.move(topic, high, taker)
                    high = taker
                again = changed = True
    return changed


def _reach(flow: _Flow, low: int) -> tuple[dict[int, tuple[int, int]], int]:
    """Find who could give to `low`, directly or by a chain, and the most loaded of them."""
    reached: dict[int, tuple[int, int]] = {low: (-1, -1)}
    seen_topics: set[int] = set()
    seen_classes: set[int] = set()
    queue = deque((low,))
    high = low
    while queue:
        taker = queue.popleft()
        kind = flow.class_of[taker]
        if kind in seen_classes:
            continue
        seen_classes.add(kind)
        for topic in flow.topics[kind]:
            if topic in seen_topics:
                continue
            seen_topics.add(topic)
            for giver in flow.count[topic]:
                if giver not in reached:
                    reached[giver] = (topic, taker)
                    queue.append(giver)
                    if flow.load[giver] > flow.load[high]:
                        high = giver
    return reached, high


def _improve(flow: _Flow) -> bool:
    """Undo what balance does not need, crossed racks and moves; return whether anything was."""
    changed = False
    while cycle := _cheaper_cycle(flow):
        changed = True
        for step, (topic, giver) in enumerate(cycle):
            taker = cycle[(step + 1) % len(cycle)][1]
            if topic >= 0:
                flow.move(topic, giver, taker)
            else:  # `giver` ends the chain with one more, `taker` begins the next with one less
                flow.load[giver] += 1
                flow.load[taker] -= 1
    return changed


def _cheaper_cycle(flow: _Flow) -> list[tuple[int, int]]:
    """Find a cycle of (topic, giver) that saves moves, each giving to the next; empty if none does.

    A step with topic -1 passes a place, not a partition: its giver has one fewer than the next.
    """
    lost = [
        (topic, member)
        for topic, owned in flow.owned.items()
        for member, claim in owned.items()
        if flow.count[topic].get(member, 0) < claim
    ]
    if not lost and not any(
        flow.far.get(t, _NOBODY) & held.keys() for t, held in flow.count.items()
    ):
        return []
    members = sorted(flow.class_of)
    node = {m: i for i, m in enumerate(members)}
    topics = {t: len(node) + i for i, t in enumerate(flow.count)}
    classes = len(node) + len(topics)
    levels = classes + len(flow.topics)
    crossing = 2 * levels + max(flow.load) + 2  # more than all moves of a cycle
    edges: list[tuple[int, int, int]] = []
    for topic, holders in flow.count.items():
        claim, far = flow.owned[topic], flow.far.get(topic, _NOBODY)
        for m, held in holders.items():  # giving away what was not owned saves a move
            saved = int(held > claim.get(m, 0)) + crossing * (m in far)
            edges.append((node[m], topics[topic], -saved))
    for topic, m in lost:  # its own comes back
        edges.append((topics[topic], node[m], crossing * (m in flow.far.get(topic, _NOBODY))))
    one_of = {kind: m for m, kind in flow.class_of.items()}  # all of a class are in one rack
    for kind, places in enumerate(flow.topics):
        for t in places:
            cost = 1 + crossing * (one_of[kind] in flow.far.get(t, _NOBODY))
            edges.append((topics[t], classes + kind, cost))
    lowest = min(flow.load[m] for m in members)
    for m in members:
        edges.append((classes + flow.class_of[m], node[m], 0))
        height = levels + flow.load[m] - lowest
        edges.extend(((node[m], height + 1, 0), (height, node[m], 0)))
    nodes = negative_cycle(*np.asarray(edges, dtype=np.int64).T)
    if not nodes:
        return []
    topic_of = {place: topic for topic, place in topics.items()}
    start = next(i for i, place in enumerate(nodes) if place < len(members))
    nodes = nodes[start:] + nodes[:start]
    return [  # what follows a member is a topic, or the level that joins two chains
        (topic_of.get(after, -1), members[place])
        for place, after in zip(nodes, nodes[1:] + nodes[:1], strict=True)
        if place < len(members)
    ]

"""Chains and cycles of moves over mixed subscriptions: balance first, then the fewest moves.

A minimum-cost flow in two stages. A *chain* passes one partition from a member to the next, topic
by topic, and ends at a member with at least two fewer than the first: as long as there is one,
counts are not yet as even as they can be (and when there is none they are: loads over subscriptions
form a base polyhedron, where every local optimum is the least in sorted order). A *cycle* of moves
leaves the sorted counts as they are; one that returns more partitions to their owners than it takes
away saves moves, and when there is none left the number of moves is the least possible.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.assignors.partitions import Ids


class Flow:
    """Counts of partitions by topic and member, changed by chains and cycles."""

    def __init__(
        self,
        classes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
        count: dict[int, dict[int, int]],
        owned: dict[int, dict[int, int]],
        load: list[int],
    ) -> None:
        #: Topics of each distinct subscription, and the class of each member.
        self.topics = [topics for topics, _ in classes]
        self.class_of = {m: c for c, (_, members) in enumerate(classes) for m in members}
        #: By topic: how many partitions each holder has now; no zeros.
        self.count = count
        #: By topic: how many each member's claims cover.
        self.owned = owned
        #: Partitions of each member, over all topics.
        self.load = load

    def move(self, topic: int, giver: int, taker: int) -> None:
        """Pass one partition of `topic`; loads are left to the caller."""
        holders = self.count[topic]
        holders[giver] -= 1
        if not holders[giver]:
            del holders[giver]
        holders[taker] = holders.get(taker, 0) + 1


def balance(flow: Flow) -> bool:
    """Make counts as even as they can be; say whether anything was changed."""
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


def _reach(flow: Flow, low: int) -> tuple[dict[int, tuple[int, int]], int]:
    """Who could give to `low`, directly or by a chain, and the most loaded of them (or `low`)."""
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


def move_less(flow: Flow) -> bool:
    """Undo moves that balance does not need; say whether anything was changed."""
    changed = False
    while True:
        cycle = _cheaper_cycle(flow)
        if not cycle:
            return changed
        changed = True
        for step, (topic, giver) in enumerate(cycle):
            taker = cycle[(step + 1) % len(cycle)][1]
            if topic >= 0:
                flow.move(topic, giver, taker)
            else:  # `giver` ends the chain with one more, `taker` begins the next with one less
                flow.load[giver] += 1
                flow.load[taker] -= 1


def _cheaper_cycle(flow: Flow) -> list[tuple[int, int]]:
    """Find a cycle of (topic, giver) that saves moves, each giving to the next; empty if none does.

    A step with topic -1 passes a place, not a partition: its giver has one fewer than the next.
    """
    lost = [
        (topic, member)
        for topic, owned in flow.owned.items()
        for member, claim in owned.items()
        if flow.count[topic].get(member, 0) < claim
    ]
    if not lost:
        return []
    members = sorted(flow.class_of)
    node = {m: i for i, m in enumerate(members)}
    topics = {t: len(node) + i for i, t in enumerate(flow.count)}
    classes = len(node) + len(topics)
    levels = classes + len(flow.topics)
    edges: list[tuple[int, int, int]] = []
    for topic, holders in flow.count.items():
        claim = flow.owned[topic]
        for m, held in holders.items():  # giving away what was not owned saves a move
            edges.append((node[m], topics[topic], -1 if held > claim.get(m, 0) else 0))
    edges.extend((topics[topic], node[m], 0) for topic, m in lost)  # its own comes back
    for kind, places in enumerate(flow.topics):
        edges.extend((topics[t], classes + kind, 1) for t in places)
    lowest = min(flow.load[m] for m in members)
    for m in members:
        edges.append((classes + flow.class_of[m], node[m], 0))
        height = levels + flow.load[m] - lowest
        edges.extend(((node[m], height + 1, 0), (height, node[m], 0)))
    found = _negative_cycle(np.asarray(edges, dtype=np.int64))
    if not found:
        return []
    topic_of = {place: topic for topic, place in topics.items()}
    start = next(i for i, place in enumerate(found) if place < len(members))
    found = found[start:] + found[:start]
    cycle: list[tuple[int, int]] = []
    for step, place in enumerate(found):
        if place < len(members):  # what follows is a topic, or the level that joins two chains
            after = found[(step + 1) % len(found)]
            cycle.append((topic_of.get(after, -1), members[place]))
    return cycle


def _negative_cycle(edges: Ids) -> list[int]:
    """Find the nodes of a cycle of negative cost, in order; empty if none is (Bellman-Ford)."""
    source, target, cost = edges[:, 0], edges[:, 1], edges[:, 2]
    size = int(edges[:, :2].max()) + 1
    distance = np.zeros(size, np.int64)
    before = np.full(size + 1, size, np.int64)  # the last cell is where all paths begin
    while True:
        through = distance[source] + cost
        better = distance.copy()
        np.minimum.at(better, target, through)
        used = np.flatnonzero((through == better[target]) & (through < distance[target]))
        if not len(used):
            return []
        before[target[used]] = source[used]
        distance = better
        jump = before
        for _ in range(size.bit_length()):
            jump = jump[jump]
        inside = np.flatnonzero(jump != size)
        if len(inside):
            place = int(jump[inside[0]])  # so far back that it lies on the cycle itself
            cycle = [place]
            while (previous := int(before[cycle[-1]])) != place:
                cycle.append(previous)
            return cycle[::-1]

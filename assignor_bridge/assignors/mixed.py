"""Balance members with different subscriptions, as a minimum-cost flow (not needed in Spark).

Promises, in order: counts are balanced; the fewest partitions are read across racks; the fewest
partitions move. A topic's partitions differ only in their owners, so counts by topic and member
suffice for the search.

1. Release the partitions read across racks, and assign the unowned ones greedily, as Kafka does.
2. Move partitions along *chains* (augmenting paths), from a member to another with at least two
   fewer, possibly through other members. If there is no such chain, counts are balanced: loads over
   subscriptions form a base polyhedron, in which every local optimum is a global one.
3. Move partitions along *cycles*, which keep the sorted counts, until none saves anything: reads
   across racks first, then moves. Then both are minimal, in this order.
4. Choose the partitions.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.rack_aware import split_topics_by_rack_set
from assignor_bridge.negative_cycle import find_negative_cycle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.assignors.partitions import Catalog, Ids, Owners
    from assignor_bridge.assignors.rack_aware import GroupRacks, Subscription

_NO_MEMBERS: frozenset[int] = frozenset()


def balance_mixed_subscriptions(
    catalog: Catalog,
    owner: Owners,
    classes: Sequence[Subscription],
    racks: GroupRacks | None = None,
) -> None:
    """Assign the unowned partitions of connected subscriptions and balance all, in place.

    `owner` has the member with the valid claim to each partition, or -1; `classes` has the topics
    and members of each distinct subscription. With racks, the partitions of a topic whose replicas
    are in the same racks are treated as a separate topic.

    >>> from assignor_bridge.assignors import Catalog
    >>> catalog, owner = Catalog({"t0": 3, "t1": 1}), np.array([0, 0, 0, -1], np.int32)
    >>> classes = [((0, 1), (0,)), ((0,), (1,))]  # only member 0 subscribes to t1
    >>> balance_mixed_subscriptions(catalog, owner, classes)
    >>> owner.tolist()
    [0, 1, 1, 0]
    """
    ids_by_topic, classes, far_members_by_topic = split_topics_by_rack_set(catalog, classes, racks)
    members_by_topic: dict[int, list[int]] = {}
    for topics, members in classes:
        for topic in topics:
            members_by_topic.setdefault(topic, []).extend(members)
    owners = {t: owner[ids_by_topic[t]] for t in sorted(members_by_topic)}
    claimed_owners = {t: owner_by_partition.copy() for t, owner_by_partition in owners.items()}
    load = np.zeros(max(max(members) for _, members in classes) + 1, np.int64)
    for topic, owner_by_partition in owners.items():
        if far_members := far_members_by_topic.get(topic):
            owner_by_partition[np.isin(owner_by_partition, list(far_members))] = -1
        load += np.bincount(owner_by_partition[owner_by_partition >= 0], minlength=len(load))
    # 1. Assign the unowned partitions.
    for topic in sorted(members_by_topic, key=lambda t: (len(members_by_topic[t]), t)):
        unowned_indices = np.flatnonzero(owners[topic] < 0)
        if len(unowned_indices):
            subscribers = members_by_topic[topic]
            far_members = far_members_by_topic.get(topic, _NO_MEMBERS)
            near_members = [m for m in subscribers if m not in far_members]
            candidates = np.asarray(sorted(near_members or subscribers))
            receivers = _choose_least_loaded(load, candidates, len(unowned_indices))
            owners[topic][unowned_indices] = receivers
            load += np.bincount(receivers, minlength=len(load))
    flow = _Flow(
        [topics for topics, _ in classes],
        {m: c for c, (_, members) in enumerate(classes) for m in members},
        {t: _count_by_member(owner_by_partition) for t, owner_by_partition in owners.items()},
        {t: _count_by_member(claimed_owner) for t, claimed_owner in claimed_owners.items()},
        load.tolist(),
        far_members_by_topic,
    )
    # 2. and 3. Move partitions.
    chains_moved, cycles_moved = _move_along_chains(flow), _move_along_cycles(flow)
    # 4. Choose the partitions.
    for topic, owner_by_partition in owners.items():
        if chains_moved or cycles_moved or far_members_by_topic:
            _choose_partitions(owner_by_partition, claimed_owners[topic], flow.count[topic])
        owner[ids_by_topic[topic]] = owner_by_partition


def _count_by_member(owner: Owners) -> dict[int, int]:
    members, counts = np.unique(owner[owner >= 0], return_counts=True)
    return dict(zip(members.tolist(), counts.tolist(), strict=True))


def _choose_least_loaded(load: Ids, members: Ids, count: int) -> Ids:
    """Return members for `count` partitions, each the least loaded at that point, ties in order."""
    loads = load[members]
    sorted_loads = np.sort(loads)
    # Partitions needed to raise the first k members to the same load.
    needed_counts = np.arange(1, len(sorted_loads) + 1) * sorted_loads - np.cumsum(sorted_loads)
    raised_count = int(np.searchsorted(needed_counts, count, side="right"))
    level, remaining_members_to_get_an_extra_partition = divmod(
        count + int(sorted_loads[:raised_count].sum()), raised_count
    )
    quotas = np.maximum(level - loads, 0)
    quotas[np.flatnonzero(loads <= level)[:remaining_members_to_get_an_extra_partition]] += 1
    index = np.repeat(np.arange(len(members)), quotas)
    height = loads[index] + np.arange(len(index)) - np.repeat(np.cumsum(quotas) - quotas, quotas)
    return np.asarray(members[index[np.lexsort((index, height))]])


def _choose_partitions(
    owner_by_partition: Owners, claimed_owner: Owners, counts: dict[int, int]
) -> None:
    """Choose each member's partitions of a topic, in place: claimed, then assigned, then any."""
    assigned_owner = owner_by_partition.copy()
    owner_by_partition[:] = -1
    missing_count_by_member = dict(counts)
    for preferred_owner in (claimed_owner, assigned_owner):
        for index, member in enumerate(preferred_owner.tolist()):
            if owner_by_partition[index] < 0 and missing_count_by_member.get(member, 0):
                owner_by_partition[index] = member
                missing_count_by_member[member] -= 1
    members = sorted(missing_count_by_member)
    owner_by_partition[owner_by_partition < 0] = np.repeat(
        members, [missing_count_by_member[member] for member in members]
    )


@dataclass(slots=True)
class _Flow:
    """Partition counts by topic and member, which chains and cycles change."""

    #: Topics of each class (distinct subscription).
    topics: list[tuple[int, ...]]
    #: Class of each member.
    class_by_member: dict[int, int]
    #: By topic and member: number of partitions assigned now; no zeros.
    count: dict[int, dict[int, int]]
    #: By topic and member: number of partitions claimed.
    claim_count: dict[int, dict[int, int]]
    #: By member: number of partitions over all topics.
    load: list[int]
    #: By topic: the members without a replica in their rack; no empty sets.
    far_members_by_topic: dict[int, frozenset[int]]

    def move(self, topic: int, giver: int, taker: int) -> None:
        """Move one partition of `topic`; the caller updates the loads."""
        count_by_member = self.count[topic]
        count_by_member[giver] -= 1
        if not count_by_member[giver]:
            del count_by_member[giver]
        count_by_member[taker] = count_by_member.get(taker, 0) + 1


def _move_along_chains(flow: _Flow) -> bool:
    """Move partitions along chains until the counts are balanced; return whether anything moved."""
    has_changed = False
    may_improve = True
    load = flow.load
    while may_improve:
        may_improve = False
        is_done: dict[int, bool] = {}
        for receiver in sorted(flow.class_by_member, key=lambda m: (load[m], m)):
            while not is_done.get(receiver):
                step_by_giver, giver = _find_givers(flow, receiver)
                if load[giver] < load[receiver] + 2:
                    for member in step_by_giver:  # their givers are givers of `receiver` too
                        if load[member] >= load[receiver]:
                            is_done[member] = True
                    is_done[receiver] = True
                    break
                load[giver] -= 1
                load[receiver] += 1
                while giver != receiver:
                    topic, taker = step_by_giver[giver]
                    flow.move(topic, giver, taker)
                    giver = taker
                may_improve = has_changed = True
    return has_changed


def _find_givers(flow: _Flow, receiver: int) -> tuple[dict[int, tuple[int, int]], int]:
    """Return each giver's step (topic, taker), (-1, -1) for `receiver`; and the most loaded."""
    step_by_giver: dict[int, tuple[int, int]] = {receiver: (-1, -1)}
    seen_topics: set[int] = set()
    seen_classes: set[int] = set()
    queue = deque((receiver,))
    most_loaded = receiver
    while queue:
        taker = queue.popleft()
        class_index = flow.class_by_member[taker]
        if class_index in seen_classes:
            continue
        seen_classes.add(class_index)
        for topic in flow.topics[class_index]:
            if topic in seen_topics:
                continue
            seen_topics.add(topic)
            for giver in flow.count[topic]:
                if giver not in step_by_giver:
                    step_by_giver[giver] = (topic, taker)
                    queue.append(giver)
                    if flow.load[giver] > flow.load[most_loaded]:
                        most_loaded = giver
    return step_by_giver, most_loaded


def _move_along_cycles(flow: _Flow) -> bool:
    """Shift partitions along cycles to cut cross-rack reads and moves; return whether any moved."""
    has_changed = False
    while cycle := _find_saving_cycle(flow):
        has_changed = True
        for step, (topic, giver) in enumerate(cycle):
            taker = cycle[(step + 1) % len(cycle)][1]
            if topic >= 0:
                flow.move(topic, giver, taker)
            else:  # `giver` ends a chain and gains one, `taker` begins the next and loses one
                flow.load[giver] += 1
                flow.load[taker] -= 1
    return has_changed


def _find_saving_cycle(flow: _Flow) -> list[tuple[int, int]]:
    """Return a cycle of steps (topic, giver) that saves cross-rack reads or moves; [] if none does.

    Each giver gives a partition to the next giver. A step with topic -1 joins two chains: its giver
    has one partition fewer than the next giver.
    """
    lost_claims = [
        (topic, member)
        for topic, claim_count_by_member in flow.claim_count.items()
        for member, count in claim_count_by_member.items()
        if flow.count[topic].get(member, 0) < count
    ]
    if not lost_claims and not any(
        flow.far_members_by_topic.get(t, _NO_MEMBERS) & count.keys()
        for t, count in flow.count.items()
    ):
        return []
    members = sorted(flow.class_by_member)
    # The nodes are members, topics, classes, and levels of load, in this order.
    node_by_member = {m: i for i, m in enumerate(members)}
    node_by_topic = {t: len(node_by_member) + i for i, t in enumerate(flow.count)}
    first_class_node = len(node_by_member) + len(node_by_topic)
    first_level_node = first_class_node + len(flow.topics)
    crossing_cost = 2 * first_level_node + max(flow.load) + 2  # more than all moves of a cycle
    edges: list[tuple[int, int, int]] = []
    for topic, count_by_member in flow.count.items():
        claim_count_by_member = flow.claim_count[topic]
        far_members = flow.far_members_by_topic.get(topic, _NO_MEMBERS)
        for m, count in count_by_member.items():  # giving away an unclaimed partition saves a move
            saving = (count > claim_count_by_member.get(m, 0)) + crossing_cost * (m in far_members)
            edges.append((node_by_member[m], node_by_topic[topic], -saving))
    for topic, m in lost_claims:  # taking a claimed partition back
        is_far = m in flow.far_members_by_topic.get(topic, _NO_MEMBERS)
        edges.append((node_by_topic[topic], node_by_member[m], crossing_cost * is_far))
    # All members of a class are in one rack.
    member_by_class = {class_index: m for m, class_index in flow.class_by_member.items()}
    for class_index, topics_of_class in enumerate(flow.topics):
        for t in topics_of_class:
            is_far = member_by_class[class_index] in flow.far_members_by_topic.get(t, _NO_MEMBERS)
            cost = 1 + crossing_cost * is_far
            edges.append((node_by_topic[t], first_class_node + class_index, cost))
    min_load = min(flow.load[m] for m in members)
    for m in members:
        edges.append((first_class_node + flow.class_by_member[m], node_by_member[m], 0))
        level_node = first_level_node + flow.load[m] - min_load
        edges.extend(((node_by_member[m], level_node + 1, 0), (level_node, node_by_member[m], 0)))
    cycle = find_negative_cycle(*np.asarray(edges, dtype=np.int64).T)
    if not cycle:
        return []
    topic_by_node = {node: topic for topic, node in node_by_topic.items()}
    start = next(i for i, node in enumerate(cycle) if node < len(members))
    cycle = cycle[start:] + cycle[:start]
    return [  # a member is followed by a topic, or by the level that joins two chains
        (topic_by_node.get(next_node, -1), members[node])
        for node, next_node in zip(cycle, cycle[1:] + cycle[:1], strict=True)
        if node < len(members)
    ]

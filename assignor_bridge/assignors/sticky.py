"""`sticky` and `uniform`: as balanced as possible, then as few moves as possible.

For any subscriptions. The two differ in how free partitions meet members that subscribe alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.claims import weigh_claims
from assignor_bridge.assignors.even import even
from assignor_bridge.assignors.group import Assignment
from assignor_bridge.assignors.mixed import mixed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assignor_bridge.assignors.even import Fill
    from assignor_bridge.assignors.group import Group


def sticky(group: Group) -> Assignment:
    """Balance partition counts, then keep as many partitions as possible with their owners.

    Promises, in order: (1) each subscribed partition goes to one subscriber, and a member without
    subscribed topics gets nothing; (2) counts are as even as subscriptions allow: no chain of moves
    takes a partition from one member to another that has two fewer (9/10/11 over overlapping
    subscriptions becomes 10/10/10); (3) of all assignments that are as even, one with the fewest
    moves away from owners whose claim counts (see `claims`). So nothing moves when nothing
    changed; with equal subscriptions a leave moves only the leaver's partitions and a join only
    the newcomer's share. Ties: partitions by topic and number, members by id. Racks, lags and
    capacities are not looked at.

    Source: KIP-54, KIP-341, Kafka 4.1.0 `StickyAssignor`; the same first assignment wherever that
    one's needs no chain, never less balanced, and never more moves when as balanced.

    >>> from assignor_bridge.assignors import Group, Member
    >>> owner = Member("C0", {"t0"}, {"t0": [0, 1, 3]}, generation=4)
    >>> print(sticky(Group((owner, Member("C1", {"t0"})), {"t0": 4})))
    C0: [t0p0, t0p1]
    C1: [t0p2, t0p3]
    """
    owner = weigh_claims(group).owner
    spread(group, owner)
    return Assignment(group, owner)


def uniform(group: Group) -> Assignment:
    """Balance partition counts, then keep as many partitions as possible with their owners.

    The promises are those of `sticky`, in the same order. What differs is how free partitions meet
    members of the same subscription: each takes its share in a row, so that a member reads
    neighbouring partitions of few topics. Where nothing has to change the answer costs one pass
    over the claims. Ties: partitions by topic and number, members by id. Racks are not looked at.

    Source: KIP-848, Kafka 4.1.0 `UniformAssignor`; Kafka's leaves the choice of who gets one more
    to the order of a hash map, this one to the order of ids, owners first.

    >>> from assignor_bridge.assignors import Group, Member
    >>> print(uniform(Group((Member("C0", {"t0"}), Member("C1", {"t0"})), {"t0": 4})))
    C0: [t0p0, t0p1]
    C1: [t0p2, t0p3]
    """
    owner = weigh_claims(group).owner
    spread(group, owner, "blocks")
    return Assignment(group, owner)


def spread(group: Group, owner: NDArray[np.int32], fill: Fill = "deal") -> None:
    """Complete and balance `owner`, in place, with the promises of `sticky`.

    Subscriptions that share no topic, directly or through others, do not see each other. Those
    that are alike are divided by `even`, the rest by `mixed`.
    """
    catalog = group.catalog
    for classes in _components(group):
        if len(classes) == 1:
            topics, members = classes[0]
            even(catalog, owner, catalog.all_of(topics), np.asarray(members), fill)
        else:
            mixed(catalog, owner, classes)


def _components(group: Group) -> list[list[tuple[tuple[int, ...], tuple[int, ...]]]]:
    """Group distinct subscriptions (indices of topics, members) by connected topics."""
    catalog = group.catalog
    members_of: dict[tuple[int, ...], list[int]] = {}
    for subscription, members in group.subscriptions:
        topics = tuple(sorted(catalog.index[t] for t in subscription if catalog.get(t)))
        if topics:
            members_of.setdefault(topics, []).extend(members)
    root = list(range(len(catalog)))

    def find(topic: int) -> int:
        while root[topic] != topic:
            root[topic] = root[root[topic]]
            topic = root[topic]
        return topic

    for topics in members_of:
        for topic in topics[1:]:
            root[find(topic)] = find(topics[0])
    components: dict[int, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {}
    for topics, members in members_of.items():
        components.setdefault(find(topics[0]), []).append((topics, tuple(sorted(members))))
    return list(components.values())

"""`sticky` and `uniform`: as balanced as possible, then as few moves as possible.

They differ in the order in which members with the same subscription get unowned partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from assignor_bridge.assignors.claims import resolve_claims
from assignor_bridge.assignors.group import Assignment
from assignor_bridge.assignors.mixed import balance_mixed_subscriptions
from assignor_bridge.assignors.rack_aware import assign_unowned_by_rack, find_racks
from checkpoints.sorting import stable_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.partitions import Catalog, Ids, Owners
    from assignor_bridge.assignors.rack_aware import GroupRacks, Subscription

#: How members get unowned partitions: one per round ("deal"), or their share at once ("blocks").
Fill = Literal["deal", "blocks"]


def assign_sticky(group: Group) -> Assignment:
    """Balance partition counts, then keep as many partitions as possible with their owners.

    Promises, in order: (1) each subscribed partition goes to one subscriber; (2) counts are as
    balanced as subscriptions allow: no chain of moves takes a partition from one member to another
    with at least two fewer (9/10/11 over overlapping subscriptions becomes 10/10/10); (3) if racks
    matter (see `find_racks`), few partitions have no replica in their member's rack: the fewest if
    subscriptions differ, and as few as Kafka's greedy algorithm finds if they are equal; (4) the
    fewest partitions move away from owners with valid claims (see `claims`). So nothing moves if
    nothing changed; without racks and with equal subscriptions, a leave moves only the leaver's
    partitions and a join only the newcomer's share. Ties: partitions by topic and number, members
    by id. Lags and capacities are ignored.

    Source: KIP-54, KIP-341, Kafka 4.1.0 `StickyAssignor`. The first assignment is the same unless
    a chain improves Kafka's; none is less balanced than Kafka's, or moves more if equally balanced.

    >>> from assignor_bridge.assignors import Group, Member
    >>> owner = Member("C0", {"t0"}, {"t0": [0, 1, 3]}, generation=4)
    >>> print(assign_sticky(Group((owner, Member("C1", {"t0"})), {"t0": 4})))
    C0: [t0p0, t0p1]
    C1: [t0p2, t0p3]
    """
    owner = resolve_claims(group).owner
    balance(group, owner)
    return Assignment(group, owner)


def assign_uniform(group: Group) -> Assignment:
    """Balance partition counts, then keep as many partitions as possible with their owners.

    The promises are those of `sticky`, in the same order. Unless racks matter, members of the same
    subscription take consecutive unowned partitions, so that a member reads neighbouring partitions
    of few topics. If nothing changes, it takes one pass over the claims. Ties: as in `sticky`.

    Source: KIP-848, Kafka 4.1.0 `UniformAssignor`. In Kafka, the order of a hash map decides which
    members get an extra partition; here current owners come first, then others by id. Kafka used
    racks in 3.7 only (KAFKA-14515, removed by KAFKA-16694), after balance and before owners.

    >>> from assignor_bridge.assignors import Group, Member
    >>> print(assign_uniform(Group((Member("C0", {"t0"}), Member("C1", {"t0"})), {"t0": 4})))
    C0: [t0p0, t0p1]
    C1: [t0p2, t0p3]
    """
    owner = resolve_claims(group).owner
    balance(group, owner, "blocks")
    return Assignment(group, owner)


def balance(group: Group, owner: Owners, fill: Fill = "deal") -> None:
    """Assign unowned partitions and balance `owner`, in place; `assign_sticky` lists the promises.

    Subscriptions connected by shared topics are balanced together: by `divide_evenly` if there is
    only one, else by `balance_mixed_subscriptions`. If racks matter and the group has several
    subscriptions, `balance_mixed_subscriptions` balances all of them.
    """
    catalog, racks = group.catalog, find_racks(group)
    for classes in _connect_subscriptions(group):
        if len(classes) == 1 and (racks is None or len(group.subscriptions) == 1):
            ids, members = catalog.all_of(classes[0][0]), np.asarray(classes[0][1])
            divide_evenly(catalog, owner, ids, members, fill=fill, racks=racks)
        else:
            balance_mixed_subscriptions(catalog, owner, classes, racks)


def _connect_subscriptions(group: Group) -> list[list[Subscription]]:
    """Return lists of distinct subscriptions connected by shared topics; ignore empty topics."""
    index, counts = group.catalog.index, group.catalog.counts.tolist()
    members_by_topics: dict[tuple[int, ...], list[int]] = {}
    for subscription, members in group.subscriptions:
        topics = tuple(sorted(index[t] for t in subscription if t in index and counts[index[t]]))
        if topics:
            members_by_topics.setdefault(topics, []).extend(members)
    parent = list(range(len(counts)))

    def find_root(topic: int) -> int:
        while parent[topic] != topic:
            parent[topic] = parent[parent[topic]]  # halve the path
            topic = parent[topic]
        return topic

    for topics in members_by_topics:
        for topic in topics[1:]:
            parent[find_root(topic)] = find_root(topics[0])
    component_by_root: dict[int, list[Subscription]] = {}
    for topics, indices in members_by_topics.items():
        component = component_by_root.setdefault(find_root(topics[0]), [])
        component.append((topics, tuple(sorted(indices))))
    return list(component_by_root.values())


def divide_evenly(
    catalog: Catalog,
    owner: Owners,
    ids: Ids,
    members: Ids,
    *,
    fill: Fill = "deal",
    racks: GroupRacks | None = None,
) -> None:
    """Divide `ids` evenly over `members`, in place, with the fewest moves (without racks).

    Assumption: all `members` subscribe to the topics of all P `ids`. `owner` has the member with
    the valid claim to each partition, -1 for none. The minimum quota of N members is floor(P/N).

    1. `release_surplus`: a member keeps up to the minimum quota; the first P mod N members with
       more keep an extra partition. Partitions with the highest numbers are released.
    2. `assign_unowned`: the other members are filled. At most P mod N members exceed the minimum
       quota, so the unowned partitions suffice. (With racks, `divide_by_rack` does both steps.)

    Ties: partitions in the order of `ids`, members in the order of `members`.

    >>> from assignor_bridge.assignors import Catalog
    >>> catalog, owner = Catalog({"t0": 5}), np.array([0, 0, 0, 0, -1], np.int32)
    >>> divide_evenly(catalog, owner, np.arange(5), np.array([0, 1]))
    >>> owner.tolist()
    [0, 0, 0, 1, 1]
    """
    if racks is None:
        release_surplus(catalog, owner, ids, members)
        assign_unowned(owner, ids, members, fill)
    else:
        divide_by_rack(catalog, owner, ids, members, racks)


def divide_by_rack(
    catalog: Catalog,
    owner: Owners,
    ids: Ids,
    members: Ids,
    racks: GroupRacks,
    *,
    prefer: Callable[[Owners], None] | None = None,
) -> None:
    """Divide as `divide_evenly` does, with few partitions read across racks.

    In the first pass, `prefer` may assign unowned partitions before the racks are used. Passes
    repeat until one changes nothing; without owned partitions there is one pass, as in Kafka.
    """
    may_improve = True
    while may_improve:
        old_owner, owned_ids = owner.copy(), ids[owner[ids] >= 0]
        owner_with_far = owner.copy()
        owner[owned_ids[racks.is_far(owned_ids, owner[owned_ids])]] = -1
        for candidate in (owner, owner_with_far):
            release_surplus(catalog, candidate, ids, members)
            if prefer is not None:
                prefer(candidate)
            assign_unowned_by_rack(racks, candidate, old_owner, ids, members)
            if not len(owned_ids):
                return
        # Release far partitions only if fewer partitions are far afterwards.
        if racks.is_far(ids, owner_with_far[ids]).sum() <= racks.is_far(ids, owner[ids]).sum():
            owner[ids] = owner_with_far[ids]
        may_improve, prefer = bool((owner[ids] != old_owner[ids]).any()), None


def release_surplus(catalog: Catalog, owner: Owners, ids: Ids, members: Ids) -> None:
    """Release each member's partitions above its quota (step 1 of `divide_evenly`)."""
    min_quota, extra_members = divmod(len(ids), len(members))
    counts = _count_owned(owner, ids, members)
    quotas = np.minimum(counts, min_quota)
    quotas[np.flatnonzero(counts > min_quota)[:extra_members]] += 1
    is_above_quota = counts > quotas
    if not is_above_quota.any():
        return
    quota_of_member = np.full(int(members.max()) + 2, -1, np.int64)  # -1: within quota or no owner
    quota_of_member[members[is_above_quota]] = quotas[is_above_quota]
    candidates = ids[quota_of_member[owner[ids]] >= 0]
    topic = catalog.topic_of[candidates]
    number = candidates - catalog.starts[topic]
    candidates = candidates[np.lexsort((topic, number, owner[candidates]))]
    candidate_owner = owner[candidates]
    first_index = np.flatnonzero(np.diff(candidate_owner, prepend=-1))  # of each owner
    candidate_counts = np.diff(np.append(first_index, len(candidates)))
    position = np.arange(len(candidates)) - np.repeat(first_index, candidate_counts)
    owner[candidates[position >= quota_of_member[candidate_owner]]] = -1


def assign_unowned(owner: Owners, ids: Ids, members: Ids, fill: Fill = "deal") -> None:
    """Assign unowned partitions to members below their quota (step 2 of `divide_evenly`)."""
    unowned_ids = ids[owner[ids] < 0]
    if not len(unowned_ids):
        return
    min_quota, extra_members = divmod(len(ids), len(members))
    counts = _count_owned(owner, ids, members)
    room = np.maximum(min_quota - counts, 0)
    remaining_members_to_get_an_extra_partition = extra_members - int(
        np.count_nonzero(counts > min_quota)
    )
    if fill == "deal":
        at_min = np.flatnonzero(counts == min_quota)  # get extra partitions first
        below_min = np.flatnonzero(room)
        order = np.concatenate((at_min, below_min[np.argsort(room[below_min], kind="stable")]))
        receivers = np.concatenate(
            (_deal_in_rounds(room), order[:remaining_members_to_get_an_extra_partition])
        )
    else:
        order = np.flatnonzero(counts <= min_quota)[:remaining_members_to_get_an_extra_partition]
        receivers = np.concatenate((np.repeat(np.arange(len(members)), room), order))
    owner[unowned_ids] = members[receivers]


def _count_owned(owner: Owners, ids: Ids, members: Ids) -> Ids:
    """Return the number of partitions of `ids` that each member owns."""
    owners = owner[ids]
    return np.asarray(np.bincount(owners[owners >= 0], minlength=int(members.max()) + 1)[members])


def _deal_in_rounds(room: Ids) -> Ids:
    """Return member indices in rounds; each round has every member that still has room."""
    max_room = int(room.max(initial=0))
    if not max_room:
        return np.empty(0, np.int64)
    if int(room.min()) == max_room:
        return np.tile(np.arange(len(room)), max_room)
    indices = np.repeat(np.arange(len(room)), room)
    first_index = np.cumsum(room) - room
    round_number = np.arange(len(indices)) - np.repeat(first_index, room)
    return np.asarray(indices[stable_order(round_number)])

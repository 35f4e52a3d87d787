"""`sticky` and `uniform`: as balanced as possible, then as few moves as possible.

For any subscriptions. The two differ in how free partitions meet members that subscribe alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from assignor_bridge.assignors.claims import resolve_claims
from assignor_bridge.assignors.group import Assignment
from assignor_bridge.assignors.mixed import balance_mixed_subscriptions
from assignor_bridge.assignors.racks import assign_unowned_by_rack, find_racks
from checkpoints.sorting import stable_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.partitions import Catalog, Ids
    from assignor_bridge.assignors.racks import GroupRacks

#: How free partitions meet members with room: one each in turn, or each member's share in a row.
Fill = Literal["deal", "blocks"]


def sticky(group: Group) -> Assignment:
    """Balance partition counts, then keep as many partitions as possible with their owners.

    Promises, in order: (1) each subscribed partition goes to one subscriber, and a member without
    subscribed topics gets nothing; (2) counts are as even as subscriptions allow: no chain of moves
    takes a partition from one member to another that has two fewer (9/10/11 over overlapping
    subscriptions becomes 10/10/10); (3) where racks make a difference (see `racks`), few
    partitions without a replica in their member's rack: as few as possible where subscriptions
    differ, as few as Kafka's greedy way finds where they are equal; (4) of all assignments that are
    as good, one with the fewest moves away from owners whose claim counts (see `claims`). So
    nothing moves when nothing changed; without racks and with equal subscriptions a leave moves
    only the leaver's partitions and a join only the newcomer's share. Ties: partitions by topic and
    number, members by id. Lags and capacities are not looked at.

    Source: KIP-54, KIP-341, Kafka 4.1.0 `StickyAssignor`; the same first assignment wherever that
    one's needs no chain, never less balanced, and never more moves when as balanced.

    >>> from assignor_bridge.assignors import Group, Member
    >>> owner = Member("C0", {"t0"}, {"t0": [0, 1, 3]}, generation=4)
    >>> print(sticky(Group((owner, Member("C1", {"t0"})), {"t0": 4})))
    C0: [t0p0, t0p1]
    C1: [t0p2, t0p3]
    """
    owner = resolve_claims(group).owner
    balance(group, owner)
    return Assignment(group, owner)


def uniform(group: Group) -> Assignment:
    """Balance partition counts, then keep as many partitions as possible with their owners.

    The promises are those of `sticky`, in the same order. What differs, where racks make no
    difference, is how free partitions meet members of the same subscription: each takes its share
    in a row, so that a member reads neighbouring partitions of few topics. Where nothing has to
    change the answer costs one pass over the claims. Ties: partitions by topic and number, members
    by id.

    Source: KIP-848, Kafka 4.1.0 `UniformAssignor`; Kafka's leaves the choice of who gets one more
    to the order of a hash map, this one to the order of ids, owners first. Kafka's has looked at
    racks in 3.7 only (KAFKA-14515, taken out by KAFKA-16694), after balance and before owners.

    >>> from assignor_bridge.assignors import Group, Member
    >>> print(uniform(Group((Member("C0", {"t0"}), Member("C1", {"t0"})), {"t0": 4})))
    C0: [t0p0, t0p1]
    C1: [t0p2, t0p3]
    """
    owner = resolve_claims(group).owner
    balance(group, owner, "blocks")
    return Assignment(group, owner)


def balance(group: Group, owner: NDArray[np.int32], fill: Fill = "deal") -> None:
    """Complete and balance `owner`, in place, with the promises of `sticky`.

    Subscriptions that share no topic, directly or through others, do not see each other. Those
    that are alike are divided by `divide_evenly`, the rest by `balance_mixed_subscriptions`.
    """
    catalog, racks = group.catalog, find_racks(group)
    for classes in _components(group):
        if len(classes) == 1 and (racks is None or len(group.subscriptions) == 1):
            topics, members = classes[0]
            divide_evenly(catalog, owner, catalog.all_of(topics), np.asarray(members), fill, racks)
        else:
            balance_mixed_subscriptions(catalog, owner, classes, racks)


def _components(group: Group) -> list[list[tuple[tuple[int, ...], tuple[int, ...]]]]:
    """Group distinct subscriptions (indices of topics, members) by connected topics."""
    index, counts = group.catalog.index, group.catalog.counts.tolist()
    members_of: dict[tuple[int, ...], list[int]] = {}
    for subscription, members in group.subscriptions:
        topics = tuple(sorted(index[t] for t in subscription if t in index and counts[index[t]]))
        if topics:
            members_of.setdefault(topics, []).extend(members)
    root = list(range(len(counts)))

    def find(topic: int) -> int:
        while root[topic] != topic:
            root[topic] = root[root[topic]]
            topic = root[topic]
        return topic

    for topics in members_of:
        for topic in topics[1:]:
            root[find(topic)] = find(topics[0])
    components: dict[int, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {}
    for topics, listed in members_of.items():
        components.setdefault(find(topics[0]), []).append((topics, tuple(sorted(listed))))
    return list(components.values())


def divide_evenly(  # noqa: PLR0917
    catalog: Catalog,
    owner: NDArray[np.int32],
    ids: Ids,
    members: Ids,
    fill: Fill = "deal",
    racks: GroupRacks | None = None,
) -> None:
    """Divide `ids` evenly over `members`, who subscribe alike, in place, with the fewest moves.

    Counts end as floor(P/N) or one more. A member keeps up to the floor, and the first P mod N of
    those that own more keep one above it; who must give some up gives those of the highest
    partition number. Since at most P mod N members stay above the floor, free partitions always
    suffice to fill the others: nothing has to be taken a second time.

    `owner` has the index of the member whose claim counts for each partition, -1 for none. Free
    partitions are given in the order of `ids`, members looked at in that of `members`.
    """
    if racks is None:
        release_surplus(catalog, owner, ids, members)
        assign_unowned(owner, ids, members, fill)
    else:
        divide_by_rack(catalog, owner, ids, members, racks)


def divide_by_rack(  # noqa: PLR0917
    catalog: Catalog,
    owner: NDArray[np.int32],
    ids: Ids,
    members: Ids,
    racks: GroupRacks,
    prefer: Callable[[NDArray[np.int32]], None] | None = None,
) -> None:
    """Divide as `divide_evenly` does, with few partitions across racks; `prefer` gives free ones first.

    As often as a further time would find a better swap; but what nobody held once, as Kafka's.
    """
    changed = True
    while changed:
        claimed, ids_held = owner.copy(), ids[owner[ids] >= 0]
        kept = owner.copy()
        owner[ids_held[racks.far(ids_held, owner[ids_held])]] = -1
        for one in (owner, kept):
            release_surplus(catalog, one, ids, members)
            if prefer is not None:
                prefer(one)
            assign_unowned_by_rack(racks, one, claimed, ids, members)
            if not len(ids_held):
                return
        # Giving up what is misplaced is of use only if less is afterwards.
        if racks.far(ids, kept[ids]).sum() <= racks.far(ids, owner[ids]).sum():
            owner[ids] = kept[ids]
        changed, prefer = bool((owner[ids] != claimed[ids]).any()), None


def release_surplus(catalog: Catalog, owner: NDArray[np.int32], ids: Ids, members: Ids) -> None:
    """First half of `divide_evenly`: take from each member what is beyond its share."""
    floor, extra = divmod(len(ids), len(members))
    held = _held(owner, ids, members)
    keep = np.minimum(held, floor)
    keep[np.flatnonzero(held > floor)[:extra]] += 1
    above = held > keep
    if not above.any():
        return
    limit = np.full(int(members.max()) + 2, -1, np.int64)  # the last cell stands for nobody
    limit[members[above]] = keep[above]
    theirs = ids[limit[owner[ids]] >= 0]
    topic = catalog.topic_of[theirs]
    number = theirs - catalog.starts[topic]
    theirs = theirs[np.lexsort((topic, number, owner[theirs]))]
    holder = owner[theirs]
    first = np.flatnonzero(np.diff(holder, prepend=-1))
    sizes = np.diff(np.append(first, len(theirs)))
    place = np.arange(len(theirs)) - np.repeat(first, sizes)
    owner[theirs[place >= limit[holder]]] = -1


def assign_unowned(owner: NDArray[np.int32], ids: Ids, members: Ids, fill: Fill = "deal") -> None:
    """Second half of `divide_evenly`: give what nobody holds to members with room."""
    free = ids[owner[ids] < 0]
    if not len(free):
        return
    floor, extra = divmod(len(ids), len(members))
    held = _held(owner, ids, members)
    room = np.maximum(floor - held, 0)
    extras = extra - int(np.count_nonzero(held > floor))
    if fill == "deal":
        level = np.flatnonzero(held == floor)  # then those that reach the floor, in that order
        filled = np.flatnonzero(room)
        more = np.concatenate((level, filled[np.argsort(room[filled], kind="stable")]))
        places = np.concatenate((_in_turn(room), more[:extras]))
    else:
        more = np.flatnonzero(held <= floor)[:extras]
        places = np.concatenate((np.repeat(np.arange(len(members)), room), more))
    owner[free] = members[places]


def _held(owner: NDArray[np.int32], ids: Ids, members: Ids) -> Ids:
    """Count the partitions of `ids` that each member holds."""
    holder = owner[ids]
    return np.asarray(np.bincount(holder[holder >= 0], minlength=int(members.max()) + 1)[members])


def _in_turn(room: Ids) -> Ids:
    """Return places in the order in which they get one each, in rounds, while they have room."""
    most = int(room.max(initial=0))
    if not most:
        return np.empty(0, np.int64)
    if int(room.min()) == most:
        return np.tile(np.arange(len(room)), most)
    who = np.repeat(np.arange(len(room)), room)
    first = np.cumsum(room) - room
    turn = np.arange(len(who)) - np.repeat(first, room)
    return np.asarray(who[stable_order(turn)])

"""`cooperative-sticky` and `constrained-cooperative-sticky`: sticky in two rounds (KIP-429).

What changes owner is withheld in the first, so that only moving partitions stop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.claims import resolve_claims
from assignor_bridge.assignors.group import Assignment
from assignor_bridge.assignors.racks import find_racks
from assignor_bridge.assignors.sticky import balance, divide_evenly
from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from assignor_bridge.assignors.claims import Claims
    from assignor_bridge.assignors.group import Group

    #: Completes and balances owners, in place.
    Spread = Callable[[NDArray[np.int32]], None]

#: How often an answer is looked for that the second round leaves alone.
_MOST_TRIES = 8


def cooperative_sticky(group: Group) -> Assignment:
    """Assign as `sticky` does, but withhold what another living member still owns.

    Promises, in order: (1) no partition is given to a member while another one says that it owns
    it, unless the receiver's own claim is the newest; (2) each other subscribed partition goes to
    one subscriber; (3) once the withheld partitions were given up, the next round gives them out
    and moves nothing else: each to the member named in `withheld` if all subscribe alike, and
    nearly always else, since that round is a new choice among assignments that are as good; (4)
    over both rounds all of `sticky`. With racks a second round, which is bound by fewer claims,
    may find a better swap: then it is made in the first one. (Kafka's needs a third round there,
    or more.)

    Source: KIP-429, Kafka 4.1.0 `CooperativeStickyAssignor`.

    >>> from assignor_bridge.assignors import Group, Member
    >>> owner = Member("C0", {"t0"}, {"t0": [0, 1, 2, 3]}, generation=4)
    >>> group = Group((owner, Member("C1", {"t0"})), {"t0": 4})
    >>> first = cooperative_sticky(group)
    >>> print(first)
    C0: [t0p0, t0p1]
    C1: []
    >>> print(cooperative_sticky(group.after(first, generation=5)))
    C0: [t0p0, t0p1]
    C1: [t0p2, t0p3]
    """
    return _in_two_rounds(group, resolve_claims(group), lambda owner: balance(group, owner))


def constrained_cooperative_sticky(group: Group) -> Assignment:
    """Divide the partitions evenly, in linear time, withholding those that change owner.

    Promises, in order: (1) what another living member owns is withheld until it was given up, as
    in `cooperative_sticky`; (2) counts differ by at most one; (3) racks as in `sticky`; (4) nothing
    moves when nothing changed, and never more than balance and racks need. Claims of members that
    are not of the newest generation are dropped whole. Free partitions are given in the order t0p0,
    t1p0, t2p0, t0p1, … to the members below the floor, by id, each its share in a row, then one
    each. With racks they are given as in `sticky`, in that order. The
    proposal's step of taking back from members at the ceiling never comes up here: no more than
    P mod N members keep one above the floor, so free partitions suffice (see `divide_evenly`).

    Source: the constrained cooperative sticky proposal (KAFKA-9987). It was rejected, as Kafka took
    the algorithm into the sticky assignors that it had instead of adding one.

    Raises
    ------
    OptionError
        When members subscribe to different topics: use `cooperative-sticky`.

    >>> from assignor_bridge.assignors import Group, Member
    >>> members = (Member("C0", {"t0", "t1"}), Member("C1", {"t0", "t1"}))
    >>> print(constrained_cooperative_sticky(Group(members, {"t0": 2, "t1": 2})))
    C0: [t0p0, t1p0]
    C1: [t0p1, t1p1]
    """
    reason = describe_different_subscriptions(group)
    if reason:
        raise OptionError(
            f"assignor 'constrained-cooperative-sticky' refused the group: {reason}. "
            "Use 'cooperative-sticky' for such groups."
        )
    ids = group.catalog.by_partition
    if not group.subscribed.all():
        ids = ids[group.subscribed[ids]]
    members, racks = np.arange(len(group.members)), find_racks(group)

    def fill(owner: NDArray[np.int32]) -> None:
        if len(ids):
            divide_evenly(group.catalog, owner, ids, members, "blocks", racks)

    return _in_two_rounds(group, resolve_claims(group, newest_only=True), fill)


def describe_different_subscriptions(group: Group) -> str | None:
    """Return which two members subscribe to different topics; None when all subscribe alike."""
    if len(group.subscriptions) <= 1:
        return None
    (one, first), (other, second) = group.subscriptions[:2]
    topic = min(one ^ other)
    has, lacks = (first, second) if topic in one else (second, first)
    return (
        f"its members must all subscribe to the same topics, but {group.ids[has[0]]!r} subscribes "
        f"to {topic!r} and {group.ids[lacks[0]]!r} does not"
    )


def _in_two_rounds(group: Group, claims: Claims, spread_: Spread) -> Assignment:
    """Return an answer after which the next round has nothing to move but what is withheld.

    Without racks any is. With them, partitions are given greedily, and so may be given better once
    the withheld ones are free.
    """
    owner = claims.owner.copy()
    spread_(owner)
    answer = _withhold(group, claims, owner)
    for _ in range(_MOST_TRIES):
        if answer.withheld is None or find_racks(group) is None:
            break
        after = answer.owner.copy()
        spread_(after)
        if (after == answer.owner)[answer.owner >= 0].all():
            break
        answer = _withhold(group, claims, after)
    return answer


def _withhold(group: Group, claims: Claims, owner: NDArray[np.int32]) -> Assignment:
    """Keep back the partitions that somebody else has to give up before their new owner starts."""
    withheld = np.zeros(len(owner), np.bool_)
    withheld[claims.ids[owner[claims.ids] != claims.member]] = True
    withheld &= (claims.owner != owner) & (owner >= 0)
    if not withheld.any():
        return Assignment(group, owner)
    return Assignment(
        group,
        np.where(withheld, -1, owner),
        withheld=np.where(withheld, owner, -1).astype(np.int32),
    )

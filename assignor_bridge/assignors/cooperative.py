"""`cooperative-sticky` and `constrained-cooperative-sticky`: sticky in two rounds (KIP-429).

The first round withholds the partitions that change owner; all others are read without a pause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.claims import resolve_claims
from assignor_bridge.assignors.group import Assignment
from assignor_bridge.assignors.rack_aware import find_racks
from assignor_bridge.assignors.sticky import balance, divide_evenly
from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from assignor_bridge.assignors.claims import Claims
    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.partitions import Owners

    #: Assigns the unowned partitions and balances all of them, in place.
    Balance = Callable[[Owners], None]

#: Maximum number of further attempts to find an answer that the second round does not change.
_MAX_RETRIES = 8


def assign_cooperative_sticky(group: Group) -> Assignment:
    """Assign as `sticky` does, but withhold partitions that another present member claims.

    Promises, in order: (1) no partition goes to a member while another member claims it, unless the
    receiver's claim is valid; (2) each other subscribed partition goes to one subscriber;
    (3) after the owners have revoked the withheld partitions, the next round assigns them and moves
    nothing else; each goes to the member named in `withheld` if all members subscribe to the same
    topics, and nearly always otherwise (that round chooses again among equally good assignments);
    (4) over both rounds, all promises of `sticky`, with its tie rule. With racks, the second round
    has fewer claims and could find a better swap, so the first round already makes such swaps.
    (Kafka's assignor needs three or more rounds for them.)

    Source: KIP-429, Kafka 4.1.0 `CooperativeStickyAssignor`.

    >>> from assignor_bridge.assignors import Group, Member
    >>> owner = Member("C0", {"t0"}, {"t0": [0, 1, 2, 3]}, generation=4)
    >>> group = Group((owner, Member("C1", {"t0"})), {"t0": 4})
    >>> first = assign_cooperative_sticky(group)
    >>> print(first)
    C0: [t0p0, t0p1]
    C1: []
    >>> print(assign_cooperative_sticky(group.after(first, generation=5)))
    C0: [t0p0, t0p1]
    C1: [t0p2, t0p3]
    """
    return _assign_and_withhold(group, resolve_claims(group), lambda owner: balance(group, owner))


def assign_constrained_cooperative_sticky(group: Group) -> Assignment:
    """Divide the partitions evenly, in linear time, withholding those that change owner.

    Assumption: all members subscribe to the same topics. Promises, in order: (1) partitions that
    another present member claims are withheld until it revokes them; (2) counts differ by at most
    one; (3) racks as in `sticky`; (4) nothing moves if nothing changed, and never more than balance
    and racks require. Only claims of the newest generation are used. Ties: unowned partitions, in
    the order t0p0, t1p0, t2p0, t0p1, …, fill one member after another to the minimum quota, by id;
    then members get one more each (with racks as in `sticky`). The proposal also takes partitions
    from members at the maximum quota, which `divide_evenly` makes unnecessary.

    Source: the constrained cooperative sticky proposal (KAFKA-9987). Kafka did not add this
    assignor, but used the algorithm in its existing sticky assignors.

    Raises OptionError if members subscribe to different topics; use `cooperative-sticky` for them.

    >>> from assignor_bridge.assignors import Group, Member
    >>> members = (Member("C0", {"t0", "t1"}), Member("C1", {"t0", "t1"}))
    >>> print(assign_constrained_cooperative_sticky(Group(members, {"t0": 2, "t1": 2})))
    C0: [t0p0, t1p0]
    C1: [t0p1, t1p1]
    """
    if reason := describe_different_subscriptions(group):
        raise OptionError(
            f"assignor 'constrained-cooperative-sticky' refused the group: {reason}. "
            "Use 'cooperative-sticky' for such groups."
        )
    ids = group.catalog.ids_by_number
    if not group.subscribed.all():
        ids = ids[group.subscribed[ids]]
    members, racks = np.arange(len(group.members)), find_racks(group)

    def divide(owner: Owners) -> None:
        if len(ids):
            divide_evenly(group.catalog, owner, ids, members, fill="blocks", racks=racks)

    return _assign_and_withhold(group, resolve_claims(group, newest_only=True), divide)


def describe_different_subscriptions(group: Group) -> str | None:
    """Return text that names two members with different subscriptions, or None if all agree."""
    if len(group.subscriptions) <= 1:
        return None
    (one_topics, (one, *_)), (other_topics, (other, *_)) = group.subscriptions[:2]
    topic = min(one_topics ^ other_topics)
    subscriber, non_subscriber = (one, other) if topic in one_topics else (other, one)
    return (
        f"all members must subscribe to the same topics, but {group.ids[subscriber]!r} "
        f"subscribes to {topic!r} and {group.ids[non_subscriber]!r} does not"
    )


def _assign_and_withhold(group: Group, claims: Claims, balance_owners: Balance) -> Assignment:
    """Return a balanced assignment that withholds partitions until their owners revoke them.

    The next round moves only those. Without racks, the first attempt is such an assignment. With
    racks, the greedy choice may improve once the withheld partitions have no owner, so the
    balancing is repeated (`_MAX_RETRIES`).
    """
    owner = claims.owner.copy()
    balance_owners(owner)
    assignment = _withhold(group, claims, owner)
    for _ in range(_MAX_RETRIES):
        if assignment.withheld is None or find_racks(group) is None:
            break
        next_owner = assignment.owner.copy()
        balance_owners(next_owner)
        if (next_owner == assignment.owner)[assignment.owner >= 0].all():
            break
        assignment = _withhold(group, claims, next_owner)
    return assignment


def _withhold(group: Group, claims: Claims, owner: Owners) -> Assignment:
    """Return an assignment that withholds partitions which another member must revoke first."""
    is_withheld = np.zeros(len(owner), np.bool_)
    is_withheld[claims.ids[owner[claims.ids] != claims.claimant]] = True
    is_withheld &= (claims.owner != owner) & (owner >= 0)
    if not is_withheld.any():
        return Assignment(group, owner)
    withheld = np.where(is_withheld, owner, -1).astype(np.int32)
    return Assignment(group, np.where(is_withheld, -1, owner), withheld=withheld)

"""`constrained-cooperative-sticky`: linear passes for members with the same subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.claims import claims
from assignor_bridge.assignors.cooperative import withhold
from assignor_bridge.assignors.even import even
from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from assignor_bridge.assignors.group import Assignment, Group


def different_subscriptions(group: Group) -> str | None:
    """Say which two members subscribe to different topics; None when all subscribe alike."""
    if len(group.subscriptions) <= 1:
        return None
    (one, first), (other, second) = group.subscriptions[:2]
    topic = min(one ^ other)
    have, lack = (first, second) if topic in one else (second, first)
    return (
        f"its members must all subscribe to the same topics, but {group.ids[have[0]]!r} subscribes "
        f"to {topic!r} and {group.ids[lack[0]]!r} does not"
    )


def constrained_cooperative_sticky(group: Group) -> Assignment:
    """Divide the partitions evenly, in linear time, withholding those that change owner.

    Promises, in order: (1) what another living member owns is withheld until it was given up, as
    in `cooperative_sticky`; (2) counts differ by at most one; (3) nothing moves when nothing
    changed, and never more than balance needs. Claims of members that are not of the newest
    generation are dropped whole. Free partitions are given in the order t0p0, t1p0, t2p0, t0p1, …
    to the members below the floor, by id, each its share in a row, then one each. The
    proposal's step of taking back from members at the ceiling never comes up here: no more than
    P mod N members keep one above the floor, so free partitions suffice (see `even`).

    Source: the constrained cooperative sticky proposal (KAFKA-9987). It was rejected, as Kafka took
    the algorithm into the sticky assignors that it had instead of adding one.

    Raises
    ------
    OptionError
        When members subscribe to different topics: use `cooperative-sticky`.
    """
    reason = different_subscriptions(group)
    if reason:
        raise OptionError(
            f"assignor 'constrained-cooperative-sticky' refused the group: {reason}. "
            "Use 'cooperative-sticky' for such groups."
        )
    held = claims(group, newest_only=True)
    owner = held.owner.copy()
    ids = group.catalog.by_partition
    if not group.wanted.all():
        ids = ids[group.wanted[ids]]
    if len(ids):
        even(group.catalog, owner, ids, np.arange(len(group.members)), "blocks")
    return withhold(group, held, owner)

"""`uniform`: the even division of the broker-side assignor (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge.assignors.claims import claims
from assignor_bridge.assignors.group import Assignment
from assignor_bridge.assignors.sticky import spread

if TYPE_CHECKING:
    from assignor_bridge.assignors.group import Group


def uniform(group: Group) -> Assignment:
    """Balance partition counts, then keep as many partitions as possible with their owners.

    The promises are those of `sticky`, in the same order. What differs is how free partitions meet
    members of the same subscription: each takes its share in a row, so that a member reads
    neighbouring partitions of few topics. Where nothing has to change the answer costs one pass
    over the claims. Ties: partitions by topic and number, members by id. Racks are not looked at.

    Source: KIP-848, Kafka 4.1.0 `UniformAssignor`; Kafka's leaves the choice of who gets one more
    to the order of a hash map, this one to the order of ids, owners first.
    """
    owner = claims(group).owner
    spread(group, owner, "blocks")
    return Assignment(group, owner)

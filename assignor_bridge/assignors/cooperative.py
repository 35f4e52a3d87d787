"""`cooperative-sticky`: sticky in two rounds, so that only moving partitions stop (KIP-429)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.claims import claims
from assignor_bridge.assignors.group import Assignment
from assignor_bridge.assignors.sticky import spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assignor_bridge.assignors.claims import Claims
    from assignor_bridge.assignors.group import Group


def cooperative_sticky(group: Group) -> Assignment:
    """Assign as `sticky` does, but withhold what another living member still owns.

    Promises, in order: (1) no partition is given to a member while another one says that it owns
    it, unless the receiver's own claim is the newest; (2) each other subscribed partition goes to
    one subscriber; (3) once the withheld partitions were given up, the next round gives them out
    and moves nothing else: each to the member named in `withheld` if all subscribe alike, and
    nearly always else, since that round is a new choice among assignments that are as good; (4)
    over both rounds all of `sticky`.

    Source: KIP-429, Kafka 4.1.0 `CooperativeStickyAssignor`.
    """
    held = claims(group)
    owner = held.owner.copy()
    spread(group, owner)
    return withhold(group, held, owner)


def withhold(group: Group, held: Claims, owner: NDArray[np.int32]) -> Assignment:
    """Keep back the partitions that somebody else has to give up before their new owner starts."""
    still = np.zeros(len(owner), np.bool_)
    still[held.ids[owner[held.ids] != held.member]] = True
    still &= (held.owner != owner) & (owner >= 0)
    if not still.any():
        return Assignment(group, owner)
    return Assignment(
        group, np.where(still, -1, owner), withheld=np.where(still, owner, -1).astype(np.int32)
    )

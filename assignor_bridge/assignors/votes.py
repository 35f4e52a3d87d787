"""Which strategy a group uses, when each member lists those that it supports."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from assignor_bridge.errors import AssignorError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class InconsistentStrategyError(AssignorError, ValueError):
    """The members of a group have no strategy in common (Kafka: InconsistentGroupProtocol)."""


def elect(supported: Mapping[str, Sequence[str]]) -> str:
    """Elect the strategy that all members list and most members prefer.

    Each member votes for the first name of its list that is in all lists. Ties go to the name that
    comes first in the list of the first member, by id, that has one of them in front. So a group
    is upgraded by listing new and old until every member lists the new.

    Raises
    ------
    InconsistentStrategyError
        When nothing is common; the message gives each member's list.
    """
    members = sorted(supported)
    common = set(supported[members[0]]).intersection(*supported.values()) if members else set()
    if not common:
        lists = "; ".join(f"{m!r} supports {', '.join(supported[m]) or 'none'}" for m in members)
        raise InconsistentStrategyError(
            f"the group has no assignor that all its members support: {lists or 'it is empty'}. "
            "Add a common one to every member's list before removing the old one"
        )
    ballots = [next(name for name in supported[m] if name in common) for m in members]
    votes = Counter(ballots)
    return max(votes, key=lambda name: (votes[name], -ballots.index(name)))

"""Simulate rebalances and strategy elections, to test assignors.

Members and groups are values, so a test builds each state of a group: add a `Member` for a join,
remove one for a crash, and add an old `Member` for a zombie with an outdated claim (KIP-341).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.check import assign_checked
from assignor_bridge.assignors.claims import resolve_claims
from assignor_bridge.errors import AssignorError, PlanError, elide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assignor_bridge.assignors.group import Assignment, Group
    from assignor_bridge.assignors.protocol import Assignor

#: A cooperative rebalance that still withholds partitions after this number of rounds is stuck.
_MAX_ROUNDS = 10


@dataclass(frozen=True)
class Round:
    """One round of a rebalance, which ends with a new generation."""

    generation: int
    assignment: Assignment
    #: Number of partitions taken from present members with valid claims.
    moved: int
    #: The group with the claims that its members make in the next rebalance.
    after: Group


def rebalance(assignor: Assignor, group: Group, generation: int = 0) -> list[Round]:
    """Rebalance until nothing is withheld; return the rounds (an eager assignor needs only one).

    Every answer is checked. A cooperative assignor must not give a partition away while its owner
    holds it. `generation` is the group's last generation, if it is newer than every member's.

    Raises PlanError for an invalid answer or an endless rebalance, OptionError for a refusal.

    >>> from assignor_bridge.assignors import Group, Member, lookup
    >>> owner = Member("C0", {"t0"}, {"t0": [0, 1, 2, 3]}, generation=4)
    >>> group = Group((owner, Member("C1", {"t0"})), {"t0": 4})
    >>> for round in rebalance(lookup("cooperative-sticky"), group):
    ...     print(round.generation, round.assignment.as_dict())
    5 {'C0': {'t0': [0, 1]}, 'C1': {}}
    6 {'C0': {'t0': [0, 1]}, 'C1': {'t0': [2, 3]}}
    """
    rounds: list[Round] = []
    last_generation = max((generation, *(m.generation or 0 for m in group.members)))
    for next_generation in range(last_generation + 1, last_generation + 1 + _MAX_ROUNDS):
        group = _add_user_data(assignor, group)
        old_owner = resolve_claims(group).owner
        assignment = assign_checked(assignor, group)
        was_taken = (old_owner >= 0) & (old_owner != assignment.owner)
        given_away_ids = np.flatnonzero(was_taken & (assignment.owner >= 0))
        # With eager assignors all members revoke everything before they join.
        if len(given_away_ids) and "COOPERATIVE" in assignor.protocols:
            names = ", ".join(group.catalog.name(int(i)) for i in given_away_ids[:5])
            raise PlanError(f"assignor {assignor.name!r} gave away owned partitions: {names}")
        group = group.after(assignment, next_generation, assignor.on_assignment)
        rounds.append(Round(next_generation, assignment, int(np.count_nonzero(was_taken)), group))
        if not assignment.transferring.count:
            return rounds
    raise PlanError(f"assignor {assignor.name!r} still withholds partitions in round {_MAX_ROUNDS}")


def _add_user_data(assignor: Assignor, group: Group) -> Group:
    """Return the group with the user data that the assignor adds to each subscription."""
    user_data = [assignor.user_data(member) for member in group.members]
    members = tuple(
        member if data is None else replace(member, user_data=data)
        for member, data in zip(group.members, user_data, strict=True)
    )
    return replace(group, members=members)


class InconsistentStrategyError(AssignorError, ValueError):
    """The members of a group share no strategy (Kafka: InconsistentGroupProtocol)."""


def elect(supported: Mapping[str, Sequence[str]]) -> str:
    """Return the strategy that all members list and most members prefer.

    Each member votes for the first name of its list that is in all lists. If strategies tie, the
    one with the first voter by id wins. To upgrade a group, list both the new and the old strategy
    until every member lists the new one.

    Raises InconsistentStrategyError if there are no members, or if their lists share no name.

    >>> elect({"C0": ["cooperative-sticky", "sticky"], "C1": ["sticky"]})
    'sticky'
    """
    members = sorted(supported)
    if not members:
        raise InconsistentStrategyError("the group has no members: pass the list of at least one")
    common_names = set(supported[members[0]]).intersection(*supported.values())
    if not common_names:
        lists = [f"{m!r} supports {', '.join(supported[m]) or 'none'}" for m in members]
        raise InconsistentStrategyError(
            f"the group has no assignor that all its members support: {elide(lists, 5, '; ')}. "
            "Add a common strategy to every member's list before you remove the old one"
        )
    # A counter keeps the order of insertion, and `max` takes the first of equal votes.
    votes = Counter(next(name for name in supported[m] if name in common_names) for m in members)
    return max(votes, key=votes.__getitem__)

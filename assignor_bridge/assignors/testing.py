"""For tests of assignors: the rounds of a rebalance, and the election of a strategy.

Members and groups are values, so a test plays a group's life by building the next one: a newcomer
is one `Member` more, one that crashed is missing, and one that comes back is the `Member` that it
was, with the claim that it left with (the zombie of KIP-341).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.check import assign_checked
from assignor_bridge.assignors.claims import resolve_claims
from assignor_bridge.errors import AssignorError, PlanError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assignor_bridge.assignors.group import Assignment, Group
    from assignor_bridge.assignors.protocol import Assignor

#: Rounds after which a cooperative rebalance that still withholds is taken to be stuck.
_MOST_ROUNDS = 10


@dataclass(frozen=True)
class Round:
    """One round of a rebalance, which ends at a generation."""

    generation: int
    assignment: Assignment
    #: Partitions that left a member that is still present and rightly owned them.
    moved: int
    #: The group as it joins next time.
    after: Group


def rebalance(assignor: Assignor, group: Group, generation: int = 0) -> list[Round]:
    """Play rounds until nothing is withheld: one round, if the assignor is not cooperative.

    Every answer is checked, and so is that no partition is given away under a present owner in the
    rounds of a cooperative assignor. `generation` is the last one there was, if no member has it.

    Raises
    ------
    PlanError
        For an answer that breaks a rule, or a rebalance that does not come to rest.

    >>> from assignor_bridge.assignors import Group, Member, lookup
    >>> owner = Member("C0", {"t0"}, {"t0": [0, 1, 2, 3]}, generation=4)
    >>> group = Group((owner, Member("C1", {"t0"})), {"t0": 4})
    >>> for round in rebalance(lookup("cooperative-sticky"), group):
    ...     print(round.generation, round.assignment.as_dict())
    5 {'C0': {'t0': [0, 1]}, 'C1': {}}
    6 {'C0': {'t0': [0, 1]}, 'C1': {'t0': [2, 3]}}
    """
    rounds: list[Round] = []
    last = max((generation, *(m.generation or 0 for m in group.members)))
    for number in range(last + 1, last + 1 + _MOST_ROUNDS):
        group = _with_user_data(assignor, group)
        before = resolve_claims(group).owner
        assignment = assign_checked(assignor, group)
        left = (before >= 0) & (before != assignment.owner)
        taken = np.flatnonzero(left & (assignment.owner >= 0))
        # With eager assignors all members have given up everything before they join.
        if len(taken) and "COOPERATIVE" in assignor.protocols:
            names = ", ".join(group.catalog.name(int(i)) for i in taken[:5])
            raise PlanError(f"partitions were given away while their owner held them: {names}")
        group = group.after(assignment, number, assignor.on_assignment)
        rounds.append(Round(number, assignment, int(np.count_nonzero(left)), group))
        if not assignment.transferring.count:
            return rounds
    raise PlanError(f"assignor {assignor.name!r} still withholds after {_MOST_ROUNDS} rounds")


def _with_user_data(assignor: Assignor, group: Group) -> Group:
    """Return the group with what each member's assignor adds to its subscription."""
    added = {member.id: assignor.user_data(member) for member in group.members}
    members = tuple(
        member if added[member.id] is None else replace(member, user_data=added[member.id])
        for member in group.members
    )
    return replace(group, members=members)


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

    >>> elect({"C0": ["cooperative-sticky", "sticky"], "C1": ["sticky"]})
    'sticky'
    """
    members = sorted(supported)
    common = set(supported[members[0]]).intersection(*supported.values()) if members else set()
    if not common:
        lists = "; ".join(f"{m!r} supports {', '.join(supported[m]) or 'none'}" for m in members)
        raise InconsistentStrategyError(
            f"the group has no assignor that all its members support: {lists or 'it is empty'}. "
            "Add a common one to every member's list before removing the old one"
        )
    # A counter keeps the order in which its keys came, and `max` takes the first of equals.
    votes = Counter(next(name for name in supported[m] if name in common) for m in members)
    return max(votes, key=votes.__getitem__)

"""A consumer group in memory: joins, leaves, crashes, returns and rounds until nothing moves.

It plays the coordinator and the leader of a group, without clock or network. What a member
remembers is in its `Member` value, so a member that was away comes back with the claim that it left
with: that is the zombie of KIP-341. Every answer is checked, and so is that no partition is ever
given away under a present owner in the rounds of a cooperative rebalance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.check import assign_checked
from assignor_bridge.assignors.claims import claims
from assignor_bridge.assignors.group import Assignment, Group, Member
from assignor_bridge.assignors.own import Own
from assignor_bridge.assignors.protocol import after_round
from assignor_bridge.assignors.registry import lookup
from assignor_bridge.assignors.votes import elect
from assignor_bridge.errors import OptionError, PlanError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from assignor_bridge.assignors.protocol import Assignor

#: Rounds after which a cooperative rebalance that still withholds is taken to be stuck.
_MOST_ROUNDS = 10


@dataclass(frozen=True)
class Round:
    """One generation of a group: who assigned what, and how much moved."""

    generation: int
    strategy: str
    assignment: Assignment
    #: Partitions that left a member that is still present and rightly owned them.
    moved: int


class InMemoryGroup:
    """A consumer group whose members join, leave, crash and come back.

    Parameters
    ----------
    topics
        Topics with their partition counts.
    strategies
        What a member supports unless it says otherwise when it joins.
    find
        Gives the assignor of a name.
    lags, partition_racks, standby_replicas
        As in `Group`.
    """

    def __init__(
        self,
        topics: Mapping[str, int],
        strategies: Sequence[str] = ("sticky",),
        *,
        find: Callable[[str], Assignor] = lookup,
        lags: Mapping[str, Mapping[int, float]] | None = None,
        partition_racks: Mapping[str, Mapping[int, frozenset[str]]] | None = None,
        standby_replicas: int = 0,
    ) -> None:
        self.generation = 0
        #: Everything that happened, for people: printed when a test fails.
        self.history: list[str] = []
        self._group = Group((), topics, lags or {}, partition_racks or {}, standby_replicas)
        self._strategies = tuple(strategies)
        self._find = find
        self._assignors: dict[str, Assignor] = {}
        self._present: dict[str, Member] = {}
        self._away: dict[str, Member] = {}
        self._supported: dict[str, tuple[str, ...]] = {}

    @property
    def group(self) -> Group:
        """The present members with their claims."""
        return replace(self._group, members=tuple(self._present.values()))

    def join(self, member: Member, strategies: Sequence[str] | None = None) -> None:
        """Let a member in, with whatever it claims to own."""
        if member.id in self._present:
            raise OptionError(f"member {member.id!r} is in the group already: let it leave first")
        self._present[member.id] = member
        self._supported[member.id] = tuple(strategies or self._strategies)
        self._away.pop(member.id, None)
        self.history.append(f"{member.id} joins")

    def leave(self, member_id: str) -> None:
        """Let a member go for good."""
        self._taken(member_id)
        self.history.append(f"{member_id} leaves")

    def crash(self, member_id: str) -> None:
        """Lose a member that does not know it: it keeps its claim for when it comes back."""
        self._away[member_id] = self._taken(member_id)
        self.history.append(f"{member_id} crashes")

    def come_back(self, member_id: str) -> None:
        """Let a crashed member in again, with the claim that it had."""
        if member_id not in self._away:
            raise OptionError(f"member {member_id!r} did not crash: only such can come back")
        self._present[member_id] = self._away.pop(member_id)
        self.history.append(f"{member_id} comes back")

    def upgrade(self, member_id: str, strategies: Sequence[str]) -> None:
        """Change which strategies a member supports, as a rolling restart does."""
        if member_id not in self._present:
            raise OptionError(f"member {member_id!r} is not in the group: it cannot be upgraded")
        self._supported[member_id] = tuple(strategies)
        self.history.append(f"{member_id} supports {', '.join(strategies)}")

    def resize(self, topics: Mapping[str, int]) -> None:
        """Change the partition counts of some topics, or add topics."""
        self._group = replace(self._group, topics={**self._group.topics, **topics})
        self.history.append(f"topics are {dict(self._group.topics)}")

    def rebalance(self) -> list[Round]:
        """Play rounds until nothing is withheld: one round, if the assignor is not cooperative.

        Raises
        ------
        InconsistentStrategyError
            When the members have no strategy in common.
        PlanError
            For an answer that breaks a rule, or a rebalance that does not come to rest.
        """
        rounds: list[Round] = []
        while not rounds or rounds[-1].assignment.transferring.count:
            if len(rounds) == _MOST_ROUNDS:
                raise PlanError(f"the group did not come to rest: {'; '.join(self.history[-20:])}")
            rounds.append(self._round())
        return rounds

    def _round(self) -> Round:
        name = elect({m: self._supported[m] for m in self._present})
        assignor = self._assignor(name)
        group = _subscribed(assignor, self.group)
        before = claims(group).owner
        assignment = assign_checked(assignor, group)
        self._no_two_owners(group, assignment, "COOPERATIVE" in assignor.protocols)
        self.generation += 1
        after = after_round(assignor, group, assignment, self.generation)
        self._present.update((member.id, member) for member in after.members)
        moved = int(np.count_nonzero((before >= 0) & (before != assignment.owner)))
        self.history.append(f"generation {self.generation}: {name}, {moved} moved, {assignment}")
        return Round(self.generation, name, assignment, moved)

    def _assignor(self, name: str) -> Assignor:
        """Give the group's assignor of a name: one object for all its rounds."""
        if name not in self._assignors:
            assignor = self._find(name)
            if isinstance(assignor, Own) and not assignor.is_configured:
                assignor = assignor.configured({})
            self._assignors[name] = assignor
        return self._assignors[name]

    def _no_two_owners(self, group: Group, assignment: Assignment, cooperative: bool) -> None:
        """Check that a partition that somebody still reads goes to nobody else (cooperative only).

        With eager assignors all members have given up everything before they join.
        """
        if not cooperative:
            return
        owners = claims(group).owner
        given = assignment.owner
        taken = np.flatnonzero((owners >= 0) & (given >= 0) & (given != owners))
        if len(taken):
            names = ", ".join(group.catalog.name(int(i)) for i in taken[:5])
            raise PlanError(f"partitions were given away under their owner: {names}")

    def _taken(self, member_id: str) -> Member:
        if member_id not in self._present:
            raise OptionError(f"member {member_id!r} is not in the group: it cannot leave")
        return self._present.pop(member_id)


def _subscribed(assignor: Assignor, group: Group) -> Group:
    """Add what each member's assignor writes into its subscription."""
    written = [assignor.user_data(member) for member in group.members]
    if not any(written):
        return group
    return replace(
        group,
        members=tuple(
            member if data is None else replace(member, user_data=data)
            for member, data in zip(group.members, written, strict=True)
        ),
    )


def settle(assignor: Assignor, group: Group) -> Assignment:
    """Play a cooperative assignor's rounds to the end, for callers that can wait for none.

    A micro-batch reads every partition, and nobody reads between two batches: what one round
    withholds has been given up when the next begins.
    """
    generation = max((m.generation or 0 for m in group.members), default=0)
    assignment = assign_checked(assignor, group)
    for step in range(1, _MOST_ROUNDS):
        if not assignment.transferring.count:
            return assignment
        group = after_round(assignor, group, assignment, generation + step)
        assignment = assign_checked(assignor, group)
    raise PlanError(f"assignor {assignor.name!r} still withholds after {_MOST_ROUNDS} rounds")


def members_of(ids: Iterable[str], topics: Iterable[str]) -> list[Member]:
    """Make members with one and the same subscription."""
    subscription = frozenset(topics)
    return [Member(name, subscription) for name in ids]

"""What an assignor is: a name, its protocols, a precondition, and one pure function.

The shape is Kafka's ConsumerPartitionAssignor: subscription user data, assign, on_assignment.
Kafka's objects keep what they were assigned in fields; here the member is a value and comes back
changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from assignor_bridge.assignors.group import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assignor_bridge.assignors.group import Assignment, Group, Member

#: How members hand partitions over: all at once, or revoke first and receive in the next round.
RebalanceProtocol = Literal["EAGER", "COOPERATIVE"]


@runtime_checkable
class Assignor(Protocol):
    """What the group, the planner and the CLI ask of an assignor."""

    @property
    def name(self) -> str:
        """Name in `partition.assignment.strategy` and in `.option("assignor", …)`."""

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]:
        """Supported rebalance protocols, the preferred one first."""

    def refusal(self, group: Group) -> str | None:
        """Why this group cannot be assigned (a precondition that fails), None when it can."""

    def reservation(self, group: Group) -> str | None:
        """Why another assignor of a list should be preferred, though this one can; None if none."""

    def assign(self, group: Group) -> Assignment:
        """Give each subscribed partition to one member."""

    def user_data(self, member: Member) -> bytes | None:
        """Bytes that the member adds to its subscription; None for none."""

    def on_assignment(
        self, member: Member, owned: Mapping[str, Sequence[int]], generation: int
    ) -> Member:
        """Give the member as it joins next time, having been told what it owns now."""


def after_round(assignor: Assignor, group: Group, assignment: Assignment, generation: int) -> Group:
    """Give the group as it joins next time, each member having been told what it got."""
    return replace(
        group,
        members=tuple(
            replace(
                assignor.on_assignment(member, assignment[member.id], generation),
                standby=assignment.standbys.get(member.id, NOTHING),
            )
            for member in group.members
        ),
    )


def no_objection(_group: Group) -> str | None:
    """Have nothing against any group."""
    return None


def no_user_data(_member: Member) -> bytes | None:
    """Add nothing to the subscription."""
    return None


@dataclass(frozen=True)
class Strategy:
    """An assignor made of functions: all of ours are, one row each in `registry`."""

    name: str
    function: Callable[[Group], Assignment]
    protocols: tuple[RebalanceProtocol, ...] = ("EAGER",)
    precondition: Callable[[Group], str | None] = no_objection
    soft_condition: Callable[[Group], str | None] = no_objection
    encode: Callable[[Member], bytes | None] = no_user_data

    def refusal(self, group: Group) -> str | None:
        """See `Assignor.refusal`."""
        return self.precondition(group)

    def reservation(self, group: Group) -> str | None:
        """See `Assignor.reservation`."""
        return self.soft_condition(group)

    def assign(self, group: Group) -> Assignment:
        """See `Assignor.assign`."""
        return self.function(group)

    def user_data(self, member: Member) -> bytes | None:
        """See `Assignor.user_data`."""
        return self.encode(member)

    def on_assignment(
        self, member: Member, owned: Mapping[str, Sequence[int]], generation: int
    ) -> Member:
        """See `Assignor.on_assignment`: the member remembers what it owns and since when."""
        return replace(member, owned=owned, generation=generation)

"""What an assignor is: a name, its protocols, a precondition, and one pure function.

The shape is Kafka's ConsumerPartitionAssignor: subscription user data, assign, on_assignment. Kafka's
objects keep what they were assigned in fields; here the member is a value and comes back changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from assignor_bridge.assignors.group import Assignment, Group, Member

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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

    def assign(self, group: Group) -> Assignment:
        """Give each subscribed partition to one member."""

    def user_data(self, member: Member) -> bytes | None:
        """Bytes that the member adds to its subscription; None for none."""

    def on_assignment(
        self, member: Member, owned: Mapping[str, Sequence[int]], generation: int
    ) -> Member:
        """The member as it joins next time, having been told what it owns now."""


def no_refusal(_group: Group) -> str | None:
    """No precondition."""
    return None


def no_user_data(_member: Member) -> bytes | None:
    """Nothing to add to the subscription."""
    return None


@dataclass(frozen=True)
class Strategy:
    """An assignor made of functions: all of ours are, one row each in `registry`."""

    name: str
    function: Callable[[Group], Assignment]
    protocols: tuple[RebalanceProtocol, ...] = ("EAGER",)
    precondition: Callable[[Group], str | None] = no_refusal
    encode: Callable[[Member], bytes | None] = no_user_data

    def refusal(self, group: Group) -> str | None:
        """See `Assignor.refusal`."""
        return self.precondition(group)

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

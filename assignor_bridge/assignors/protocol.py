"""What an assignor is: a name, its protocols, a precondition, and one pure function.

The shape is Kafka's ConsumerPartitionAssignor: subscription user data, assign, on_assignment.
Kafka's objects keep what they were assigned in fields; here the member is a value and comes back
changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from assignor_bridge.assignors.group import Member

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assignor_bridge.assignors.group import Assignment, Group

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

    def refusal(self, group: Group, /) -> str | None:
        """Return why this group cannot be assigned (a precondition that fails), None if it can."""

    def reservation(self, group: Group, /) -> str | None:
        """Return why another assignor of a list should be preferred, though this one can."""

    def assign(self, group: Group, /) -> Assignment:
        """Give each subscribed partition to one member."""

    def user_data(self, member: Member, /) -> bytes | None:
        """Return the bytes that the member adds to its subscription; None for none."""

    def on_assignment(
        self, member: Member, owned: Mapping[str, Sequence[int]], generation: int, /
    ) -> Member:
        """Return the member as it joins next time, given what it owns now."""


@dataclass(frozen=True)
class Strategy:
    """An assignor made of functions: all of ours are, one row each in `registry`."""

    name: str
    assign: Callable[[Group], Assignment]
    protocols: tuple[RebalanceProtocol, ...] = ("EAGER",)
    refusal: Callable[[Group], str | None] = lambda _group: None
    reservation: Callable[[Group], str | None] = lambda _group: None
    user_data: Callable[[Member], bytes | None] = lambda _member: None
    on_assignment: Callable[[Member, Mapping[str, Sequence[int]], int], Member] = Member.owning

"""The interface of an assignor: a name, its protocols, preconditions, and one pure function.

It follows Kafka's ConsumerPartitionAssignor: subscription user data, assign, on_assignment. Kafka's
objects keep their assignment in fields; here `on_assignment` returns a changed copy of the member.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from assignor_bridge.assignors.group import Member

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assignor_bridge.assignors.group import Assignment, Group

#: EAGER members revoke all partitions before a rebalance; COOPERATIVE ones, only those that move,
#: after it.
RebalanceProtocol = Literal["EAGER", "COOPERATIVE"]


@runtime_checkable
class Assignor(Protocol):
    """The assignor attributes that consumer groups, the planner and the CLI use."""

    @property
    def name(self) -> str:
        """Name in `partition.assignment.strategy` and in `.option("assignor", …)`."""

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]:
        """Supported rebalance protocols, the preferred one first."""

    def refusal(self, group: Group, /) -> str | None:
        """Return why it cannot assign this group, or None if it can."""

    def reservation(self, group: Group, /) -> str | None:
        """Return why another assignor is preferable for a group that it can assign, or None."""

    def assign(self, group: Group, /) -> Assignment:
        """Assign each subscribed partition to one member or withhold it (`Assignment.withheld`)."""

    def user_data(self, member: Member, /) -> bytes | None:
        """Return the bytes that the member adds to its subscription, or None."""

    def on_assignment(
        self, member: Member, owned: Mapping[str, Sequence[int]], generation: int, /
    ) -> Member:
        """Return the member as it joins next time, owning `owned` at `generation`."""


@dataclass(frozen=True)
class Strategy:
    """An assignor built from functions; `registry` defines all built-in assignors."""

    name: str
    assign: Callable[[Group], Assignment]
    protocols: tuple[RebalanceProtocol, ...] = ("EAGER",)
    refusal: Callable[[Group], str | None] = lambda _group: None
    reservation: Callable[[Group], str | None] = lambda _group: None
    user_data: Callable[[Member], bytes | None] = lambda _member: None
    on_assignment: Callable[[Member, Mapping[str, Sequence[int]], int], Member] = Member.rejoin

"""Simulate a consumer group in memory: joins, leaves, crashes, returns, and rebalances.

It acts as the group's coordinator, without clock or network, with `assignors.testing`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from assignor_bridge.assignors import Assignment, Group, Member, lookup
from assignor_bridge.assignors.own import CustomAssignor
from assignor_bridge.assignors.testing import Round, elect, rebalance
from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from assignor_bridge.assignors import Assignor


class InMemoryGroup:
    """A consumer group whose members join, leave, crash, and come back."""

    def __init__(
        self,
        topics: Mapping[str, int],
        strategies: Sequence[str] = ("sticky",),
        *,
        find: Callable[[str], Assignor] = lookup,
        **facts: Any,
    ) -> None:
        self.generation = 0
        #: The strategy of the last rebalance.
        self.strategy = ""
        #: All events, printed if a test fails.
        self.history: list[str] = []
        self._group = Group((), topics, **facts)
        self._strategies = tuple(strategies)
        self._find = find
        self._assignors: dict[str, Assignor] = {}
        self._present: dict[str, Member] = {}
        self._away: dict[str, Member] = {}
        self._supported: dict[str, tuple[str, ...]] = {}

    @property
    def group(self) -> Group:
        return replace(self._group, members=tuple(self._present.values()))

    def join(self, member: Member, strategies: Sequence[str] | None = None) -> None:
        if member.id in self._present:
            raise OptionError(f"member {member.id!r} is in the group already: let it leave first")
        self._present[member.id] = member
        self._supported[member.id] = tuple(strategies or self._strategies)
        self._away.pop(member.id, None)
        self.history.append(f"{member.id} joins")

    def leave(self, member_id: str) -> None:
        del self._present[self._check_present(member_id)]
        self.history.append(f"{member_id} leaves")

    def crash(self, member_id: str) -> None:
        """Remove a member that keeps its claim, and may come back with it."""
        self._away[member_id] = self._present.pop(self._check_present(member_id))
        self.history.append(f"{member_id} crashes")

    def come_back(self, member_id: str) -> None:
        """Add a crashed member again, with its old claim."""
        if member_id not in self._away:
            raise OptionError(f"member {member_id!r} did not crash: only such can come back")
        self._present[member_id] = self._away.pop(member_id)
        self.history.append(f"{member_id} comes back")

    def upgrade(self, member_id: str, strategies: Sequence[str]) -> None:
        """Change a member's supported strategies, as a rolling restart does."""
        self._supported[self._check_present(member_id)] = tuple(strategies)
        self.history.append(f"{member_id} supports {', '.join(strategies)}")

    def resize(self, topics: Mapping[str, int]) -> None:
        self._group = replace(self._group, topics={**self._group.topics, **topics})
        self.history.append(f"topics are {dict(self._group.topics)}")

    def rebalance(self) -> list[Round]:
        """Rebalance in rounds until no partition is withheld."""
        self.strategy = elect({m: self._supported[m] for m in self._present})
        rounds = rebalance(self._assignor(self.strategy), self.group, self.generation)
        for result in rounds:
            self.history.append(
                f"generation {result.generation}: {self.strategy}, {result.moved} moved, "
                f"{result.assignment!r}"
            )
        self.generation = rounds[-1].generation
        self._present = {member.id: member for member in rounds[-1].after.members}
        return rounds

    def _assignor(self, name: str) -> Assignor:
        """Return the assignor of a name; all rebalances use the same object."""
        if name not in self._assignors:
            assignor = self._find(name)
            if isinstance(assignor, CustomAssignor) and not assignor.is_configured:
                assignor = assignor.with_options({})
            self._assignors[name] = assignor
        return self._assignors[name]

    def _check_present(self, member_id: str) -> str:
        if member_id not in self._present:
            raise OptionError(f"member {member_id!r} is not in the group: let it join first")
        return member_id


def settle(assignor: Assignor, group: Group) -> Assignment:
    """Rebalance until no partition is withheld, and return the last assignment."""
    return rebalance(assignor, group)[-1].assignment


def make_members(ids: Iterable[str], topics: Iterable[str]) -> list[Member]:
    subscription = frozenset(topics)
    return [Member(name, subscription) for name in ids]

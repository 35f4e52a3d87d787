"""The nouns of every assignor: members, the group they form, and the assignment they get.

All frozen: an assignor is a pure function from `Group` to `Assignment`, and memory is an argument
(`Member.owned` with its `generation`). See `partitions` for how sets of partitions are laid out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.partitions import Catalog, Partitions
from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from assignor_bridge.assignors.partitions import Ids

#: An empty claim.
NOTHING: Mapping[str, Sequence[int]] = {}


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a consumer group: in Spark, one task slot, `<executor>/<slot>`."""

    id: str
    #: Subscribed topics. Members that share one frozenset object are grouped fastest.
    topics: frozenset[str]
    #: The partitions it says that it owns: a plain mapping, or `Partitions`.
    owned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    #: Generation at which it owned them; None when unknown, which ranks below all (KIP-341: -1).
    generation: int | None = None
    rack: str | None = None
    host: str | None = None
    #: Static membership: where given, it names the member in orderings, as in Kafka.
    instance: str | None = None
    #: For `failover`: the highest gets everything; None ranks lowest.
    priority: int | None = None
    #: For weighted assignors: how much of the load this member should carry, relative to others;
    #: finite and above 0.
    capacity: float = 1.0
    #: For `streams`: the partitions of which it keeps a standby copy.
    standby: Mapping[str, Sequence[int]] = field(default_factory=dict)
    #: Raw bytes of its subscription, as it sent them.
    user_data: bytes | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.topics, frozenset):
            object.__setattr__(self, "topics", frozenset(self.topics))
        if not 0 < self.capacity < math.inf:
            raise OptionError(
                f"member {self.id!r} has the capacity {self.capacity!r}: "
                "a finite number above 0 is needed"
            )


@dataclass(frozen=True)
class Group:
    """All that an assignor may look at.

    Members are kept sorted by id. `topics` are all topics that exist, with their partition counts;
    what members subscribe to beyond them is ignored.
    """

    members: tuple[Member, ...]
    topics: Mapping[str, int]
    #: Lag (or any load: records, seconds) by topic and partition, finite; missing ones are 0.
    lags: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    #: Racks that hold a replica, by topic and partition.
    partition_racks: Mapping[str, Mapping[int, frozenset[str]]] = field(default_factory=dict)
    #: For `streams`: copies of each task beside the active one.
    standby_replicas: int = 0

    def __post_init__(self) -> None:
        members = tuple(sorted(self.members, key=_member_id))
        for one, other in itertools.pairwise(members):
            if one.id == other.id:
                raise OptionError(f"member {one.id!r} is in the group twice: ids must differ")
        if self.standby_replicas < 0:
            raise OptionError(f"standby_replicas is {self.standby_replicas}: 0 or more are needed")
        object.__setattr__(self, "members", members)
        if not isinstance(self.topics, Catalog):
            object.__setattr__(self, "topics", Catalog(self.topics))

    @property
    def catalog(self) -> Catalog:
        """`topics`, with a number for each partition."""
        assert isinstance(self.topics, Catalog)  # noqa: S101  (made so in __post_init__)
        return self.topics

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Member ids, sorted: a member's place here is its index in `Assignment.owner`."""
        return tuple(m.id for m in self.members)

    @cached_property
    def subscriptions(self) -> tuple[tuple[frozenset[str], tuple[int, ...]], ...]:
        """Each distinct subscription with the indices of its members; the first member's first."""
        by_object: dict[int, list[int]] = {}
        for index, member in enumerate(self.members):
            by_object.setdefault(id(member.topics), []).append(index)
        by_value: dict[frozenset[str], list[int]] = {}
        for indices in by_object.values():
            by_value.setdefault(self.members[indices[0]].topics, []).extend(indices)
        return tuple((topics, tuple(sorted(indices))) for topics, indices in by_value.items())

    @cached_property
    def subscribers(self) -> Mapping[str, tuple[int, ...]]:
        """Indices of the members that subscribe to each existing topic; sorted by topic."""
        found: dict[str, list[int]] = {}
        for topics, indices in self.subscriptions:
            for topic in topics:
                if topic in self.catalog:
                    found.setdefault(topic, []).extend(indices)
        return {topic: tuple(sorted(found[topic])) for topic in sorted(found)}

    @cached_property
    def wanted(self) -> NDArray[np.bool_]:
        """For each partition, whether anybody subscribes to its topic."""
        flags = np.fromiter(
            (t in self.subscribers for t in self.catalog), np.bool_, len(self.catalog)
        )
        wanted: NDArray[np.bool_] = np.repeat(flags, self.catalog.counts)
        wanted.setflags(write=False)  # answers are checked against it
        return wanted

    def lag_list(self) -> list[float]:
        """Lag of each partition by its number; a negative one counts as 0.

        Raises
        ------
        OptionError
            When one is infinite or no number.
        """
        lags: list[float] = [0] * self.catalog.total
        for topic, of_topic in self.lags.items():
            place = self.catalog.index.get(topic)
            if place is None:
                continue
            start, count = int(self.catalog.starts[place]), int(self.catalog.counts[place])
            for partition, lag in of_topic.items():
                if 0 <= partition < count:
                    lags[start + partition] = max(lag, 0)
        if not math.isfinite(sum(lags)):
            self._blame_lag(lags)
        return lags

    def _blame_lag(self, lags: list[float]) -> None:
        for partition, lag in enumerate(lags):
            if not math.isfinite(lag):
                raise OptionError(
                    f"the lag of {self.catalog.name(partition)} is {lag}: a finite number is needed"
                )

    def after(self, assignment: Assignment, generation: int) -> Group:
        """Give the group in which each member owns what it was assigned, at `generation`."""
        return replace(
            self,
            members=tuple(
                replace(
                    member,
                    owned=assignment[member.id],
                    generation=generation,
                    standby=assignment.standbys.get(member.id, NOTHING),
                )
                for member in self.members
            ),
        )


class Assignment(Mapping[str, Partitions]):
    """Which member got which partitions: a mapping of member id to `Partitions`, read lazily.

    Parameters
    ----------
    group
        The group that it answers.
    owner
        Index of the owning member for each partition, -1 for none.
    standbys
        For `streams`: the partitions of which each member keeps a copy.
    withheld
        For cooperative assignors: index of the next owner of each partition that is withheld
        until its present owner gave it up, -1 elsewhere.
    notes
        One line a fact, for people: which topic was short, who was preferred.
    """

    def __init__(
        self,
        group: Group,
        owner: NDArray[np.integer],
        *,
        standbys: Mapping[str, Partitions] | None = None,
        withheld: NDArray[np.integer] | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.catalog = group.catalog
        self.ids = group.ids
        self.owner = owner
        self.standbys: Mapping[str, Partitions] = standbys or {}
        self.withheld = withheld
        self.notes = notes

    @cached_property
    def counts(self) -> Ids:
        """Number of partitions of each member, by index."""
        return np.bincount(self.owner[self.owner >= 0], minlength=len(self.ids))

    @cached_property
    def arrays(self) -> list[Ids]:
        """Numbers of each member's partitions, sorted, by the member's index."""
        small = self.owner.astype(np.int16) if len(self.ids) < 1 << 15 else self.owner  # radix sort
        order = np.argsort(small, kind="stable")
        free = len(order) - int(self.counts.sum())
        cuts = (free + np.cumsum(self.counts)).tolist()
        return [order[a:b] for a, b in itertools.pairwise((free, *cuts))]

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.ids)}

    @property
    def transferring(self) -> Partitions:
        """The partitions that are withheld in this round."""
        if self.withheld is None:
            return Partitions(self.catalog, np.empty(0, np.int64))
        return Partitions(self.catalog, np.flatnonzero(self.withheld >= 0))

    def __getitem__(self, member: str) -> Partitions:
        return Partitions(self.catalog, self.arrays[self._index[member]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def as_dict(self) -> dict[str, dict[str, list[int]]]:
        """Plain data, for JSON and for comparisons in tests."""
        return {m: {t: list(ns) for t, ns in part.items()} for m, part in self.items()}

    def __repr__(self) -> str:
        return f"Assignment({self.as_dict()})"


def _member_id(member: Member) -> str:
    return member.id

"""The input and output of every assignor: `Member`, `Group` and `Assignment`.

An assignor is a pure function from `Group` to `Assignment`. The previous assignment is part of its
input (`Member.owned`, `Member.generation`). `partitions` explains how partition sets are stored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from assignor_bridge.assignors.partitions import Catalog, Partitions
from assignor_bridge.errors import OptionError
from checkpoints.sorting import stable_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from assignor_bridge.assignors.partitions import Ids


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a consumer group: in Spark, one task slot, `<executor>/<slot>`."""

    id: str
    #: Subscribed topics. Grouping is fastest if members with the same topics share one frozenset.
    topics: frozenset[str]
    #: The partitions it claims to own: a plain mapping, or `Partitions`.
    owned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    #: Generation of that claim; None if unknown, which ranks below all others (KIP-341: -1).
    generation: int | None = None
    rack: str | None = None
    host: str | None = None
    #: Instance id of a static member; Kafka sorts static members by it.
    instance: str | None = None
    #: For `failover`: the highest gets all partitions. None: as in `user_data`, or else lowest.
    priority: int | None = None
    #: For `lag-aware-sticky`: capacity relative to others (2: twice the load); finite, above 0.
    capacity: float = 1.0
    #: For `streams`: the partitions of which it keeps a standby copy.
    standby: Mapping[str, Sequence[int]] = field(default_factory=dict)
    #: User data in its subscription, as received.
    user_data: bytes | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.topics, frozenset):
            object.__setattr__(self, "topics", frozenset(self.topics))
        if not 0 < self.capacity < math.inf:
            raise OptionError(
                f"member {self.id!r} has the capacity {self.capacity!r}: "
                "a finite number above 0 is expected"
            )

    def rejoin(self, owned: Mapping[str, Sequence[int]], generation: int) -> Member:
        """Return the member as it joins next time, owning `owned` at `generation`."""
        return replace(self, owned=owned, generation=generation)


@dataclass(frozen=True)
class Group:
    """The complete input of an assignor.

    Members are kept sorted by id. `topics` has all existing topics with their partition counts;
    subscriptions to other topics are ignored. Raises OptionError if two members have the same id,
    or if `standby_replicas` is negative; ValueError if a partition count is negative.
    """

    members: tuple[Member, ...]
    topics: Mapping[str, int]
    #: Finite lag by topic and partition, or another load, such as seconds; 0 if missing.
    lags: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    #: Racks that hold a replica, by topic and partition.
    partition_racks: Mapping[str, Mapping[int, frozenset[str]]] = field(default_factory=dict)
    #: For `streams`: copies of each task in addition to the active one.
    standby_replicas: int = 0

    def __post_init__(self) -> None:
        members = tuple(sorted(self.members, key=lambda member: member.id))
        for one, other in itertools.pairwise(members):
            if one.id == other.id:
                raise OptionError(f"member {one.id!r} is in the group twice: ids must differ")
        if self.standby_replicas < 0:
            raise OptionError(f"standby_replicas is {self.standby_replicas}: it must be 0 or more")
        object.__setattr__(self, "members", members)
        if not isinstance(self.topics, Catalog):
            object.__setattr__(self, "topics", Catalog(self.topics))

    @property
    def catalog(self) -> Catalog:
        """`topics`, with an id for each partition."""
        return cast("Catalog", self.topics)  # `__post_init__` converts it

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Member ids, sorted; `Assignment.owner` has indices into them."""
        return tuple(m.id for m in self.members)

    @cached_property
    def kafka_order(self) -> tuple[int, ...]:
        """Indices of members in the order of Kafka's `AbstractPartitionAssignor.MemberInfo`.

        Static members come first, by instance id, which survives restarts; then the others, by id.
        """
        keys = [(m.instance is None, m.instance or "", i) for i, m in enumerate(self.members)]
        return tuple(index for _, _, index in sorted(keys))

    @cached_property
    def subscriptions(self) -> tuple[tuple[frozenset[str], tuple[int, ...]], ...]:
        """Distinct subscriptions with their members' indices, ordered by first member."""
        indices_by_object: dict[int, list[int]] = {}
        for index, member in enumerate(self.members):
            indices_by_object.setdefault(id(member.topics), []).append(index)
        indices_by_topics: dict[frozenset[str], list[int]] = {}
        for indices in indices_by_object.values():
            indices_by_topics.setdefault(self.members[indices[0]].topics, []).extend(indices)
        return tuple((ts, tuple(sorted(indices))) for ts, indices in indices_by_topics.items())

    @cached_property
    def subscribers(self) -> Mapping[str, tuple[int, ...]]:
        """Member indices by existing topic that has subscribers; both are sorted."""
        indices_by_topic: dict[str, list[int]] = {}
        for topics, indices in self.subscriptions:
            for topic in topics:
                if topic in self.catalog:
                    indices_by_topic.setdefault(topic, []).extend(indices)
        return {t: tuple(sorted(indices)) for t, indices in sorted(indices_by_topic.items())}

    @cached_property
    def subscribed(self) -> NDArray[np.bool_]:
        """For each partition, whether any member subscribes to its topic."""
        topic_flags = np.array([topic in self.subscribers for topic in self.catalog], np.bool_)
        flags: NDArray[np.bool_] = np.repeat(topic_flags, self.catalog.counts)
        flags.setflags(write=False)  # custom assignors must not change it
        return flags

    def lag_list(self) -> list[float]:
        """Return each partition's lag, at least 0; raise OptionError if one is not finite."""
        catalog = self.catalog
        lags: list[float] = [0] * catalog.total
        for topic in self.lags.keys() & catalog.index.keys():
            start, count = catalog.span(topic).start, catalog[topic]
            for partition, lag in self.lags[topic].items():
                if 0 <= partition < count:
                    lags[start + partition] = max(lag, 0)
        if not math.isfinite(sum(lags)):
            for partition_id, lag in enumerate(lags):
                if not math.isfinite(lag):
                    raise OptionError(
                        f"the lag of {catalog.name(partition_id)} is {lag}: it must be finite"
                    )
        return lags

    def after(
        self,
        assignment: Assignment,
        generation: int,
        on_assignment: Callable[[Member, Partitions, int], Member] = Member.rejoin,
    ) -> Group:
        """Return the group after a rebalance: claims by `on_assignment`, and new standbys."""
        members = tuple(
            replace(
                on_assignment(member, assignment[member.id], generation),
                standby=assignment.standbys.get(member.id, {}),
            )
            for member in self.members
        )
        return replace(self, members=members)


class Assignment(Mapping[str, Partitions]):
    """A lazy mapping of member id to the `Partitions` assigned to that member."""

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
        #: Index of the owning member for each partition, -1 for none.
        self.owner = owner
        #: For `streams`: by member id, the partitions of which the member keeps a copy.
        self.standbys: Mapping[str, Partitions] = standbys or {}
        #: For cooperative assignors: index of each withheld partition's next owner, -1 for other
        #: partitions. A partition is withheld until its present owner has revoked it.
        self.withheld = withheld
        #: Messages for users, one line each, such as a topic with too few partitions.
        self.notes = notes

    @cached_property
    def counts(self) -> Ids:
        """Number of partitions of each member, by the member's index."""
        return np.bincount(self.owner[self.owner >= 0], minlength=len(self.ids))

    @cached_property
    def arrays(self) -> list[Ids]:
        """Sorted partition ids of each member (see `Catalog`), by the member's index."""
        order = stable_order(self.owner + 1)
        unassigned_count = len(order) - int(self.counts.sum())
        cuts = (unassigned_count + np.cumsum(self.counts)).tolist()
        return [order[a:b] for a, b in itertools.pairwise((unassigned_count, *cuts))]

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.ids)}

    @property
    def transferring(self) -> Partitions:
        """The partitions that are withheld in this round."""
        withheld = () if self.withheld is None else np.flatnonzero(self.withheld >= 0)
        return Partitions(self.catalog, np.asarray(withheld, np.int64))

    def __getitem__(self, member: str) -> Partitions:
        return Partitions(self.catalog, self.arrays[self._index[member]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def as_dict(self) -> dict[str, dict[str, list[int]]]:
        """Return the assignment as plain dicts and lists."""
        return {m: {t: list(ns) for t, ns in part.items()} for m, part in self.items()}

    def __repr__(self) -> str:
        return f"Assignment({self.as_dict()})"

    def __str__(self) -> str:
        """Return one line per member in the style of Kafka's documentation: `C0: [t0p0, t1p0]`."""
        lines = (
            f"{member}: [{', '.join(f'{t}p{n}' for t, ns in part.items() for n in ns)}]"
            for member, part in self.items()
        )
        return "\n".join(lines)

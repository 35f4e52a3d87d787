"""Sets of partitions as sorted numbers: what makes groups of 100,000 partitions cheap to hold.

Layout. A `Catalog` numbers the partitions of all topics: topics by name, each topic's partitions in
a row, so partition 3 of the second topic is `counts[0] + 3`. A set of partitions is then one sorted
array of such numbers, and a whole assignment is one array of member indices with a cell for each
partition (`group.Assignment.owner`). Set operations, validity checks and comparisons become a few
passes over contiguous integers; a Python object a partition would cost 50 to 100 bytes and as
many nanoseconds each time it is touched. Mappings of topic names to partition numbers are views,
made when somebody looks.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Ids = NDArray[np.int64]


class Catalog(Mapping[str, int]):
    """Topics with their partition counts, and a number for each partition.

    A mapping of topic to count; `ids` and `partitions_of` translate to and from numbers.
    """

    def __init__(self, topics: Mapping[str, int]) -> None:
        #: Topics by name; a topic's place here is its index.
        self.names: tuple[str, ...] = tuple(sorted(topics))
        #: Number of partitions of each topic.
        self.counts: Ids = np.fromiter((topics[n] for n in self.names), np.int64, len(self.names))
        if len(self.counts) and self.counts.min() < 0:
            worst = self.names[int(self.counts.argmin())]
            raise ValueError(
                f"topic {worst!r} has {topics[worst]} partitions: 0 or more are needed"
            )
        #: Number of the first partition of each topic, and the total at the end.
        self.starts: Ids = np.concatenate(([0], np.cumsum(self.counts)))
        self.total = int(self.starts[-1])
        for array in (self.counts, self.starts):  # answers are checked against them
            array.setflags(write=False)

    @cached_property
    def index(self) -> dict[str, int]:
        """Index of each topic."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def topic_of(self) -> Ids:
        """Topic index of each partition."""
        return np.repeat(np.arange(len(self.names)), self.counts)

    @cached_property
    def partition_of(self) -> Ids:
        """Partition number, within its topic, of each partition."""
        return np.arange(self.total) - self.starts[self.topic_of]

    @cached_property
    def by_partition(self) -> Ids:
        """All partitions by number, then by topic: t0p0, t1p0, t2p0, t0p1 and so on."""
        return np.lexsort((self.topic_of, self.partition_of))

    def __getitem__(self, topic: str) -> int:
        return int(self.counts[self.index[topic]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, topic: object) -> bool:
        return topic in self.index

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Catalog):
            return self.names == other.names and bool((self.counts == other.counts).all())
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # a mapping, compared by value

    def __repr__(self) -> str:
        return f"Catalog({dict(self)})"

    def ids(self, owned: Mapping[str, Iterable[int]]) -> Ids:
        """Numbers of the partitions in `owned` that exist here, sorted, each once."""
        if isinstance(owned, Partitions):
            return owned.ids_in(self)
        parts: list[Ids] = []
        for topic, numbers in owned.items():
            place = self.index.get(topic)
            if place is None:
                continue
            array = np.fromiter((n for n in numbers if 0 <= n < self.counts[place]), np.int64)
            parts.append(array + self.starts[place])
        if not parts:
            return np.empty(0, np.int64)
        return np.unique(np.concatenate(parts))

    def name(self, partition_id: int) -> str:
        """`topic-partition`, for people."""
        topic = int(np.searchsorted(self.starts, partition_id, side="right")) - 1
        return f"{self.names[topic]}-{partition_id - int(self.starts[topic])}"


class Partitions(Mapping[str, tuple[int, ...]]):
    """A set of partitions: a mapping of topic to its sorted partition numbers, read lazily.

    Equal to a plain dict of the same content. `ids` are sorted numbers of `catalog`.
    """

    __slots__ = ("_view", "catalog", "ids")

    def __init__(self, catalog: Catalog, ids: Ids) -> None:
        self.catalog = catalog
        self.ids = ids
        self._view: dict[str, tuple[int, ...]] | None = None

    @property
    def count(self) -> int:
        """Number of partitions (`len` counts topics)."""
        return len(self.ids)

    def ids_in(self, catalog: Catalog) -> Ids:
        """Numbers of these partitions in another catalog; those unknown there are left out."""
        mine = self.catalog
        if mine is catalog or not len(self.ids):
            return self.ids
        place = np.fromiter((catalog.index.get(n, -1) for n in mine.names), np.int64, len(mine))
        topic = np.searchsorted(mine.starts, self.ids, side="right") - 1
        number = self.ids - mine.starts[topic]
        there = place[topic]
        known = there >= 0
        known[known] = number[known] < catalog.counts[there[known]]
        there = there[known]
        return np.asarray(catalog.starts[there] + number[known], dtype=np.int64)

    @property
    def view(self) -> dict[str, tuple[int, ...]]:
        """As a plain dict, made on first use."""
        if self._view is None:
            topics = np.searchsorted(self.catalog.starts, self.ids, side="right") - 1
            numbers = (self.ids - self.catalog.starts[topics]).tolist()
            cuts = np.flatnonzero(np.diff(topics, prepend=-1, append=-1)).tolist()
            self._view = {
                self.catalog.names[int(topics[a])]: tuple(numbers[a:b])
                for a, b in itertools.pairwise(cuts)
            }
        return self._view

    def __getitem__(self, topic: str) -> tuple[int, ...]:
        return self.view[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self.view)

    def __len__(self) -> int:
        return len(self.view)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Partitions):
            return self.view == other.view
        if isinstance(other, Mapping):
            return self.view == {t: tuple(sorted(ns)) for t, ns in other.items() if len(ns)}
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # a mapping, compared by value

    def __repr__(self) -> str:
        return repr(self.view)

    def __reduce__(self) -> tuple[Any, ...]:
        return Partitions, (self.catalog, self.ids)

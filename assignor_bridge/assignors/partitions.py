"""Store sets of partitions as arrays of ids, so that groups of 100,000 partitions are cheap.

A `Catalog` gives the partitions of all topics consecutive ids, topics sorted by name: partition
number 3 of the second topic has the id `counts[0] + 3`. A set of partitions is a sorted array of
ids; an assignment is an array with a member index for each partition id (`Assignment.owner`). One
Python object per partition would cost 50 to 100 bytes, and 50 to 100 ns per access.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    Ids = NDArray[np.int64]
    #: Index of the member that owns each partition, by partition id; -1 for none.
    Owners = NDArray[np.int32]

_NO_IDS = np.empty(0, np.int64)


class Catalog(Mapping[str, int]):
    """Topics with partition counts (ValueError if below 0), and an id from 0 for each partition.

    >>> catalog = Catalog({"t0": 2, "t1": 3})
    >>> catalog.ids({"t1": [0, 2]}), catalog.name(4)
    (array([2, 4]), 't1-2')
    """

    def __init__(self, topics: Mapping[str, int]) -> None:
        #: Sorted topic names; a topic's index is its position here.
        self.names: tuple[str, ...] = tuple(sorted(topics))
        #: Number of partitions of each topic.
        self.counts: Ids = np.fromiter((topics[n] for n in self.names), np.int64, len(self.names))
        if len(self.counts) and self.counts.min() < 0:
            topic = self.names[int(self.counts.argmin())]
            raise ValueError(f"topic {topic!r} has {topics[topic]} partitions: expected 0 or more")
        #: Id of each topic's first partition; the last element is `total`.
        self.starts: Ids = np.concatenate(([0], np.cumsum(self.counts)))
        self.total = int(self.starts[-1])
        for array in (self.counts, self.starts):  # custom assignors must not change them
            array.setflags(write=False)

    @cached_property
    def index(self) -> dict[str, int]:
        """Index of each topic, by name."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def topic_of(self) -> Ids:
        """Topic index of each partition, by partition id."""
        return np.repeat(np.arange(len(self.names)), self.counts)

    @cached_property
    def ids_by_number(self) -> Ids:
        """All partition ids, sorted by number, then topic: t0p0, t1p0, t2p0, t0p1 and so on."""
        return np.lexsort((self.topic_of, np.arange(self.total) - self.starts[self.topic_of]))

    def __getitem__(self, topic: str) -> int:
        return int(self.counts[self.index[topic]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, topic: object) -> bool:
        return topic in self.index

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Catalog):
            return self is other or (
                self.names == other.names and bool((self.counts == other.counts).all())
            )
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # a mapping, compared by value

    def __repr__(self) -> str:
        return f"Catalog({dict(self)})"

    def span(self, topic: str | int) -> slice:
        """Return the slice of a topic's partition ids; `topic` is a name or an index."""
        index = self.index[topic] if isinstance(topic, str) else topic
        return slice(int(self.starts[index]), int(self.starts[index + 1]))

    def all_of(self, topics: Sequence[int]) -> Ids:
        """Return the partition ids of the topics with these indices (distinct, at least one)."""
        if len(topics) == len(self):
            return np.arange(self.total)
        return np.concatenate([np.arange(self.starts[t], self.starts[t + 1]) for t in topics])

    def ids(self, owned: Mapping[str, Iterable[int]]) -> Ids:
        """Return the sorted, distinct ids of the partitions in `owned` that exist here."""
        if isinstance(owned, Partitions):
            return owned.ids_in(self)
        id_arrays = []
        for topic, numbers in owned.items():
            if topic in self.index:
                start, count = self.span(topic).start, self[topic]
                existing_numbers = np.fromiter((n for n in numbers if 0 <= n < count), np.int64)
                id_arrays.append(start + existing_numbers)
        return np.unique(np.concatenate(id_arrays)) if id_arrays else _NO_IDS

    def name(self, partition_id: int) -> str:
        """Return the name of a partition: topic and number, such as `t0-3`."""
        topic = int(np.searchsorted(self.starts, partition_id, side="right")) - 1
        return f"{self.names[topic]}-{partition_id - int(self.starts[topic])}"


class Partitions(Mapping[str, tuple[int, ...]]):
    """A set of partitions: a lazy mapping of topic to sorted numbers, comparable with dicts."""

    def __init__(self, catalog: Catalog, ids: Ids) -> None:
        self.catalog = catalog
        self.ids = ids

    @property
    def count(self) -> int:
        """Number of partitions (`len` counts topics)."""
        return len(self.ids)

    def ids_in(self, catalog: Catalog) -> Ids:
        """Return the ids of these partitions in another catalog; skip missing partitions."""
        old_catalog = self.catalog
        if old_catalog is catalog or not len(self.ids):
            return self.ids
        new_index = np.fromiter((catalog.index.get(n, -1) for n in old_catalog.names), np.int64)
        old_topic = np.searchsorted(old_catalog.starts, self.ids, side="right") - 1
        number = self.ids - old_catalog.starts[old_topic]
        topic = new_index[old_topic]
        exists = topic >= 0
        exists[exists] = number[exists] < catalog.counts[topic[exists]]
        return np.asarray(catalog.starts[topic[exists]] + number[exists], dtype=np.int64)

    @cached_property
    def view(self) -> dict[str, tuple[int, ...]]:
        """The set as a plain dict of topic to sorted partition numbers."""
        topics = np.searchsorted(self.catalog.starts, self.ids, side="right") - 1
        numbers = (self.ids - self.catalog.starts[topics]).tolist()
        cuts = np.flatnonzero(np.diff(topics, prepend=-1, append=-1)).tolist()
        return {
            self.catalog.names[int(topics[a])]: tuple(numbers[a:b])
            for a, b in itertools.pairwise(cuts)
        }

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

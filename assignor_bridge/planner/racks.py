"""Where replicas and executors are: racks of partitions, and the zones that executors form.

A zone is a rack (in a cloud: an availability zone) with executors. What is unknown counts as
everywhere: a partition whose racks nobody named is near to every executor, and an executor without
a rack is near to every partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from assignor_bridge.model import Executor
    from assignor_bridge.planner.batch import Flags, Ints


@dataclass(frozen=True, eq=False)
class Replicas:
    """The racks that hold a replica of each range's partition."""

    #: Distinct sets of racks, in an order of their own; an empty one: unknown.
    racks: tuple[frozenset[str], ...]
    #: Place of each range's set in `racks`.
    code: Ints

    @classmethod
    def of(cls, racks: Sequence[Collection[str]], code: Ints) -> Replicas:
        """Return each set once, sorted; `code` holds places in `racks`, -1 for unknown."""
        given = [frozenset[str](), *(frozenset(filter(None, held)) for held in racks)]
        used = np.flatnonzero(np.bincount(code + 1, minlength=len(given))).tolist()
        distinct = sorted({given[i] for i in used}, key=sorted)
        places = {one: i for i, one in enumerate(distinct)}
        new = np.array([places.get(one, -1) for one in given], np.int64)
        return cls(tuple(distinct), new[code + 1])

    def take(self, order: Ints) -> Replicas:
        """Return those of some of the ranges."""
        return Replicas(self.racks, self.code[order])

    @property
    def known(self) -> bool:
        """Whether any range has a rack that somebody named."""
        return any(self.racks)


@dataclass(frozen=True, eq=False)
class Zones:
    """The zones of executors, and which sets of racks are near to them."""

    #: Racks that have executors, sorted; the last is None where executors without a rack are.
    names: tuple[str | None, ...]
    of_executor: Ints
    #: By set of racks and zone: whether a replica is there.
    near: Flags


def build_zones(executors: Sequence[Executor], replicas: Replicas) -> Zones:
    """Return the zones of executors, as the replicas see them."""
    racks = sorted({e.rack for e in executors if e.rack})
    names: tuple[str | None, ...] = tuple(racks)
    if any(not e.rack for e in executors):
        names += (None,)
    place = {name: i for i, name in enumerate(names)}
    near = [[not held or name is None or name in held for name in names] for held in replicas.racks]
    return Zones(
        names,
        np.array([place[e.rack or None] for e in executors], np.int64),
        np.array(near, np.bool_).reshape(len(replicas.racks), len(names)),
    )

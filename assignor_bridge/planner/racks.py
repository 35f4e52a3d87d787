"""Racks of replicas, and the zones that executors form.

A zone is a rack (in a cloud, an availability zone) with executors. Unknown means near: a partition
without known racks is near to every executor, and an executor without a rack to every partition.
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
    """The racks that have a replica of each range's partition."""

    #: Distinct sets of racks, sorted; an empty set means unknown.
    racks: tuple[frozenset[str], ...]
    #: Index of each range's set in `racks`.
    code: Ints

    @classmethod
    def of(cls, racks: Sequence[Collection[str]], code: Ints) -> Replicas:
        """Sort the sets in use, drop others; `code` has indices into `racks`, -1 for unknown."""
        sets = [frozenset[str](), *(frozenset(filter(None, rack_names)) for rack_names in racks)]
        set_indices = np.flatnonzero(np.bincount(code + 1, minlength=len(sets))).tolist()
        distinct_sets = sorted({sets[i] for i in set_indices}, key=sorted)
        index_by_rack_set = {rack_set: i for i, rack_set in enumerate(distinct_sets)}
        new_code = np.array([index_by_rack_set.get(rack_set, -1) for rack_set in sets], np.int64)
        return cls(tuple(distinct_sets), new_code[code + 1])

    def take(self, order: Ints) -> Replicas:
        """Return the racks of the ranges at these indices, or with these flags."""
        return Replicas(self.racks, self.code[order])

    @property
    def is_known(self) -> bool:
        """Whether any range has a known rack."""
        return any(self.racks)


@dataclass(frozen=True, eq=False)
class Zones:
    """The zones of executors, and which rack sets are near to them."""

    #: Racks with executors, sorted; the last is None if there are executors without a rack.
    names: tuple[str | None, ...]
    zone_of_executor: Ints  # index in `names`
    #: Whether each zone (column) is near to each rack set (row).
    near: Flags


def build_zones(executors: Sequence[Executor], replicas: Replicas) -> Zones:
    """Return the zones of the executors, and which sets of racks are near to them."""
    racks = sorted({e.rack for e in executors if e.rack})
    names: tuple[str | None, ...] = tuple(racks)
    if any(not e.rack for e in executors):
        names += (None,)
    zone_by_name = {name: i for i, name in enumerate(names)}
    near = [[not r or name is None or name in r for name in names] for r in replicas.racks]
    zone_of_executor = np.array([zone_by_name[e.rack or None] for e in executors], np.int64)
    shape = len(replicas.racks), len(names)
    return Zones(names, zone_of_executor, np.array(near, np.bool_).reshape(shape))

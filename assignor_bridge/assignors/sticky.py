"""`sticky`: as balanced as possible, then as few moves as possible, for any subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.claims import claims
from assignor_bridge.assignors.even import even
from assignor_bridge.assignors.group import Assignment
from assignor_bridge.assignors.mixed import mixed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assignor_bridge.assignors.even import Fill
    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.partitions import Catalog, Ids


def sticky(group: Group) -> Assignment:
    """Balance partition counts, then keep as many partitions as possible with their owners.

    Promises, in order: (1) each subscribed partition goes to one subscriber, and a member without
    subscribed topics gets nothing; (2) counts are as even as subscriptions allow: no chain of moves
    takes a partition from one member to another that has two fewer (9/10/11 over overlapping
    subscriptions becomes 10/10/10); (3) of all assignments that are as even, one with the fewest
    moves away from owners whose claim counts (see `claims`). So nothing moves when nothing
    changed; with equal subscriptions a leave moves only the leaver's partitions and a join only
    the newcomer's share. Ties: partitions by topic and number, members by id. Racks, lags and
    capacities are not looked at.

    Source: KIP-54, KIP-341, Kafka 4.1.0 `StickyAssignor`; the same first assignment wherever that
    one's needs no chain, never less balanced, and never more moves when as balanced.
    """
    owner = claims(group).owner
    spread(group, owner)
    return Assignment(group, owner)


def spread(group: Group, owner: NDArray[np.int32], fill: Fill = "deal") -> None:
    """Complete and balance `owner`, in place, with the promises of `sticky`.

    Subscriptions that share no topic, directly or through others, do not see each other. Those
    that are alike are divided by `even`, the rest by `mixed`.
    """
    catalog = group.catalog
    for classes in components(group):
        if len(classes) == 1:
            topics, members = classes[0]
            even(catalog, owner, _ids_of(catalog, topics), np.asarray(members), fill)
        else:
            mixed(catalog, owner, classes)


def components(group: Group) -> list[list[tuple[tuple[int, ...], tuple[int, ...]]]]:
    """Distinct subscriptions (indices of existing topics, members), grouped by connected topics."""
    index, counts = group.catalog.index, group.catalog.counts
    found: dict[tuple[int, ...], list[int]] = {}
    for topics, members in group.subscriptions:
        places = tuple(sorted(index[t] for t in topics if t in index and counts[index[t]]))
        if places:
            found.setdefault(places, []).extend(members)
    root = list(range(len(counts)))

    def find(place: int) -> int:
        while root[place] != place:
            root[place] = root[root[place]]
            place = root[place]
        return place

    for places in found:
        for place in places[1:]:
            root[find(place)] = find(places[0])
    grouped: dict[int, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {}
    for places, indices in found.items():
        grouped.setdefault(find(places[0]), []).append((places, tuple(sorted(indices))))
    return list(grouped.values())


def _ids_of(catalog: Catalog, topics: tuple[int, ...]) -> Ids:
    if len(topics) == len(catalog):
        return np.arange(catalog.total)
    starts, counts = catalog.starts, catalog.counts
    return np.concatenate([np.arange(starts[t], starts[t] + counts[t]) for t in topics])

"""Whose claim to a partition counts: generations, zombies and contested partitions (KIP-341)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.partitions import Partitions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.partitions import Ids


@dataclass(frozen=True)
class Claims:
    """What the members of a group say that they own, and what of it counts."""

    #: Number of each claimed partition, member by member.
    ids: Ids
    #: Index of the member that makes the claim.
    member: Ids
    #: For each partition the member whose claim counts, -1 for none.
    owner: NDArray[np.int32]


def claims(group: Group, *, newest_only: bool = False) -> Claims:
    """Weigh the claims of all members.

    A claim counts if no other member makes one at the same or a newer generation for the partition,
    and if its member still subscribes to the topic. Claims without a generation are older than all
    with one. Two members with the same newest generation: neither keeps the partition by right.

    Parameters
    ----------
    group
        The members with `owned` and `generation`.
    newest_only
        Drop all claims of members that are not of the newest generation in the group, even those
        that nobody contests (the rule of constrained-cooperative-sticky).
    """
    ids, member = _collect(group)
    owner = np.full(group.catalog.total, -1, np.int32)
    if not len(ids):
        return Claims(ids, member, owner)
    good_ids, good = ids, member
    if newest_only:
        generations = _generations(group)
        newest = generations[member] == generations.max()
        good_ids, good = ids[newest], member[newest]
    if len(good_ids) and int(np.bincount(good_ids).max()) > 1:
        generation = _generations(group)[good]
        best = np.full(len(owner), -2, np.int64)
        np.maximum.at(best, good_ids, generation)
        newest = generation == best[good_ids]
        good_ids, good = good_ids[newest], good[newest]
        alone = np.bincount(good_ids, minlength=len(owner))[good_ids] == 1
        good_ids, good = good_ids[alone], good[alone]
    subscribed = _subscribed(group, good_ids, good)
    if subscribed is not None:
        good_ids, good = good_ids[subscribed], good[subscribed]
    owner[good_ids] = good
    return Claims(ids, member, owner)


def _generations(group: Group) -> Ids:
    return np.fromiter(
        (-1 if m.generation is None else max(m.generation, -1) for m in group.members), np.int64
    )


def _collect(group: Group) -> tuple[Ids, Ids]:
    catalog = group.catalog
    nothing = np.empty(0, np.int64)
    parts: list[Ids] = []
    for member in group.members:
        owned = member.owned
        if isinstance(owned, Partitions):
            parts.append(owned.ids if owned.catalog is catalog else owned.ids_in(catalog))
        else:
            parts.append(catalog.ids(owned) if owned else nothing)
    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    if not sizes.any():
        return nothing, nothing
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), sizes)


def _subscribed(group: Group, ids: Ids, member: Ids) -> NDArray[np.bool_] | None:
    """Whether each claimant subscribes to what it claims; None when all do."""
    names = group.catalog.names
    if len(group.subscriptions) == 1 and group.subscriptions[0][0].issuperset(names):
        return None
    allowed = np.zeros((len(group.subscriptions), len(names)), np.bool_)
    which = np.empty(len(group.members), np.int64)
    for row, (topics, indices) in enumerate(group.subscriptions):
        which[list(indices)] = row
        allowed[row, [group.catalog.index[t] for t in topics if t in group.catalog]] = True
    return np.asarray(allowed[which[member], group.catalog.topic_of[ids]])

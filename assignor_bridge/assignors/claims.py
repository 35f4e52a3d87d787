"""Whose claim to a partition counts: generations, zombies and contested partitions (KIP-341)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.partitions import Partitions
from checkpoints.user_data import NO_GENERATION, decode_claim, encode_claim, encode_generation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assignor_bridge.assignors.group import Group, Member
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


def resolve_claims(group: Group, *, newest_only: bool = False) -> Claims:
    """Weigh the claims of all members.

    A claim counts if no other member makes one at the same or a newer generation for the partition,
    and if its member still subscribes to the topic. Claims without a generation are older than all
    with one. Two members with the same newest generation: neither keeps the partition by right.
    With `newest_only` all claims of members that are not of the newest generation in the group are
    dropped, even those that nobody contests (the rule of constrained-cooperative-sticky).
    """
    ids, member = _collect(group)
    owner = np.full(group.catalog.total, -1, np.int32)
    claims = Claims(ids, member, owner)
    if not len(ids):
        return claims
    if newest_only:
        generation = _generations(group)
        newest = generation[member] == generation.max()
        ids, member = ids[newest], member[newest]
    if int(np.bincount(ids, minlength=1).max()) > 1:
        generation = _generations(group)[member]
        best = np.full(len(owner), -2, np.int64)
        np.maximum.at(best, ids, generation)
        newest = generation == best[ids]
        ids, member = ids[newest], member[newest]
        uncontested = np.bincount(ids, minlength=len(owner))[ids] == 1
        ids, member = ids[uncontested], member[uncontested]
    subscribed = _subscribed(group, ids, member)
    owner[ids[subscribed]] = member[subscribed]
    return claims


def _collect(group: Group) -> tuple[Ids, Ids]:
    """Return the number of each claimed partition and the index of who claims it."""
    catalog, none = group.catalog, np.empty(0, np.int64)
    parts = []
    for member in group.members:
        if isinstance(member.owned, Partitions):
            parts.append(member.owned.ids_in(catalog))
        else:
            parts.append(catalog.ids(member.owned) if member.owned else none)
    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    if not sizes.any():
        return none, none
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), sizes)


def _generations(group: Group) -> Ids:
    return np.fromiter(
        (-1 if m.generation is None else max(m.generation, -1) for m in group.members), np.int64
    )


def _subscribed(group: Group, ids: Ids, member: Ids) -> NDArray[np.bool_] | slice:
    """Return whether each claimant subscribes to what it claims; a whole slice when all do."""
    names = group.catalog.names
    if len(group.subscriptions) == 1 and group.subscriptions[0][0].issuperset(names):
        return slice(None)
    allowed = np.zeros((len(group.subscriptions), len(names)), np.bool_)
    subscription = np.empty(len(group.members), np.int64)
    for row, (topics, indices) in enumerate(group.subscriptions):
        subscription[list(indices)] = row
        allowed[row, [group.catalog.index[t] for t in topics if t in group.catalog]] = True
    return np.asarray(allowed[subscription[member], group.catalog.topic_of[ids]])


def write_claim(member: Member) -> bytes | None:
    """Return the user data of Kafka's sticky assignor; None before the first assignment."""
    if not member.owned and member.generation is None:
        return None
    generation = NO_GENERATION if member.generation is None else member.generation
    return encode_claim(member.owned, generation)


def write_generation(member: Member) -> bytes:
    """Return those of Kafka's cooperative one: what the member owns is sent with them."""
    return encode_generation(member.generation)


def read_claim(member: Member, data: bytes | None) -> Member:
    """Return the member with the claim in its user data: none for bytes that do not parse."""
    claim = decode_claim(data)
    generation = None if claim.generation == NO_GENERATION else claim.generation
    return replace(member, owned=claim.owned, generation=generation, user_data=data)

"""Decide which claims to partitions are valid: generations, zombies, conflicts (KIP-341)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from checkpoints.user_data import NO_GENERATION, decode_claim, encode_claim, encode_generation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assignor_bridge.assignors.group import Group, Member
    from assignor_bridge.assignors.partitions import Ids, Owners


@dataclass(frozen=True)
class Claims:
    """The partitions that members claim to own, and the owners whose claims are valid."""

    #: Ids of the claimed partitions (see `Catalog`), member by member.
    ids: Ids
    #: Index of the claiming member, for each element of `ids`.
    claimant: Ids
    #: For each partition, index of the member with the valid claim; -1 if there is none.
    owner: Owners


def resolve_claims(group: Group, *, newest_only: bool = False) -> Claims:
    """Return all claims and the valid owner of each partition.

    A claim is valid if its member still subscribes to the topic and no other member claims the
    partition at the same or a newer generation. A claim without a generation is older than all
    others. If two members claim a partition at the same newest generation, neither owns it.
    With `newest_only`, claims older than the group's newest generation are invalid, even if
    uncontested (the rule of constrained-cooperative-sticky).
    """
    ids, claimant = _collect_claims(group)
    owner = np.full(group.catalog.total, -1, np.int32)
    claims = Claims(ids, claimant, owner)
    if not len(ids):
        return claims
    if newest_only:
        generation_of_member = _list_generations(group)
        is_current = generation_of_member[claimant] == generation_of_member.max()
        ids, claimant = ids[is_current], claimant[is_current]
    if int(np.bincount(ids, minlength=1).max()) > 1:
        generation = _list_generations(group)[claimant]
        newest_generation = np.full(len(owner), -2, np.int64)
        np.maximum.at(newest_generation, ids, generation)
        is_newest = generation == newest_generation[ids]
        ids, claimant = ids[is_newest], claimant[is_newest]
        is_uncontested = np.bincount(ids, minlength=len(owner))[ids] == 1
        ids, claimant = ids[is_uncontested], claimant[is_uncontested]
    selection = _select_subscribed(group, ids, claimant)
    owner[ids[selection]] = claimant[selection]
    return claims


def _collect_claims(group: Group) -> tuple[Ids, Ids]:
    """Return the ids of the claimed partitions, and the claiming member's index for each."""
    claimed_ids = [group.catalog.ids(member.owned) for member in group.members]
    claim_counts = np.fromiter(map(len, claimed_ids), np.int64, len(claimed_ids))
    if not claim_counts.any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate(claimed_ids), np.repeat(np.arange(len(claimed_ids)), claim_counts)


def _list_generations(group: Group) -> Ids:
    return np.fromiter(
        (-1 if m.generation is None else max(m.generation, -1) for m in group.members), np.int64
    )


def _select_subscribed(group: Group, ids: Ids, claimant: Ids) -> NDArray[np.bool_] | slice:
    """Return an index of the claims whose member subscribes: flags, or a slice if all do."""
    names = group.catalog.names
    if len(group.subscriptions) == 1 and group.subscriptions[0][0].issuperset(names):
        return slice(None)
    subscribes = np.zeros((len(group.subscriptions), len(names)), np.bool_)
    row_of_member = np.empty(len(group.members), np.int64)
    for row, (topics, indices) in enumerate(group.subscriptions):
        row_of_member[list(indices)] = row
        subscribes[row, [group.catalog.index[t] for t in topics if t in group.catalog]] = True
    return np.asarray(subscribes[row_of_member[claimant], group.catalog.topic_of[ids]])


def write_claim(member: Member) -> bytes | None:
    """Return the claim as Kafka's sticky assignor encodes it; None before the first assignment."""
    if not member.owned and member.generation is None:
        return None
    generation = NO_GENERATION if member.generation is None else member.generation
    return encode_claim(member.owned, generation)


def write_generation(member: Member) -> bytes:
    """Return the user data of Kafka's cooperative sticky assignor: the generation, -1 if None."""
    return encode_generation(member.generation)


def add_claim(member: Member, user_data: bytes | None) -> Member:
    """Return a copy of the member with the claim in `user_data`; empty if missing or invalid."""
    claim = decode_claim(user_data)
    generation = None if claim.generation == NO_GENERATION else claim.generation
    return replace(member, owned=claim.owned, generation=generation, user_data=user_data)

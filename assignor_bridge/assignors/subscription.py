"""A member's claim as bytes in its subscription, and back (KIP-341)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from checkpoints.user_data import (
    NO_GENERATION,
    decode_claim,
    encode_claim,
    encode_generation,
)

if TYPE_CHECKING:
    from assignor_bridge.assignors.group import Member


def claim_bytes(member: Member) -> bytes | None:
    """Write the user data of Kafka's sticky assignor; none before the first assignment."""
    if not member.owned and member.generation is None:
        return None
    generation = NO_GENERATION if member.generation is None else member.generation
    return encode_claim(member.owned, generation)


def generation_bytes(member: Member) -> bytes:
    """Write those of Kafka's cooperative one: what the member owns travels beside them."""
    return encode_generation(member.generation)


def with_claim_of(member: Member, data: bytes | None) -> Member:
    """Give the member with the claim that its user data make: none for bytes that do not parse."""
    claim = decode_claim(data)
    generation = None if claim.generation == NO_GENERATION else claim.generation
    return replace(member, owned=claim.owned, generation=generation, user_data=data)

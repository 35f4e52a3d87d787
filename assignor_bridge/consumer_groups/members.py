"""What a member sends with its subscription, and what the leader reads from it.

Kafka has two places for what a member owns. Eager assignors (`sticky`) send it as user data
(KIP-341), which survives the loss of membership. Cooperative ones (KIP-429) send it in fields of
the subscription; a user's own assignor does so as well, because its user data are its own.
"""

from __future__ import annotations

import logging
import math
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from assignor_bridge.assignors.claims import read_claim, resolve_claims, write_claim
from assignor_bridge.assignors.own import CustomAssignor
from assignor_bridge.assignors.protocol import Strategy
from assignor_bridge.errors import PlanError
from checkpoints.user_data import (
    NO_GENERATION,
    decode_generation,
    encode_claim,
    holds_claim,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assignor_bridge.assignors.group import Assignment, Group, Member
    from assignor_bridge.assignors.protocol import Assignor

#: Follows the claim in the user data of a member whose capacity is not 1; Kafka ignores it there.
_CAPACITY = struct.Struct(">d")

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Subscription:
    """What a member sends in addition to its topics: fields of Kafka's ConsumerProtocol."""

    user_data: bytes | None = None
    owned: Mapping[str, Sequence[int]] | None = None
    #: -1 if the member has none.
    generation: int = NO_GENERATION


def is_cooperative(strategy: Assignor) -> bool:
    """Return whether a group may use the assignor with the cooperative protocol."""
    return "COOPERATIVE" in strategy.protocols


def write_subscription(strategy: Assignor, member: Member, *, cooperative: bool) -> Subscription:
    """Return what the member sends when it joins; `cooperative` is the protocol of its consumer.

    A consumer that uses the eager protocol has given up everything when it joins. A cooperative
    assignor would wait for partitions that such a member still claims, so it claims none.
    """
    data = strategy.user_data(member)
    if member.capacity != 1 and not isinstance(strategy, CustomAssignor):
        data = (data or encode_claim({}, NO_GENERATION)) + _CAPACITY.pack(member.capacity)
    generation = NO_GENERATION if member.generation is None else member.generation
    sends_fields = _claims_in_fields(strategy) and cooperative == is_cooperative(strategy)
    return Subscription(data, member.owned if sends_fields else {}, generation)


def read_subscription(strategy: Assignor, member: Member, subscription: Subscription) -> Member:
    """Return the member with the claim and the capacity that it has sent.

    Bytes that another client wrote in a format of its own are no claim, and one warning.
    """
    data = subscription.user_data
    if _claims_in_fields(strategy):
        generation = subscription.generation
        if generation < 0 and isinstance(strategy, Strategy):
            generation = decode_generation(data)  # of Java clients before 3.5
        return replace(
            member,
            owned=subscription.owned or {},
            generation=None if generation < 0 else generation,
            user_data=data,
        )
    member = read_claim(member, data)
    if not _writes_claims(strategy) or not data:
        return member
    if not holds_claim(data):
        _LOG.warning(
            "member %r sent %d bytes of user data that assignor %r cannot read: "
            "it is treated as owning no partitions",
            member.id, len(data), strategy.name,
        )  # fmt: skip
    return replace(member, capacity=_read_capacity(member, data))


def check_handover(name: str, group: Group, assignment: Assignment) -> None:
    """Check that nothing is given to a member while another one still owns it (KIP-429).

    Raises
    ------
    PlanError
        If a partition is; the message names it and both members.
    """
    claims, owner = resolve_claims(group), assignment.owner
    for partition, claimant in zip(claims.ids.tolist(), claims.member.tolist(), strict=True):
        receiver = int(owner[partition])
        if receiver not in (-1, claimant) and claims.owner[partition] != receiver:
            raise PlanError(
                f"assignor {name!r} gave {group.catalog.name(partition)} to "
                f"{group.ids[receiver]!r} while {group.ids[claimant]!r} owns it: "
                "a cooperative assignor must withhold it for one round"
            )


def _claims_in_fields(strategy: Assignor) -> bool:
    return is_cooperative(strategy) or isinstance(strategy, CustomAssignor)


def _writes_claims(strategy: Assignor) -> bool:
    return isinstance(strategy, Strategy) and strategy.user_data is write_claim


def _read_capacity(member: Member, data: bytes) -> float:
    """Return the capacity behind a claim of ours; 1 if there is none that is usable."""
    claim = encode_claim(
        member.owned, NO_GENERATION if member.generation is None else member.generation
    )
    if not data.startswith(claim) or len(data) != len(claim) + _CAPACITY.size:
        return 1.0
    capacity: float = _CAPACITY.unpack(data[len(claim) :])[0]
    return capacity if 0 < capacity < math.inf else 1.0

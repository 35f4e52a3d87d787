"""The order in which Kafka's count-based assignors look at members."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assignor_bridge.assignors.group import Group


def kafka_order(group: Group) -> tuple[int, ...]:
    """Order the indices of members: static ones first, by instance id, then the others by id.

    Static members keep their place through restarts, which is what instance ids are for.
    Source: Kafka 4.1.0 `AbstractPartitionAssignor.MemberInfo`.
    """

    def key(index: int) -> tuple[bool, str, str]:
        member = group.members[index]
        return member.instance is None, member.instance or "", member.id

    return tuple(sorted(range(len(group.members)), key=key))

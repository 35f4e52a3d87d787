"""The assignment of a live consumer group, next to the one that each assignor would give it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from assignor_bridge.assignors.check import assign_checked
from assignor_bridge.assignors.group import Assignment, Group, Member
from assignor_bridge.assignors.lag_aware import Offsets
from assignor_bridge.assignors.own import configure_without_options
from assignor_bridge.errors import pluralize
from assignor_bridge.model import Partition
from checkpoints.user_data import decode_capacity
from streaming.kafka.groups import fetch_group_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assignor_bridge.assignors.protocol import Assignor
    from streaming.kafka.brokers import Brokers
    from streaming.kafka.classic_groups import ClassicGroup

#: Any generation: all members own what they were assigned in the same rebalance.
_GENERATION = 1


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One assignment of the group's partitions."""

    assignor: str
    #: Partitions by member id and topic.
    partitions: Mapping[str, Mapping[str, Sequence[int]]]
    #: Lag by member id, in records.
    lag: Mapping[str, int]
    #: Number of partitions that leave their current member.
    moved: int

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "assignor": self.assignor,
            "moved": self.moved,
            "members": {
                member: {
                    "lag": self.lag[member],
                    "partitions": {t: list(n) for t, n in own.items()},
                }
                for member, own in self.partitions.items()
            },
        }


@dataclass(frozen=True, slots=True)
class GroupLags:
    """Partitions and lags of the topics that a group subscribes to."""

    counts: Mapping[str, int]
    lags: Mapping[str, Mapping[int, int]]
    #: Number of partitions without a committed offset.
    uncommitted: int


def find_assignors(names: Sequence[str], find: Callable[[str], Assignor]) -> list[Assignor]:
    """Return the named assignors; raise OptionError for an unknown one."""
    return [configure_without_options(find(name)) for name in names]


def read_lags(brokers: Brokers, group: ClassicGroup) -> GroupLags:
    """Look up the lags of the group.

    The brokers do not know a consumer's `auto.offset.reset`, so a partition without a commit has
    the lag of Kafka's default, `latest`: 0.
    """
    topics = frozenset[str]().union(*(member.topics for member in group.members))
    offsets = fetch_group_offsets(brokers, group.name)
    numbers = brokers.list_partitions(topics)
    partitions = [Partition(topic, number) for topic in numbers for number in numbers[topic]]
    _, ends = brokers.fetch_log_ranges(partitions)
    lags: dict[str, dict[int, int]] = {topic: {} for topic in numbers}
    for tp in partitions:
        if tp in ends:
            lags[tp.topic][tp.number] = Offsets(ends[tp], committed=offsets.get(tp)).lag()
    counts = {topic: len(numbers[topic]) for topic in numbers}
    return GroupLags(counts, lags, sum(tp not in offsets for tp in partitions))


def describe_today(group: ClassicGroup, lags: GroupLags) -> GroupPlan:
    """Return today's assignment."""
    owned = {member.member_id: member.assigned for member in group.members}
    return GroupPlan(group.assignor, owned, _sum_lags(owned, lags), 0)


def plan(group: ClassicGroup, lags: GroupLags, assignor: Assignor) -> GroupPlan | str:
    """Return the assignment by an assignor, or why it refuses the group.

    A cooperative assignor gives the partitions that it withholds in the next round; they count as
    given. Racks are not considered.

    Raises PlanError if the user's own assignor raises or gives an invalid answer.
    """
    members = tuple(
        Member(
            member.member_id,
            member.topics,
            {topic: n for topic, n in member.assigned.items() if topic in lags.counts},
            _GENERATION,
            instance=member.instance,
            **_read_user_data(member.user_data, group.assignor == assignor.name),
        )
        for member in group.members
    )
    planned_group = Group(members, lags.counts, lags.lags)
    if refusal := assignor.refusal(planned_group):
        return refusal
    answer = assign_checked(assignor, planned_group)
    owner = answer.owner
    if answer.withheld is not None:
        owner = np.where(owner < 0, answer.withheld, owner)
    owned = Assignment(planned_group, owner).as_dict()
    moved = sum(
        len(set(numbers) - set(owned[member.id].get(topic, ())))
        for member in planned_group.members
        for topic, numbers in member.owned.items()
    )
    return GroupPlan(assignor.name, owned, _sum_lags(owned, lags), moved)


def check_online_upgrade(group: ClassicGroup) -> str | None:
    """Return why brokers refuse to move the group online to KIP-848, None if they do not.

    Brokers lose the user data of assignments, so they refuse a group that has some. The user data
    of subscriptions, as `sticky` sends them, do not matter (Kafka 4.1, ConsumerGroup's
    `fromClassicGroup`).
    """
    members_with_data = [member for member in group.members if member.assignment_user_data]
    if not members_with_data:
        return None
    return (
        f"the assignments of {pluralize(len(members_with_data), 'member')} have user data of "
        f"{group.assignor!r}, which the broker would lose"
    )


def _read_user_data(data: bytes | None, is_same_assignor: bool) -> dict[str, Any]:
    """Return the fields of a member that come from user data, if the same assignor wrote them."""
    if data is None or not is_same_assignor:
        return {}
    return {"user_data": data, "capacity": decode_capacity(data)}


def _sum_lags(owned: Mapping[str, Mapping[str, Sequence[int]]], lags: GroupLags) -> dict[str, int]:
    """Return the lag of each member's partitions."""
    return {
        member: sum(lags.lags.get(t, {}).get(n, 0) for t, numbers in own.items() for n in numbers)
        for member, own in owned.items()
    }

"""Compare the assignment of a live consumer group with the one that each assignor would compute."""

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

#: Any number, because the same rebalance assigned all partitions, so no claim is outdated.
_GENERATION = 1


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One assignment of the group's partitions."""

    assignor: str
    #: Partition numbers by member ID and topic.
    partitions: Mapping[str, Mapping[str, Sequence[int]]]
    #: Total lag by member ID, in offsets.
    lag_by_member: Mapping[str, int]
    #: Number of partitions that their current owner would lose.
    moved_partitions: int

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "assignor": self.assignor,
            "moved": self.moved_partitions,
            "members": {
                member: {
                    "lag": self.lag_by_member[member],
                    "partitions": {t: list(numbers) for t, numbers in by_topic.items()},
                }
                for member, by_topic in self.partitions.items()
            },
        }


@dataclass(frozen=True, slots=True)
class GroupLags:
    """Number of partitions by topic, and known lags in offsets by topic and partition number."""

    partition_counts: Mapping[str, int]
    lags: Mapping[str, Mapping[int, int]]
    partitions_without_commit: int  # their number


def find_assignors(names: Sequence[str], find: Callable[[str], Assignor]) -> list[Assignor]:
    """Return the named assignors, custom ones without options; raise OptionError for others."""
    return [configure_without_options(find(name)) for name in names]


def fetch_lags(brokers: Brokers, group: ClassicGroup) -> GroupLags:
    """Return the lags of the group's topics; none for a partition without a known end offset.

    A consumer's `auto.offset.reset` is not stored, so a partition without a commit gets lag 0, as
    with Kafka's default, `latest`.
    """
    topics = frozenset[str]().union(*(member.topics for member in group.members))
    commits = fetch_group_offsets(brokers, group.name)
    numbers_by_topic = brokers.list_partitions(topics)
    partitions = [Partition(topic, n) for topic, ns in numbers_by_topic.items() for n in ns]
    _, end_offsets = brokers.fetch_log_ranges(partitions)
    lags: dict[str, dict[int, int]] = {topic: {} for topic in numbers_by_topic}
    for p in partitions:
        if p in end_offsets:
            lags[p.topic][p.number] = Offsets(end_offsets[p], committed=commits.get(p)).lag()
    partition_counts = {topic: len(numbers) for topic, numbers in numbers_by_topic.items()}
    return GroupLags(partition_counts, lags, sum(p not in commits for p in partitions))


def make_current_plan(group: ClassicGroup, group_lags: GroupLags) -> GroupPlan:
    """Return the group's current assignment, as a plan that moves no partition."""
    partitions = {member.member_id: member.partitions for member in group.members}
    return GroupPlan(group.assignor, partitions, _sum_lags(partitions, group_lags), 0)


def plan(group: ClassicGroup, group_lags: GroupLags, assignor: Assignor) -> GroupPlan | str:
    """Return the assignment by an assignor, or the reason for which it refuses the group.

    The partitions that a cooperative assignor withholds go to their new owner in the second round,
    so the plan assigns them to that owner. Racks are ignored.

    Raises PlanError if a custom assignor raises an error or its answer is invalid.
    """
    members = tuple(
        Member(
            member.member_id,
            member.topics,
            {t: ns for t, ns in member.partitions.items() if t in group_lags.partition_counts},
            _GENERATION,
            instance=member.instance,
            **_decode_user_data(member.user_data, group.assignor == assignor.name),
        )
        for member in group.members
    )
    assignor_input = Group(members, group_lags.partition_counts, group_lags.lags)
    if refusal := assignor.refusal(assignor_input):
        return refusal
    assignment = assign_checked(assignor, assignor_input)
    owner = assignment.owner
    if assignment.withheld is not None:
        owner = np.where(owner < 0, assignment.withheld, owner)
    partitions = Assignment(assignor_input, owner).as_dict()
    moved_partitions = sum(
        len(set(numbers) - set(partitions[member.id].get(topic, ())))
        for member in assignor_input.members
        for topic, numbers in member.owned.items()
    )
    return GroupPlan(assignor.name, partitions, _sum_lags(partitions, group_lags), moved_partitions)


def check_online_upgrade(group: ClassicGroup) -> str | None:
    """Return the reason for which brokers refuse to move the group online to KIP-848, or None.

    Brokers drop the user data of assignments, so they refuse a group that has some. User data of
    subscriptions, as of `sticky`, does not matter (Kafka 4.1, `ConsumerGroup.fromClassicGroup`).
    """
    members_with_data = [member for member in group.members if member.assignment_user_data]
    if not members_with_data:
        return None
    return (
        f"the assignments of {pluralize(len(members_with_data), 'member')} have user data of "
        f"{group.assignor!r}, which the broker would lose"
    )


def _decode_user_data(data: bytes | None, is_same_assignor: bool) -> dict[str, Any]:
    """Return the `Member` fields from user data; empty if missing or another assignor's."""
    if data is None or not is_same_assignor:
        return {}
    return {"user_data": data, "capacity": decode_capacity(data)}


def _sum_lags(
    partitions: Mapping[str, Mapping[str, Sequence[int]]], group_lags: GroupLags
) -> dict[str, int]:
    """Return the total lag of each member's partitions; an unknown lag counts as 0."""
    return {
        member: sum(
            group_lags.lags.get(topic, {}).get(number, 0)
            for topic, numbers in by_topic.items()
            for number in numbers
        )
        for member, by_topic in partitions.items()
    }

"""Members of a classic group, decoded from the bytes that kafka-python writes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from assignor_bridge.assignors import ASSIGNORS, lookup
from assignor_bridge.errors import OptionError
from checkpoints.user_data import append_capacity, encode_claim, encode_priority
from streaming.kafka.classic_groups import ClassicGroup, ClassicMember, fetch_classic_group
from streaming.kafka.groups import GroupError
from streaming.lag import group_plan
from streaming.lag.group_plan import GroupLags, GroupPlan


def listed(member: str, owned: dict[str, list[int]], data: bytes = b"", version: int = 3) -> Any:
    subscription = ConsumerProtocolSubscription(
        version=version, topics=["t", "u"], user_data=data, owned_partitions=[],
        generation_id=4, rack_id="r",
    )  # fmt: skip
    assignment = ConsumerProtocolAssignment(version, list(owned.items()), data)
    return SimpleNamespace(
        id=member, client_id="c", metadata=subscription.encode(), assignment=assignment.encode()
    )


def brokers_with(members: list[Any], state: str = "Stable", **described: Any) -> Any:
    """Return brokers that answer with one group."""
    group = SimpleNamespace(
        id="g", error=None, state=state, protocol_type=described.pop("protocol_type", "consumer"),
        protocol="sticky", members=members,
    )  # fmt: skip
    kind = SimpleNamespace(name=described.pop("kind", "CLASSIC"))
    ids = [SimpleNamespace(member_id=m.id, group_instance_id="i") for m in members]
    description = SimpleNamespace(members=ids, type=kind, state=SimpleNamespace(name="STABLE"))
    admin = SimpleNamespace(
        describe_consumer_groups=lambda *_, **__: {"g": description},
        list_groups=lambda *_, **__: [group],
    )
    return SimpleNamespace(admin=admin, limit_s=1.0, await_answer=lambda answer: answer)


@pytest.mark.parametrize("version", range(4))
def test_members_are_decoded_in_each_version(version: int) -> None:
    brokers = brokers_with([listed("m", {"t": [0, 2], "u": [1]}, b"data", version)])
    owned = {"t": (0, 2), "u": (1,)}
    member = ClassicMember("m", "c", "i", frozenset({"t", "u"}), b"data", owned, b"data")
    assert fetch_classic_group(brokers, "g") == ClassicGroup("g", "sticky", (member,))


@pytest.mark.parametrize(
    ("brokers", "message"),
    [
        (brokers_with([]), "group 'g' has no members: start its consumers first"),
        (brokers_with([listed("m", {})], kind="CONSUMER"), "uses group.protocol=consumer"),
        (brokers_with([listed("m", {})], "PreparingRebalance"), "is in a rebalance"),
        (brokers_with([listed("m", {})], "Empty"), "group 'g' has no members"),
        (brokers_with([listed("m", {})], protocol_type="connect"), "the protocol type 'connect'"),
    ],
)
def test_another_group_is_one_line(brokers: Any, message: str) -> None:
    with pytest.raises(GroupError) as error:
        fetch_classic_group(brokers, "g")
    assert message in str(error.value)


def test_bytes_that_are_cut_off_are_malformed() -> None:
    whole = listed("m", {"t": [0]}, b"data", version=0)
    for size in range(len(whole.assignment)):
        cut = SimpleNamespace(**{**vars(whole), "assignment": whole.assignment[:size]})
        with pytest.raises(GroupError, match="a member's metadata is malformed"):
            fetch_classic_group(brokers_with([cut]), "g")


def member(name: str, owned: dict[str, tuple[int, ...]], data: bytes | None = None) -> Any:
    return ClassicMember(name, name, None, frozenset({"t"}), data, owned, b"")


LAGS = GroupLags({"t": 3}, {"t": {0: 100_000, 1: 60_000, 2: 50_000}}, 0)


def test_plans_show_lag_and_moves_of_the_proposals_example() -> None:
    group = ClassicGroup("g", "range", (member("C0", {"t": (0, 1)}), member("C1", {"t": (2,)})))
    today = group_plan.make_current_plan(group, LAGS)
    assert (today.lag_by_member, today.moved_partitions) == ({"C0": 160_000, "C1": 50_000}, 0)
    planned = group_plan.plan(group, LAGS, ASSIGNORS["lag-aware"])
    assert isinstance(planned, GroupPlan)
    assert planned.to_json() == {
        "assignor": "lag-aware",
        "moved": 1,
        "members": {
            "C0": {"lag": 100_000, "partitions": {"t": [0]}},
            "C1": {"lag": 110_000, "partitions": {"t": [1, 2]}},
        },
    }


def test_a_partition_that_is_withheld_counts_as_given() -> None:
    group = ClassicGroup("g", "range", (member("C0", {"t": (0, 1, 2)}), member("C1", {})))
    planned = group_plan.plan(group, LAGS, ASSIGNORS["cooperative-sticky"])
    assert isinstance(planned, GroupPlan)
    assert [sum(map(len, own.values())) for own in planned.partitions.values()] == [2, 1]
    assert planned.moved_partitions == 1


def test_only_user_data_of_the_same_assignor_are_used() -> None:
    """A priority counts for `failover`, a capacity for `lag-aware-sticky`, and nowhere else."""
    high = (member("C0", {}), member("C1", {"t": (0, 1, 2)}, encode_priority(3)))
    for assignor, owner in (("failover", "C1"), ("sticky", "C0")):
        group = ClassicGroup("g", assignor, high)
        planned = group_plan.plan(group, LAGS, ASSIGNORS["failover"])
        assert isinstance(planned, GroupPlan)
        assert planned.partitions[owner] == {"t": [0, 1, 2]}
    heavy = append_capacity(encode_claim({}, 1), 100.0)
    group = ClassicGroup("g", "lag-aware-sticky", (member("C0", {}), member("C1", {}, heavy)))
    planned = group_plan.plan(group, LAGS, ASSIGNORS["lag-aware-sticky"])
    assert isinstance(planned, GroupPlan)
    assert planned.partitions["C1"] == {"t": [0, 1, 2]}


def test_a_refusal_is_the_answer() -> None:
    other = ClassicMember("C1", "C1", None, frozenset({"u"}), None, {}, b"")
    group = ClassicGroup("g", "range", (member("C0", {"t": (0, 1, 2)}), other))
    lags = GroupLags({"t": 3, "u": 1}, {}, 4)
    answer = group_plan.plan(group, lags, ASSIGNORS["constrained-cooperative-sticky"])
    assert isinstance(answer, str)


def test_user_data_of_assignments_prevent_the_online_upgrade() -> None:
    """Those of subscriptions do not."""
    members = (member("C0", {}, encode_claim({}, 1)), member("C1", {}))
    assert group_plan.check_online_upgrade(ClassicGroup("g", "sticky", members)) is None
    with_data = ClassicMember("C2", "C2", None, frozenset(), None, {}, b"x")
    refusal = group_plan.check_online_upgrade(ClassicGroup("g", "mine", (*members, with_data)))
    assert refusal == (
        "the assignments of 1 member have user data of 'mine', which the broker would lose"
    )


def test_an_unknown_assignor_is_named() -> None:
    with pytest.raises(OptionError, match="unknown assignor 'stiky'; did you mean 'sticky'"):
        group_plan.find_assignors(["stiky"], lookup)

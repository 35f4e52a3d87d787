"""The worked examples of the proposals and the article."""

from __future__ import annotations

import pytest

from assignor_bridge.assignors import ASSIGNORS, Group, Member, check_assignment
from assignor_bridge.assignors.lag_aware import Offsets
from tests.support.consumer_group import InMemoryGroup, make_members

AB = frozenset({"A", "B"})


def assign(name: str, group: Group) -> dict[str, dict[str, list[int]]]:
    return check_assignment(name, group, ASSIGNORS[name].assign(group)).as_dict()


def group_of(*ids: str, topics: dict[str, int], **more: object) -> Group:
    return Group(tuple(make_members(ids, topics)), topics, **more)  # type: ignore[arg-type]


def test_range_co_partitions_topics_and_leaves_the_third_member_idle() -> None:
    """Article: topics A and B of two partitions each, three consumers."""
    assert assign("range", group_of("C1", "C2", "C3", topics={"A": 2, "B": 2})) == {
        "C1": {"A": [0], "B": [0]},
        "C2": {"A": [1], "B": [1]},
        "C3": {},
    }


def test_round_robin_uses_all_three_members_and_moves_much_on_a_leave() -> None:
    """Article: without C2, A-1 has to move, but B-0 and B-1 swap places as well."""
    three = group_of("C1", "C2", "C3", topics={"A": 2, "B": 2})
    assert assign("roundrobin", three) == {
        "C1": {"A": [0], "B": [1]},
        "C2": {"A": [1]},
        "C3": {"B": [0]},
    }
    two = group_of("C1", "C3", topics={"A": 2, "B": 2})
    assert assign("roundrobin", two) == {"C1": {"A": [0], "B": [0]}, "C3": {"A": [1], "B": [1]}}


def test_sticky_moves_only_the_leavers_partitions() -> None:
    """Article: C2 leaves, and only A-1 changes, to C3."""
    group = InMemoryGroup({"A": 2, "B": 2}, ["sticky"])
    for member in make_members(["C1", "C2", "C3"], ["A", "B"]):
        group.join(member)
    first = group.rebalance()[-1].assignment.as_dict()
    assert first == {"C1": {"A": [0], "B": [1]}, "C2": {"A": [1]}, "C3": {"B": [0]}}
    group.leave("C2")
    last = group.rebalance()[-1]
    assert last.assignment.as_dict() == {"C1": {"A": [0], "B": [1]}, "C3": {"A": [1], "B": [0]}}
    assert last.moved == 0


def test_failover_goes_to_the_next_priority() -> None:
    """Article: C1 has the highest priority and everything; if it fails, C2."""
    group = InMemoryGroup({"A": 2, "B": 2}, ["failover"])
    for name, priority in (("C1", 30), ("C2", 20), ("C3", 10)):
        group.join(Member(name, AB, priority=priority))
    everything = {"A": [0, 1], "B": [0, 1]}
    assert group.rebalance()[-1].assignment.as_dict()["C1"] == everything
    group.crash("C1")
    assert group.rebalance()[-1].assignment.as_dict() == {"C2": everything, "C3": {}}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("lag-aware", {"C0": [0], "C1": [1, 2]}, id="the laggard is read alone"),
        pytest.param("range", {"C0": [0, 1], "C1": [2]}, id="range puts both laggards together"),
        pytest.param("roundrobin", {"C0": [0, 2], "C1": [1]}, id="round-robin counts only"),
    ],
)
def test_lag_aware_compared_with_the_others(name: str, expected: dict[str, list[int]]) -> None:
    """Lag-aware proposal: lags of 100,000, 60,000 and 50,000."""
    lags = {"t0": {0: 100_000, 1: 60_000, 2: 50_000}}
    answer = assign(name, group_of("C0", "C1", topics={"t0": 3}, lags=lags))
    assert {member: topics["t0"] for member, topics in answer.items()} == expected


@pytest.mark.parametrize(
    ("offsets", "reset", "lag"),
    [
        pytest.param(Offsets(100, 10, 40), "earliest", 60, id="latest minus committed"),
        pytest.param(Offsets(100, 10), "latest", 0, id="no commit, starts at the end"),
        pytest.param(Offsets(100, 10), "earliest", 90, id="no commit, reads all there is"),
        pytest.param(Offsets(100, 10), "none", 90, id="no commit, any other reset"),
        pytest.param(Offsets(5, 0, 40), "earliest", 0, id="a log that was cut has no lag"),
    ],
)
def test_lag_from_offsets(offsets: Offsets, reset: str, lag: int) -> None:
    assert offsets.lag(reset) == lag


def test_partitions_without_lag_are_balanced() -> None:
    """Lag-aware proposal: without lags it balances like range."""
    answer = assign("lag-aware", group_of("C0", "C1", topics={"t": 5}))
    assert {m: len(topics["t"]) for m, topics in answer.items()} == {"C0": 3, "C1": 2}


def test_a_chain_of_moves_balances_overlapping_subscriptions() -> None:
    """9/10/11, where only B shares topics with both: A takes from B, and B from C."""
    members = (
        Member("A", frozenset({"x", "y"}), {"x": range(9)}, 1),
        Member("B", frozenset({"y", "z"}), {"y": range(10)}, 1),
        Member("C", frozenset({"z"}), {"z": range(11)}, 1),
    )
    group = Group(members, {"x": 9, "y": 10, "z": 11})
    answer = ASSIGNORS["sticky"].assign(group)
    assert answer.counts.tolist() == [10, 10, 10]
    kept = [answer[m.id].count - sum(map(len, m.owned.values())) for m in members]
    assert kept == [1, 0, -1]
    assert answer.as_dict()["A"] == {"x": list(range(9)), "y": [9]}


def test_unnecessary_moves_are_undone() -> None:
    """The greedy start assigns t1-0 to m0, which owns t2-0; a cycle of moves restores t2-0."""
    members = (
        Member("m0", frozenset({"t1", "t2"}), {"t2": [0]}, 1),
        Member("m1", frozenset({"t0", "t1"})),
        Member("m2", frozenset({"t0", "t2"})),
    )
    answer = assign("sticky", Group(members, {"t0": 1, "t1": 1, "t2": 1}))
    assert answer == {"m0": {"t2": [0]}, "m1": {"t1": [0]}, "m2": {"t0": [0]}}


def test_constrained_assigns_in_partition_order() -> None:
    """Constrained proposal: t0p0, t1p0, t2p0, t0p1, … to members in order, floor first."""
    answer = assign(
        "constrained-cooperative-sticky", group_of("C0", "C1", topics={"t0": 2, "t1": 2, "t2": 1})
    )
    assert answer == {"C0": {"t0": [0], "t1": [0, 1]}, "C1": {"t0": [1], "t2": [0]}}


def test_constrained_withholds_partitions_until_they_are_revoked() -> None:
    owner = Member("C0", frozenset({"t"}), {"t": [0, 1, 2, 3]}, 1)
    group = Group((owner, Member("C1", frozenset({"t"}))), {"t": 4})
    first = ASSIGNORS["constrained-cooperative-sticky"].assign(group)
    assert first.as_dict() == {"C0": {"t": [0, 1]}, "C1": {}}
    assert first.transferring == {"t": (2, 3)}
    second = ASSIGNORS["constrained-cooperative-sticky"].assign(group.after(first, 2))
    assert second.as_dict() == {"C0": {"t": [0, 1]}, "C1": {"t": [2, 3]}}


def test_constrained_drops_claims_of_an_older_generation() -> None:
    old = Member("C0", frozenset({"t"}), {"t": [2, 3]}, 1)
    new = Member("C1", frozenset({"t"}), {"t": [1]}, 2)
    answer = assign("constrained-cooperative-sticky", Group((old, new), {"t": 4}))
    assert answer == {"C0": {"t": [0, 2]}, "C1": {"t": [1]}}  # 3 goes to C1 after C0 has revoked it


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(3, 2, {"C0": [0, 1], "C1": [2, 3]}, id="the newer claim counts"),
        pytest.param(2, 3, {"C0": [2, 3], "C1": [0, 1]}, id="whoever makes it"),
        pytest.param(None, 0, {"C0": [2, 3], "C1": [0, 1]}, id="no generation is older than 0"),
        pytest.param(2, 2, {"C0": [0, 2], "C1": [1, 3]}, id="a tie gives nobody a right"),
    ],
)
def test_the_newest_of_two_claims_is_valid(
    one: int | None, other: int | None, expected: dict[str, list[int]]
) -> None:
    """KIP-341: C0 and C1 both claim partitions 0 and 1."""
    topics = frozenset({"t"})
    members = (Member("C0", topics, {"t": [0, 1]}, one), Member("C1", topics, {"t": [0, 1]}, other))
    answer = assign("sticky", Group(members, {"t": 4}))
    assert {m: of["t"] for m, of in answer.items()} == expected


def test_constrained_divides_2100_partitions_evenly() -> None:
    """Constrained proposal: 2,100 consumers and partitions took 2.5 minutes."""
    group = group_of(*(f"C{i}" for i in range(2_100)), topics={"t": 2_100})
    assert set(ASSIGNORS["constrained-cooperative-sticky"].assign(group).counts.tolist()) == {1}


def test_range_prefers_members_in_the_rack_of_a_replica() -> None:
    """KIP-881: partition 0 has its replica in r2, where only C1 is."""
    members = (
        Member("C0", frozenset({"t"}), rack="r1"),
        Member("C1", frozenset({"t"}), rack="r2"),
    )
    racks = {"t": {0: frozenset({"r2"}), 1: frozenset({"r1"})}}
    assert assign("range", Group(members, {"t": 2}, partition_racks=racks)) == {
        "C0": {"t": [1]},
        "C1": {"t": [0]},
    }


def test_streams_places_copies_and_fails_over_to_them() -> None:
    group = InMemoryGroup({"a": 4, "b": 3}, ["streams"], standby_replicas=1)
    for host in ("h1", "h2"):
        for slot in "01":
            group.join(Member(f"{host}/{slot}", AB | {"a", "b"}, host=host))
    first = group.rebalance()[-1].assignment
    assert first.notes == ("topic 'b' is short: 3 partitions for 4 tasks",)
    for member, copies in first.standbys.items():
        for task in copies["a"]:
            active = next(m for m, part in first.items() if task in part["a"])
            assert active.split("/")[0] != member.split("/")[0]
    lost = "h1/0"
    warm = next(m for m, copies in first.standbys.items() if first[lost]["a"][0] in copies["a"])
    group.crash(lost)
    last = group.rebalance()[-1].assignment
    assert first[lost]["a"][0] in last[warm]["a"]

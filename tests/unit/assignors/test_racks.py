"""Racks in the sticky assignors (KIP-881): balance, then racks, then owners."""

from __future__ import annotations

import pytest

from assignor_bridge.assignors import ASSIGNORS, Group, Member
from assignor_bridge.assignors.testing import rebalance

STICKY = ["sticky", "cooperative-sticky", "constrained-cooperative-sticky"]


def group(
    members: dict[str, str | None],
    racks: dict[int, str],
    owned: dict[str, list[int]] | None = None,
) -> Group:
    """A topic `t` whose partitions have replicas in racks of one letter each."""
    owned = owned or {}
    return Group(
        tuple(
            Member(name, frozenset({"t"}), {"t": owned[name]} if name in owned else {}, 4, rack)
            for name, rack in members.items()
        ),
        {"t": len(racks)},
        partition_racks={"t": {p: frozenset(held) for p, held in racks.items()}},
    )


def settled(name: str, given: Group) -> dict[str, tuple[int, ...]]:
    last = list(rebalance(ASSIGNORS[name], given))[-1].assignment
    return {member: last[member].get("t", ()) for member in last}


@pytest.mark.parametrize("name", STICKY)
@pytest.mark.parametrize(
    ("members", "racks", "owned", "expected"),
    [
        pytest.param({"A": "a", "B": "b"}, {0: "b", 1: "a", 2: "b", 3: "a"}, {},
                     {"A": (1, 3), "B": (0, 2)}, id="each reads its own rack"),
        pytest.param({"A": "a", "B": "b"}, {0: "b", 1: "a"}, {"A": [0], "B": [1]},
                     {"A": (1,), "B": (0,)}, id="misplaced partitions are swapped"),
        pytest.param({"A": "a", "B": "b"}, {0: "a", 1: "a", 2: "a", 3: "b"}, {},
                     {"A": (0, 1), "B": (2, 3)}, id="counts are even all the same"),
        pytest.param({"A": "a", "B": "b"}, {0: "a", 1: "a", 2: "a", 3: "b"}, {"B": [1, 3]},
                     {"A": (0, 2), "B": (1, 3)}, id="what has no better place stays"),
        pytest.param({"A": "a", "B": "b"}, {0: "ab", 1: "ab", 2: "ab", 3: "ab"}, {"A": [2, 3]},
                     {"A": (2, 3), "B": (0, 1)}, id="racks that all have make no difference"),
        pytest.param({"A": "a", "B": "b"}, {0: "x", 1: "x"}, {"A": [1]},
                     {"A": (1,), "B": (0,)}, id="nor do racks without members"),
        pytest.param({"A": None, "B": "b"}, {0: "b", 1: "c"}, {"A": [1]},
                     {"A": (1,), "B": (0,)}, id="a member without a rack keeps what it has"),
    ],
)  # fmt: skip
def test_balance_then_racks_then_owners(name, members, racks, owned, expected):
    assert settled(name, group(members, racks, owned)) == expected


def test_a_swap_takes_two_cooperative_rounds():
    given = group({"A": "a", "B": "b"}, {0: "b", 1: "a"}, {"A": [0], "B": [1]})
    assignor = ASSIGNORS["cooperative-sticky"]
    first = assignor.assign(given)
    assert (str(first), first.transferring) == ("A: []\nB: []", {"t": [0, 1]})
    second = assignor.assign(given.after(first, 5))
    assert str(second) == "A: [tp1]\nB: [tp0]"


def test_members_with_different_subscriptions_cross_fewest_racks():
    """C1 and C2 could swap nothing: one chain over both topics brings both home."""
    racks = {"t0": {0: frozenset("a"), 1: frozenset("b")}, "t1": {0: frozenset("b")}}
    members = (
        Member("C0", frozenset({"t0"}), {"t0": [1]}, 4, "a"),
        Member("C1", frozenset({"t0", "t1"}), {"t0": [0]}, 4, "b"),
        Member("C2", frozenset({"t1"}), {"t1": [0]}, 4, "b"),
    )
    given = Group(members, {"t0": 2, "t1": 1}, partition_racks=racks)
    answer = ASSIGNORS["sticky"].assign(given)
    assert str(answer) == "C0: [t0p0]\nC1: [t0p1]\nC2: [t1p0]"


def test_uniform_looks_at_no_racks_as_kafkas_does():
    given = group({"A": "a", "B": "b"}, {0: "b", 1: "b", 2: "a", 3: "a"})
    assert settled("uniform", given) == {"A": (0, 1), "B": (2, 3)}

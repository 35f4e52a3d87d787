"""Racks in the sticky assignors (KIP-881): balance, then racks, then owners."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from assignor_bridge.assignors import ASSIGNORS, Group, Member
from assignor_bridge.assignors.testing import rebalance
from assignor_bridge.testing.random_groups import random_group

STICKY = ["sticky", "uniform", "cooperative-sticky", "constrained-cooperative-sticky"]


def group(
    members: dict[str, str | None],
    racks: dict[int, str],
    owned: dict[str, list[int]] | None = None,
) -> Group:
    """Return a topic `t`; each partition's replicas are in racks named by single letters."""
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
    """C1 and C2 cannot swap directly: one chain over both topics brings both home."""
    racks = {"t0": {0: frozenset("a"), 1: frozenset("b")}, "t1": {0: frozenset("b")}}
    members = (
        Member("C0", frozenset({"t0"}), {"t0": [1]}, 4, "a"),
        Member("C1", frozenset({"t0", "t1"}), {"t0": [0]}, 4, "b"),
        Member("C2", frozenset({"t1"}), {"t1": [0]}, 4, "b"),
    )
    given = Group(members, {"t0": 2, "t1": 1}, partition_racks=racks)
    answer = ASSIGNORS["sticky"].assign(given)
    assert str(answer) == "C0: [t0p0]\nC1: [t0p1]\nC2: [t1p0]"


@pytest.mark.parametrize("name", ["cooperative-sticky", "constrained-cooperative-sticky"])
def test_a_better_swap_of_the_second_round_is_made_in_the_first(name):
    """Without looking ahead this group takes three rounds, like one in a hundred groups."""
    rng = random.Random(364)
    given = random_group(rng, same=True, racks=True)
    owned: dict[str, dict[str, list[int]]] = {m.id: {} for m in given.members}
    for topic, count in given.topics.items():
        for partition in range(count):
            owned[rng.choice(given.ids)].setdefault(topic, []).append(partition)
    members = tuple(replace(m, owned=owned[m.id], generation=1) for m in given.members)
    rounds = list(rebalance(ASSIGNORS[name], replace(given, members=members)))
    assert len(rounds) == 2
    first, second = (one.assignment for one in rounds)
    held = first.owner >= 0
    assert (second.owner == first.owner)[held].all()
    assert first.transferring.count
    assert not second.transferring.count


def lagging(members: dict[str, str | None], racks: dict[int, str], lags: dict[int, int]) -> Group:
    return replace(group(members, racks), lags={"t": lags})


@pytest.mark.parametrize(
    ("racks", "lags", "expected"),
    [
        pytest.param({0: "b", 1: "a"}, {0: 1000, 1: 990}, {"A": (1,), "B": (0,)},
                     id="of alike members the one that is near"),
        pytest.param({0: "a", 1: "a", 2: "b", 3: "a"}, {0: 1000, 1: 100, 2: 60, 3: 50},
                     {"A": (0, 3), "B": (1, 2)}, id="a lag that differs weighs more"),
        pytest.param({0: "b", 1: "b", 2: "a", 3: "a"}, {0: 1000, 1: 1000, 2: 990, 3: 990},
                     {"A": (1, 2), "B": (0, 3)}, id="counts stay even round by round"),
        pytest.param({0: "a", 1: "b", 2: "a", 3: "b"}, {0: 1000, 1: 990, 2: 500, 3: 490},
                     {"A": (0, 2), "B": (1, 3)}, id="alike is what differs by little"),
        pytest.param({0: "b", 1: "b", 2: "a", 3: "a"}, {}, {"A": (2, 3), "B": (0, 1)},
                     id="without lag only counts and racks matter"),
        pytest.param({0: "x", 1: "x"}, {0: 1000, 1: 990}, {"A": (0,), "B": (1,)},
                     id="racks without members make no difference"),
    ],
)  # fmt: skip
def test_lag_aware_prefers_near_members_among_those_that_are_alike(racks, lags, expected):
    given = lagging({"A": "a", "B": "b"}, racks, lags)
    assert settled("lag-aware", given) == expected


def tasks_group(
    racks: dict[str, dict[int, str]],
    owned: dict[str, list[int]] | None = None,
    standby: dict[str, list[int]] | None = None,
    copies: int = 0,
    members: dict[str, str | None] | None = None,
) -> Group:
    """Return members A, B and C in racks a, b and c; topics are co-partitioned."""
    names = members or {"A": "a", "B": "b", "C": "c"}
    topics = frozenset(racks)
    return Group(
        tuple(
            Member(
                name, topics, {t: (owned or {}).get(name, []) for t in topics}, 4, rack,
                standby={t: (standby or {}).get(name, []) for t in topics},
            )
            for name, rack in names.items()
        ),
        {topic: len(of) for topic, of in racks.items()},
        partition_racks={
            topic: {p: frozenset(held) for p, held in of.items()} for topic, of in racks.items()
        },
        standby_replicas=copies,
    )  # fmt: skip


def test_streams_runs_tasks_where_most_of_their_partitions_are():
    """Rack c has two topics of task 0, rack a has one; no member moves without a gain."""
    racks = {
        "t": {0: "c", 1: "a", 2: "b"},
        "u": {0: "c", 1: "a", 2: "b"},
        "v": {0: "a", 1: "a", 2: "b"},
    }
    answer = ASSIGNORS["streams"].assign(tasks_group(racks, {"A": [0], "B": [1], "C": [2]}))
    assert {m: answer[m]["t"] for m in answer} == {"A": (1,), "B": (2,), "C": (0,)}


def test_streams_gives_a_lost_task_to_a_warm_member_in_its_rack():
    racks = {"t": {p: "ab"[p % 2] for p in range(4)}}
    names = {"A1": "a", "A2": "a", "B1": "b", "B2": "b"}
    given = tasks_group(racks, {"A1": [0], "B1": [1]}, {"A2": [2], "B2": [2, 3]}, members=names)
    answer = ASSIGNORS["streams"].assign(given)
    assert {m: answer[m]["t"] for m in answer} == {"A1": (0,), "A2": (2,), "B1": (1,), "B2": (3,)}


@pytest.mark.parametrize("seed", range(20))
def test_a_standby_is_in_another_rack_than_its_active_task_where_a_member_has_room(seed):
    """This also holds after other standbys, and for racks of different sizes."""
    rng = random.Random(seed)
    names = {f"m{i}": "aabbc"[i % 5] for i in range(10)}
    standby: dict[str, list[int]] = {name: [] for name in names}
    for task in range(40):
        standby[rng.choice(list(names))].append(task)
    racks = {"t": {p: "".join(rng.sample("abc", rng.randint(1, 3))) for p in range(40)}}
    given = tasks_group(racks, standby=standby, copies=1, members=names)
    answer = ASSIGNORS["streams"].assign(given)
    active = {p: m for m in answer for p in answer[m].get("t", ())}
    kept = {m: of.get("t", ()) for m, of in answer.standbys.items()}
    assert sum(map(len, kept.values())) == len(active) == 40
    racks_with_room = {names[m] for m in names if len(kept.get(m, ())) < 4}
    near = [names[m] for m, of in kept.items() for p in of if names[active[p]] == names[m]]
    assert len(near) < 10
    assert all(racks_with_room <= {rack} for rack in near)


@pytest.mark.parametrize("name", STICKY[:2])
def test_the_order_in_which_racks_are_written_does_not_matter(name):
    """The conformance suite found it: sets of racks were numbered in the order of the input."""
    members = (
        Member("m0", frozenset("t"), rack="r3"),
        Member("m1", frozenset({"t", "empty"}), rack="r3"),
    )
    held = {0: frozenset({"r3"}), 1: frozenset({"r2"})}
    answers = [
        settled(name, Group(members, {"t": 2, "empty": 0}, partition_racks={"t": racks}))
        for racks in (held, dict(reversed(held.items())))
    ]
    assert answers[0] == answers[1]

"""Groups through joins, leaves, crashes, zombies, and new partitions."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor_bridge.assignors import ASSIGNORS, Member
from tests.support.consumer_group import InMemoryGroup
from tests.support.trials import trials

EVENTS = ["join", "leave", "crash", "return", "grow", "quiet"]


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@trials(15)
@given(events=st.lists(st.sampled_from(EVENTS), max_size=12), seed=st.integers(0, 99))
def test_a_group_survives_any_sequence_of_events(name: str, events: list[str], seed: int) -> None:
    """Every answer is checked, and no partition moves while its owner is present."""
    rng = random.Random(seed)
    group = InMemoryGroup({"a": 4, "b": 3}, [name], standby_replicas=1)
    topics, away, count = frozenset({"a", "b"}), [], 2
    for number in range(count):
        group.join(Member(f"m{number}", topics))
    group.rebalance()
    for event in events:
        present = list(group.group.ids)
        if event == "join":
            group.join(Member(f"m{count}", topics))
            count += 1
        elif event == "leave" and len(present) > 1:
            group.leave(rng.choice(present))
        elif event == "crash" and len(present) > 1:
            away.append(rng.choice(present))
            group.crash(away[-1])
        elif event == "return" and away:
            group.come_back(away.pop(0))
        elif event == "grow":
            group.resize({"b": group.group.topics["b"] + 1})
        last = group.rebalance()[-1]
        owned = [i for part in last.assignment.values() for i in part.ids.tolist()]
        assert sorted(owned) == list(range(group.group.catalog.total)), group.history
        if event == "quiet":
            assert last.moved == 0 or name in ("range", "roundrobin", "lag-aware"), group.history


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky", "uniform"])
def test_a_returning_zombie_gets_nothing_back(name: str) -> None:
    """KIP-341: C1 was away while its partitions moved, and returns with its old claim."""
    group = InMemoryGroup({"t": 6}, [name])
    for member in ("C1", "C2", "C3"):
        group.join(Member(member, frozenset({"t"})))
    had = group.rebalance()[-1].assignment["C1"]
    group.crash("C1")
    group.rebalance()
    group.rebalance()
    group.come_back("C1")
    assert group.group.members[0].owned == had
    final = group.rebalance()[-1].assignment
    assert sorted(i for part in final.values() for i in part.ids.tolist()) == list(range(6))
    assert [part.count for part in final.values()] == [2, 2, 2]

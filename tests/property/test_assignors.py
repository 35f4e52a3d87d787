"""The promises of single assignors for any group; common ones are in `test_conformance`."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from assignor_bridge.assignors import (
    ASSIGNORS,
    Assignment,
    Group,
    Member,
    check_assignment,
)
from assignor_bridge.assignors.claims import resolve_claims
from assignor_bridge.assignors.cooperative import describe_different_subscriptions
from assignor_bridge.assignors.rack_aware import find_racks
from assignor_bridge.errors import OptionError, PlanError
from assignor_bridge.testing.random_groups import groups
from tests.support.consumer_group import settle
from tests.support.trials import trials

ALL = sorted(ASSIGNORS)
NEEDS_SAME = ["constrained-cooperative-sticky", "streams"]
ANY_SUBSCRIPTION = [name for name in ALL if name not in NEEDS_SAME]
STICKY = ["sticky", "cooperative-sticky", "uniform"]
#: Each rule is tried on this many groups, for each assignor.
FEW = trials(25)
EVEN = [*STICKY, "constrained-cooperative-sticky"]


def owners(group: Group, answer: Assignment) -> dict[tuple[str, int], str]:
    """Return the owner of each partition from the mapping; fail if a partition is listed twice."""
    found: dict[tuple[str, int], str] = {}
    for member, part in answer.items():
        for topic, numbers in part.items():
            for number in numbers:
                assert (topic, number) not in found
                found[topic, number] = member
    return found


def loads(answer: Assignment) -> list[int]:
    return [part.count for part in answer.values()]


@pytest.mark.parametrize("name", NEEDS_SAME)
@FEW
@given(group=groups())
def test_unsupported_groups_are_refused_with_a_reason(name: str, group: Group) -> None:
    assume(describe_different_subscriptions(group))
    assert ASSIGNORS[name].refusal(group)
    with pytest.raises(OptionError, match="must subscribe to the same topics"):
        ASSIGNORS[name].assign(group)


@FEW
@given(group=groups())
def test_range_divides_each_topic_evenly_and_in_the_same_way(group: Group) -> None:
    group = replace(group, partition_racks={})
    answer = ASSIGNORS["range"].assign(group)
    shapes: dict[tuple[int, tuple[int, ...]], set[str]] = {}
    for topic, subscribers in group.subscribers.items():
        names = [group.ids[i] for i in subscribers]
        blocks = [answer[name].get(topic, ()) for name in names]
        counts = [len(block) for block in blocks]
        assert max(counts) - min(counts) <= 1
        assert sorted(counts, reverse=True) == counts
        assert list(itertools.chain(*blocks)) == list(range(group.topics[topic]))
        shapes.setdefault((group.topics[topic], subscribers), set()).add(str(blocks))
    assert all(len(shape) == 1 for shape in shapes.values())


@FEW
@given(group=groups())
def test_range_with_racks_is_as_even_as_without(group: Group) -> None:
    answer = ASSIGNORS["range"].assign(group)
    for topic, subscribers in group.subscribers.items():
        counts = [len(answer[group.ids[i]].get(topic, ())) for i in subscribers]
        assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("name", STICKY)
@FEW
@given(group=groups())
def test_no_chain_of_moves_would_improve_balance(name: str, group: Group) -> None:
    answer = settle(ASSIGNORS[name], group)
    topics_of = {m.id: m.topics for m in group.members}
    count = {m: part.count for m, part in answer.items()}
    for low, height in count.items():
        reached, frontier = {low}, [low]
        while frontier:
            taker = frontier.pop()
            for giver, part in answer.items():
                if giver not in reached and any(t in topics_of[taker] for t in part):
                    reached.add(giver)
                    frontier.append(giver)
        assert max(count[m] for m in reached) <= height + 1


@pytest.mark.parametrize("name", ["sticky", "uniform"])
@trials(35)
@given(group=groups(members=3, most=3))
def test_assignments_are_optimal_in_balance_and_then_in_moves(name: str, group: Group) -> None:
    """Compared with all possible assignments."""
    group = replace(group, partition_racks={})
    held = resolve_claims(group).owner
    ids = np.flatnonzero(group.subscribed).tolist()
    options = [group.subscribers[group.catalog.names[group.catalog.topic_of[i]]] for i in ids]
    assume(np.prod([len(o) for o in options], dtype=float) <= 3_000)

    def cost(owner: dict[int, int]) -> tuple[list[int], int]:
        count = Counter(owner.values())
        heights = sorted((count[m] for m in range(len(group.ids))), reverse=True)
        return heights, sum(held[i] >= 0 and held[i] != m for i, m in owner.items())

    answer = ASSIGNORS[name].assign(group)
    best = min(cost(dict(zip(ids, choice, strict=True))) for choice in itertools.product(*options))
    assert cost({i: int(answer.owner[i]) for i in ids}) == best


def crossed(group: Group, owner: np.ndarray) -> int:
    """Return the number of partitions whose owner is in another rack than their replicas."""
    racks = find_racks(group)
    ids = np.flatnonzero(owner >= 0)
    return int(racks.is_far(ids, owner[ids]).sum()) if racks else 0


@trials(35)
@given(group=groups(members=3, most=3))
def test_assignments_are_optimal_in_racks_and_then_in_moves(group: Group) -> None:
    """Compared with all possible assignments; different subscriptions are connected."""
    group = replace(group, members=(*group.members, Member("all", frozenset(group.topics))))
    topics = {t for t, count in group.topics.items() if count}
    assume(len({m.topics & topics for m in group.members if m.topics & topics}) > 1)
    held = resolve_claims(group).owner
    ids = np.flatnonzero(group.subscribed).tolist()
    options = [group.subscribers[group.catalog.names[group.catalog.topic_of[i]]] for i in ids]
    assume(np.prod([len(o) for o in options], dtype=float) <= 3_000)

    def cost(owner: np.ndarray) -> tuple[list[int], int, int]:
        heights = sorted(np.bincount(owner[ids], minlength=len(group.ids)).tolist(), reverse=True)
        moved = int(((held[ids] >= 0) & (held[ids] != owner[ids])).sum())
        return heights, crossed(group, owner), moved

    def filled(choice: tuple[int, ...]) -> np.ndarray:
        owner = np.full(group.catalog.total, -1)
        owner[ids] = choice
        return owner

    assume(ids)
    best = min(cost(filled(c)) for c in itertools.product(*options))
    for name in ("sticky", "uniform"):
        assert cost(ASSIGNORS[name].assign(group).owner) == best


@pytest.mark.parametrize("name", ["cooperative-sticky", "constrained-cooperative-sticky"])
@FEW
@given(group=groups(same=True))
def test_the_second_round_assigns_withheld_partitions(name: str, group: Group) -> None:
    first = ASSIGNORS[name].assign(group)
    for member in group.members:
        for other, part in first.items():
            if other == member.id:
                continue
            both = part.ids[np.isin(part.ids, group.catalog.ids(member.owned))]
            assert (resolve_claims(group).owner[both] == group.ids.index(other)).all()
    second = ASSIGNORS[name].assign(group.after(first, 7))
    assert not second.transferring.count
    promised = first.owner.copy()
    if first.withheld is not None:
        promised = np.where(first.withheld >= 0, first.withheld, first.owner)
    counts = np.bincount(promised[promised >= 0], minlength=len(group.ids))
    assert sorted(second.counts) == sorted(counts)
    kept = first.owner >= 0
    assert (second.owner[kept] == first.owner[kept]).all()


@FEW
@given(group=groups())
def test_lag_aware_balances_counts_first_and_then_lags(group: Group) -> None:
    answer = ASSIGNORS["lag-aware"].assign(group)
    for topic, subscribers in group.subscribers.items():
        lags = {p: max(0, lag) for p, lag in group.lags[topic].items()}
        parts = [answer[group.ids[i]].get(topic, ()) for i in subscribers]
        counts = [len(part) for part in parts]
        assert max(counts) - min(counts) <= 1
        totals = [sum(lags[p] for p in part) for part in parts]
        alike = 0.05 * sum(totals) / len(totals) if find_racks(group) else 0
        assert max(totals) - min(totals) <= max(lags.values(), default=0) + alike


@FEW
@given(group=groups())
def test_failover_assigns_topics_whole_to_the_highest_priority(group: Group) -> None:
    answer = ASSIGNORS["failover"].assign(group)
    for topic, subscribers in group.subscribers.items():
        members = [group.members[i] for i in subscribers]
        holders = [m for m in members if topic in answer[m.id]]
        assert len(holders) == min(1, group.topics[topic])
        for holder in holders:
            assert all(
                m.priority is None
                or (holder.priority is not None and holder.priority >= m.priority)
                for m in members
            )


@FEW
@given(group=groups(same=True))
def test_streams_keeps_tasks_whole_and_standbys_on_other_members(group: Group) -> None:
    answer = ASSIGNORS["streams"].assign(group)
    tasks: dict[int, set[str]] = {}
    for (_, number), member in owners(group, answer).items():
        tasks.setdefault(number, set()).add(member)
    assert all(len(members) == 1 for members in tasks.values())
    active = Counter(member for members in tasks.values() for member in members)
    counts = [active[m] for m in group.ids]
    assert max(counts) - min(counts) <= 1
    copies = min(group.standby_replicas, len(group.ids) - 1)
    standbys: dict[int, set[str]] = {task: set() for task in tasks}
    for member, part in answer.standbys.items():
        for task in {p for numbers in part.values() for p in numbers}:
            standbys[task].add(member)
    assert all(len(members) == copies for members in standbys.values())
    assert all(not tasks[task] & standbys[task] for task in tasks)
    ceiling = -(-copies * len(tasks) // len(group.ids))
    held = Counter(member for members in standbys.values() for member in members)
    assert max(held.values(), default=0) <= ceiling


@FEW
@given(group=groups(same=True, members=6), data=st.data())
def test_streams_fails_over_to_standbys(group: Group, data: st.DataObject) -> None:
    """If at least two members with room remain, a lost member's tasks move to their standbys."""
    group = replace(group, standby_replicas=1)
    assume(len(group.ids) > 1)
    first = ASSIGNORS["streams"].assign(group)
    lost = data.draw(st.sampled_from(group.ids))
    left = group.after(first, 7)
    left = replace(left, members=tuple(m for m in left.members if m.id != lost))
    second = owners(left, ASSIGNORS["streams"].assign(left))
    warm = {
        (t, p): member
        for member, part in first.standbys.items()
        for t, ps in part.items()
        for p in ps
    }
    before = {tp: m for tp, m in owners(group, first).items() if m == lost}
    share = -(-max(group.topics.values()) // len(left.ids))
    for tp in before:
        went, standby = second[tp], warm[tp]
        full = len({p for (_, p), m in second.items() if m == standby}) >= share - 1
        assert went == standby or full


@trials(100)
@given(data=st.data())
def test_answers_that_pass_the_check_assign_every_partition(data: st.DataObject) -> None:
    """Valid answers with random elements of `owner` and `withheld` overwritten."""
    group = data.draw(groups())
    right = ASSIGNORS["cooperative-sticky"].assign(group)
    withheld = np.full(group.catalog.total, -1) if right.withheld is None else right.withheld
    parts = [right.owner.copy(), withheld.copy()]
    if group.catalog.total:
        cell = st.integers(0, group.catalog.total - 1)
        value = st.integers(-2, len(group.ids)) | st.sampled_from([-(2**31), 2**31 - 1])
        for part, at, now in data.draw(
            st.lists(st.tuples(st.integers(0, 1), cell, value), max_size=3)
        ):
            parts[part][at] = now
    try:
        answer = check_assignment("any", group, Assignment(group, parts[0], withheld=parts[1]))
    except PlanError:
        return
    assert (answer.owner == parts[0]).all()
    held = resolve_claims(group)
    for number in np.flatnonzero(group.subscribed).tolist():
        topic = group.catalog.names[int(group.catalog.topic_of[number])]
        receiver = int(answer.owner[number])
        if receiver < 0:
            receiver = int(parts[1][number])
            holders = held.claimant[held.ids == number].tolist()
            assert [holder for holder in holders if holder != receiver]
        else:
            assert parts[1][number] == -1
        assert topic in group.members[receiver].topics
        assert receiver >= 0

"""Pytest cases for the promises of an assignor, which a user's class inherits.

Groups come from hypothesis, which reduces a failing group to a small one. Every run tries the same
groups and no case measures time, so the results are reproducible.
"""

from __future__ import annotations

import heapq
import random
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from assignor_bridge.assignors.check import assign_checked
from assignor_bridge.assignors.custom import find
from assignor_bridge.assignors.group import Group, Member
from assignor_bridge.assignors.own import CustomAssignor
from assignor_bridge.assignors.protocol import Strategy
from assignor_bridge.assignors.testing import rebalance
from assignor_bridge.errors import elide
from assignor_bridge.testing.hash_seeds import SEEDS, collect_answers, generate_answers
from assignor_bridge.testing.random_groups import disturb, groups, random_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from assignor_bridge.assignors.group import Assignment
    from assignor_bridge.assignors.protocol import Assignor

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_ROUNDING_ERROR = 1e-9  # relative error of lag sums
_PARTITIONS = 200  # speed test: number of partitions in the smaller group
_MEMBERS = 16  # speed test: number of members in both groups
_SIZE_FACTOR = 4  # speed test: partitions in the larger group, relative to the smaller one
#: An assignor that refuses each of this number of random groups is assumed to refuse all groups.
_TRIED_GROUP_COUNT = 30
_REBALANCES = 4  # number of rebalances of a group, with a change between two


class AssignorConformance:
    """Test cases. A subclass sets the assignor and its promises; other promises are not tested."""

    #: A class, an object with `assign(group)`, a function, or a name as in the option `assignor`.
    assignor: ClassVar[Any] = None
    #: The options that `configure` receives.
    options: ClassVar[Mapping[str, str]] = {}
    #: Whether all members must subscribe to the same topics.
    same_subscriptions: ClassVar[bool] = False
    #: Promised balance. "counts": partition counts differ by at most one if all members subscribe
    #: to the same topics; "topics": each topic's counts differ by at most one; "lags": no member's
    #: lag exceeds the maximum of the longest-first answer by more than the fraction `imbalance`.
    balance: ClassVar[Literal["counts", "topics", "lags"] | None] = None
    imbalance: ClassVar[float] = 0.05
    #: Whether an unchanged group keeps its assignment and standbys.
    sticky: ClassVar[bool] = False
    #: Whether a join moves partitions only to the newcomer, and a leave only the leaver's, if all
    #: members subscribe to the same topics and partitions have no racks.
    least_moves: ClassVar[bool] = False
    #: Whether no partition is read across racks if a balanced answer without such reads exists.
    racks: ClassVar[bool] = False
    #: Maximum number of rounds in a cooperative assignor's rebalance; eager assignors have one.
    rounds: ClassVar[int] = 2
    #: Maximum growth of the executed Python lines per partition if the partitions quadruple: 1 for
    #: linear time, 4 for quadratic time, None for no promise. C code (NumPy) is not counted.
    growth: ClassVar[float | None] = 2.0
    #: Settings of hypothesis; increase `max_examples` for a longer search.
    trials: ClassVar[settings] = settings(
        max_examples=40,
        deadline=None,
        derandomize=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )

    def test_valid_and_complete(self) -> None:
        """Each subscribed partition goes to exactly one member, which subscribes to it."""
        assignor = self._make_assignor()

        def check(group: Group, _: random.Random) -> None:
            owner = _list_owners(_settle(assignor, group))
            topics = {m.id: m.topics for m in group.members}
            all_partitions = {(t, p) for t in group.subscribers for p in range(group.topics[t])}
            _require(set(owner) == all_partitions, "some subscribed partitions have no member")
            foreign_pairs = [tp for tp, member in owner.items() if tp[0] not in topics[member]]
            _require_none(foreign_pairs, "given to members that do not subscribe to the topic")

        self._check_any_group(assignor, check)

    def test_balance(self) -> None:
        """The answer has the promised balance."""
        if self.balance is None:
            pytest.skip("`balance` is not promised")
        assignor, kind = self._make_assignor(), self.balance

        def check(group: Group, _: random.Random) -> None:
            answer = _settle(assignor, group)
            if kind == "lags":
                _check_lags(group, answer, self.imbalance)
                return
            count_lists = [[part.count for part in answer.values()]]
            if kind == "topics":
                count_lists = [
                    [len(answer[group.ids[i]].get(topic, ())) for i in subscribers]
                    for topic, subscribers in group.subscribers.items()
                ]
            for counts in count_lists:
                is_balanced = max(counts) - min(counts) <= 1
                _require(is_balanced, f"balance {kind!r}: counts {counts} differ by over 1")

        self._check_any_group(assignor, check, same=kind != "topics")

    def test_nothing_moves_when_nothing_changed(self) -> None:
        """An unchanged group gets its previous assignment and standbys again."""
        if not self.sticky:
            pytest.skip("`sticky` is not promised")
        assignor = self._make_assignor()

        def check(group: Group, _: random.Random) -> None:
            last_round = rebalance(assignor, group)[-1]
            old_answer = last_round.assignment
            new_answer = rebalance(assignor, last_round.after)[0].assignment
            problem = f"moved: {old_answer!r} became {new_answer!r}"
            _require(np.array_equal(new_answer.owner, old_answer.owner), problem)
            _require(dict(new_answer.standbys) == dict(old_answer.standbys), "standbys moved")

        self._check_any_group(assignor, check)

    def test_a_leave_moves_only_what_the_leaver_had(self) -> None:
        """The remaining members keep their partitions."""
        assignor = self._make_assignor_with_least_moves()

        def check(group: Group, _: random.Random) -> None:
            assume(len(group.members) > 1)
            last_round = rebalance(assignor, replace(group, partition_racks={}))[-1]
            old_owners = _list_owners(last_round.assignment)
            for leaver in group.ids:
                others = tuple(m for m in last_round.after.members if m.id != leaver)
                remaining_group = replace(last_round.after, members=others)
                new_owners = _list_owners(_settle(assignor, remaining_group))
                moves = [tp for tp, m in old_owners.items() if m != leaver and new_owners[tp] != m]
                _require_none(moves, f"{leaver} left, and partitions of other members moved")

        self._check_any_group(assignor, check, same=True, claimed=False, members=8)

    def test_a_join_moves_partitions_only_to_the_newcomer(self) -> None:
        """Nothing moves between the previous members."""
        assignor = self._make_assignor_with_least_moves()

        def check(group: Group, _: random.Random) -> None:
            last_round = rebalance(assignor, replace(group, partition_racks={}))[-1]
            old_owners = _list_owners(last_round.assignment)
            newcomer = Member("new", group.members[0].topics)
            new_group = replace(last_round.after, members=(*last_round.after.members, newcomer))
            new_owners = _list_owners(_settle(assignor, new_group))
            moves = [tp for tp, m in old_owners.items() if new_owners[tp] not in (m, "new")]
            _require_none(moves, "a member joined, and partitions moved to other members")

        self._check_any_group(assignor, check, same=True, claimed=False, members=8)

    def test_the_order_of_the_input_does_not_matter(self) -> None:
        """The answer is the same if the group's parts are reordered, or the call is repeated."""
        assignor = self._make_assignor()

        def check(group: Group, rng: random.Random) -> None:
            answers = [assign_checked(assignor, g) for g in (group, _shuffle(group, rng), group)]
            for other in answers[1:]:
                has_same_owners = answers[0].as_dict() == other.as_dict()
                _require(has_same_owners, f"answered {answers[0]!r}, then {other!r}")
                has_same_standbys = dict(answers[0].standbys) == dict(other.standbys)
                _require(has_same_standbys, "made other standbys for an equal group")
                withholds_same = dict(answers[0].transferring) == dict(other.transferring)
                _require(withholds_same, "withheld other partitions for an equal group")

        self._check_any_group(assignor, check)

    def test_the_hash_seed_does_not_matter(self) -> None:
        """Processes with different hash seeds, thus other set orders, give the same answer."""
        case = type(self)
        path = getattr(sys.modules.get(case.__module__), "__file__", None)
        if path is None or "." in case.__qualname__:
            pytest.skip("a new process can import only top-level classes of a module")
        answers_by_class = collect_answers(case.__module__, path)
        one, other = (answers[case.__qualname__] for answers in answers_by_class)
        for first, second in zip(one, other, strict=False):
            if first != second:
                raise AssertionError(
                    f"the answer depends on PYTHONHASHSEED, perhaps on the order of a set:\n"
                    f"{SEEDS[0]}: {first}\n{SEEDS[1]}: {second}"
                )

    def test_racks(self) -> None:
        """Each member gets only partitions with a replica in its rack, if that is possible."""
        if not self.racks:
            pytest.skip("`racks` is not promised")
        assignor = self._make_assignor()
        counts = {"rack_count": st.integers(2, 4), "members_per_rack": st.integers(1, 3)}

        @self.trials
        @given(**counts, quota=st.integers(1, 4), rng=st.randoms(use_true_random=False))
        def run_trial(
            rack_count: int, members_per_rack: int, quota: int, rng: random.Random
        ) -> None:
            names = [f"r{n}" for n in range(rack_count)]
            partition_racks = names * (members_per_rack * quota)
            rng.shuffle(partition_racks)
            own_racks = names * members_per_rack
            rng.shuffle(own_racks)
            group = Group(
                tuple(Member(f"m{n}", frozenset({"t"}), rack=r) for n, r in enumerate(own_racks)),
                {"t": len(partition_racks)},
                partition_racks={"t": {p: frozenset({r}) for p, r in enumerate(partition_racks)}},
            )
            rack_by_member = {m.id: m.rack for m in group.members}
            owners = _list_owners(_settle(assignor, group))
            far = [tp for tp, m in owners.items() if rack_by_member[m] != partition_racks[tp[1]]]
            _require_none(far, "read across racks unnecessarily")

        run_trial()

    def test_rounds(self) -> None:
        """Rebalances end in the promised rounds; cooperative ones take no owner's partitions."""
        assignor = self._make_assignor()
        max_rounds = self.rounds if "COOPERATIVE" in assignor.protocols else 1

        def check(group: Group, rng: random.Random) -> None:
            for _ in range(_REBALANCES):
                rounds = rebalance(assignor, group)
                problem = f"a rebalance took {len(rounds)} rounds, above the promised {max_rounds}"
                _require(len(rounds) <= max_rounds, problem)
                group = disturb(rng, rounds[-1].after, same=self.same_subscriptions)

        self._check_any_group(assignor, check)

    def test_speed(self) -> None:
        """The executed Python lines per partition grow at most by the promised factor."""
        if self.growth is None:
            pytest.skip("`growth` is not promised")
        assignor = self._make_assignor()
        sizes = _PARTITIONS, _SIZE_FACTOR * _PARTITIONS
        small_group_lines, large_group_lines = (_count_lines(assignor, size) for size in sizes)
        growth = large_group_lines / small_group_lines / _SIZE_FACTOR
        if growth > self.growth:
            raise AssertionError(
                f"{sizes[0]} partitions take {small_group_lines:,} lines of Python, and {sizes[1]} "
                f"partitions take {large_group_lines:,} lines: {growth:.2f} times as many for each "
                f"partition, but at most {self.growth:g} is promised"
            )

    def answers(self) -> Iterator[str]:
        """Return the assignor's answers for seeded random groups, as text."""
        return generate_answers(self._make_assignor(), same_topics=self.same_subscriptions)

    def _make_assignor(self) -> Assignor:
        setting = type(self).assignor  # on `self`, a function would become a method
        if setting is None:
            raise AssertionError(f"{type(self).__name__}.assignor is missing: name your assignor")
        if isinstance(setting, str):
            assignor = find(setting)
        elif isinstance(setting, (CustomAssignor, Strategy)):
            assignor = setting
        else:
            assignor = CustomAssignor(getattr(setting, "__name__", type(setting).__name__), setting)
        if isinstance(assignor, CustomAssignor):
            return assignor.with_options(self.options)
        return assignor

    def _make_assignor_with_least_moves(self) -> Assignor:
        if not self.least_moves:
            pytest.skip("`least_moves` is not promised")
        return self._make_assignor()

    def _check_any_group(
        self,
        assignor: Assignor,
        check: Callable[[Group, random.Random], None],
        *,
        same: bool = False,
        **shape: Any,
    ) -> None:
        """Run the check on random groups that the assignor does not refuse."""
        same_topics = same or self.same_subscriptions
        reasons = [
            assignor.refusal(random_group(random.Random(n), same=same_topics))
            for n in range(_TRIED_GROUP_COUNT)
        ]
        if None not in reasons:
            raise AssertionError(
                f"assignor {assignor.name!r} refuses all groups ({reasons[0]}): accept some, or "
                "set `same_subscriptions = True` if all members must subscribe to the same topics"
            )

        @self.trials
        @given(group=groups(same=same_topics, **shape), seed=st.integers(0, 9))
        def run_trial(group: Group, seed: int) -> None:
            assume(assignor.refusal(group) is None)
            check(group, random.Random(seed))

        run_trial()


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise AssertionError(problem)


def _settle(assignor: Assignor, group: Group) -> Assignment:
    """Return the assignment of a rebalance's last round."""
    return rebalance(assignor, group)[-1].assignment


def _require_none(partitions: Sequence[tuple[str, int]], problem: str) -> None:
    names = [f"{topic}-{number}" for topic, number in partitions]
    _require(not names, f"{problem}: {elide(names, 5)}")


def _list_owners(answer: Assignment) -> dict[tuple[str, int], str]:
    """Return the owner by topic and number, read from the answer as members read it."""
    pairs = [
        ((topic, number), member)
        for member, part in answer.items()
        for topic, numbers in part.items()
        for number in numbers
    ]
    owners = dict(pairs)
    if len(owners) < len(pairs):
        raise AssertionError(f"a partition has two members: {answer!r}")
    return owners


def _check_lags(group: Group, answer: Assignment, imbalance: float) -> None:
    lags = group.lag_list()
    sizes = [lag for lag, flag in zip(lags, group.subscribed.tolist(), strict=True) if flag]
    limit = _find_longest_first_load(sizes, len(group.ids)) * (1 + imbalance + _ROUNDING_ERROR)
    load_by_member = {m: sum(lags[i] for i in part.ids.tolist()) for m, part in answer.items()}
    _require(max(load_by_member.values()) <= limit, f"lags {load_by_member} exceed {limit:g}")


def _find_longest_first_load(sizes: Sequence[float], member_count: int) -> float:
    """Return the maximum load of Graham's LPT schedule for these sizes."""
    loads = [0.0] * member_count
    for size in sorted(sizes, reverse=True):  # largest first, each to the least loaded member
        heapq.heapreplace(loads, loads[0] + size)
    return max(loads)


def _shuffle(group: Group, rng: random.Random) -> Group:
    """Return an equal group with its members, topics, claims, lags, and racks reordered."""

    def shuffle_items(mapping: Mapping[_Key, _Value]) -> dict[_Key, _Value]:
        items = list(mapping.items())
        rng.shuffle(items)
        return dict(items)

    members = [
        replace(
            m,
            topics=frozenset(sorted(m.topics, reverse=True)),
            owned={t: rng.sample(list(ps), len(ps)) for t, ps in shuffle_items(m.owned).items()},
        )
        for m in group.members
    ]
    rng.shuffle(members)
    return replace(
        group,
        members=tuple(members),
        topics=shuffle_items(dict(group.topics)),
        lags={t: shuffle_items(lags) for t, lags in shuffle_items(group.lags).items()},
        partition_racks={
            t: shuffle_items(racks) for t, racks in shuffle_items(group.partition_racks).items()
        },
    )


def _count_lines(assignor: Assignor, partition_count: int) -> int:
    """Count the Python lines that two calls execute: for a new group, and for its next state."""
    topics = {"a": partition_count // 2, "b": partition_count // 2}
    members = tuple(Member(f"m{n:02}", frozenset(topics)) for n in range(_MEMBERS))
    lags = {t: {p: 1 + (7 * p) % 101 for p in range(n)} for t, n in topics.items()}
    new_group = Group(members, topics, lags)
    owning_group = rebalance(assignor, new_group)[-1].after  # fills imports and caches, not counted
    line_count = 0

    def trace(_frame: Any, event: str, _argument: Any) -> Any:
        nonlocal line_count
        line_count += event == "line"
        return trace

    previous_trace = sys.gettrace()
    sys.settrace(trace)
    try:
        for group in (replace(new_group), owning_group):
            assignor.assign(group)
    finally:
        sys.settrace(previous_trace)
    return line_count

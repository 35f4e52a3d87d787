"""What every assignor promises, as pytest cases that a class of the user's inherits.

Groups come from hypothesis, which looks for the smallest one that fails. The same ones are tried in
each run, and no case looks at a clock: a case that passes will pass again.
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
from assignor_bridge.assignors.group import Group, Member
from assignor_bridge.assignors.loading import find
from assignor_bridge.assignors.own import CustomAssignor
from assignor_bridge.assignors.protocol import Strategy
from assignor_bridge.assignors.testing import rebalance
from assignor_bridge.testing.answers import SEEDS, answers, answers_by_seed
from assignor_bridge.testing.groups import disturb, groups, random_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from assignor_bridge.assignors.group import Assignment
    from assignor_bridge.assignors.protocol import Assignor

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

#: What sums of lags may be off by, as a share.
_ROUNDING = 1e-9
#: Partitions of the smaller of the two groups that are asked about for the speed, and members.
_PARTITIONS, _MEMBERS, _TIMES = 200, 16, 4
#: So many groups are enough to tell that all are refused.
_TRIED = 30
#: Things that happen to a group, in a row.
_EVENTS = 4


class AssignorConformance:
    """The cases; a class that inherits them names the assignor, and says what it promises.

    A promise that is not made is not tested: its case is skipped.
    """

    #: A class, an object with `assign(group)`, a function, or a name as in the option `assignor`.
    assignor: ClassVar[Any] = None
    #: Its options, as `configure` gets them.
    options: ClassVar[Mapping[str, str]] = {}
    #: Whether it is meant for groups whose members all subscribe to the same topics.
    same_subscriptions: ClassVar[bool] = False
    #: What is shared evenly by members that subscribe alike: `counts` of partitions, which differ
    #: by at most one; so do those of each of the `topics`, whoever subscribes to what else; or
    #: `lags`, of which no member has more than `imbalance` over what longest-first reaches.
    balance: ClassVar[Literal["counts", "topics", "lags"] | None] = None
    imbalance: ClassVar[float] = 0.05
    #: Whether nothing moves when nothing changed.
    sticky: ClassVar[bool] = False
    #: Whether a join moves only what the newcomer gets, and a leave only what the leaver had, where
    #: members subscribe alike.
    least_moves: ClassVar[bool] = False
    #: Whether no partition is read across racks where an even answer exists in which none is.
    racks: ClassVar[bool] = False
    #: Rounds of a rebalance at most, for a cooperative assignor; for others it is one.
    rounds: ClassVar[int] = 2
    #: Lines of Python that it runs for a partition when there are four times as many, over those
    #: for the fewer: 1 is linear, 4 quadratic. None promises nothing. What C code does, NumPy's as
    #: well, is not counted.
    growth: ClassVar[float | None] = 2.0
    #: How hypothesis looks for groups that fail: change `max_examples` to look longer.
    trials: ClassVar[settings] = settings(
        max_examples=40,
        deadline=None,
        derandomize=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )

    def test_valid_and_complete(self) -> None:
        """Each subscribed partition goes to exactly one member, which subscribes to it."""
        assignor = self._made()

        def check(group: Group, _: random.Random) -> None:
            owner = _owners(_settled(assignor, group))
            topics = {m.id: m.topics for m in group.members}
            every = {(t, p) for t in group.subscribers for p in range(group.topics[t])}
            _hold(set(owner) == every, "not every subscribed partition has a member")
            foreign = [tp for tp, member in owner.items() if tp[0] not in topics[member]]
            _hold(not foreign, f"{foreign} went to members that do not subscribe to them")

        self._for_any(assignor, check)

    def test_balance(self) -> None:
        """Members have as much as each other, as far as it is promised."""
        if self.balance is None:
            pytest.skip("`balance` is not promised")
        assignor, kind = self._made(), self.balance

        def check(group: Group, _: random.Random) -> None:
            answer = _settled(assignor, group)
            if kind == "lags":
                _check_lags(group, answer, self.imbalance)
                return
            shares = [[part.count for part in answer.values()]]
            if kind == "topics":
                shares = [
                    [len(answer[group.ids[i]].get(topic, ())) for i in subscribers]
                    for topic, subscribers in group.subscribers.items()
                ]
            for counts in shares:
                even = max(counts) - min(counts) <= 1
                _hold(even, f"counts of {kind} differ by more than one: {counts}")

        self._for_any(assignor, check, same=kind != "topics")

    def test_nothing_moves_when_nothing_changed(self) -> None:
        """The same group that owns its answer already gets it again."""
        if not self.sticky:
            pytest.skip("`sticky` is not promised")
        assignor = self._made()

        def check(group: Group, _: random.Random) -> None:
            first = rebalance(assignor, group)[-1]
            again = rebalance(assignor, first.after)
            same = np.array_equal(again[0].assignment.owner, first.assignment.owner)
            _hold(same, f"moved: {first.assignment!r} became {again[0].assignment!r}")
            same = dict(again[0].assignment.standbys) == dict(first.assignment.standbys)
            _hold(same, "standbys moved")

        self._for_any(assignor, check)

    def test_a_leave_moves_only_what_the_leaver_had(self) -> None:
        """Whoever stays keeps what it has."""
        assignor = self._with_least_moves()

        def check(group: Group, _: random.Random) -> None:
            assume(len(group.members) > 1)
            first = rebalance(assignor, replace(group, partition_racks={}))[-1]
            before = _owners(first.assignment)
            for leaver in group.ids:
                stay = tuple(m for m in first.after.members if m.id != leaver)
                after = _owners(_settled(assignor, replace(first.after, members=stay)))
                moved = [tp for tp, m in before.items() if m != leaver and after[tp] != m]
                _hold(not moved, f"{leaver} left, and {moved} of others moved")

        self._for_any(assignor, check, same=True, claimed=False, members=8)

    def test_a_join_moves_only_to_the_newcomer(self) -> None:
        """Nothing moves between those that were there."""
        assignor = self._with_least_moves()

        def check(group: Group, _: random.Random) -> None:
            first = rebalance(assignor, replace(group, partition_racks={}))[-1]
            before = _owners(first.assignment)
            newcomer = Member("new", group.members[0].topics)
            joined = replace(first.after, members=(*first.after.members, newcomer))
            after = _owners(_settled(assignor, joined))
            moved = [tp for tp, m in before.items() if after[tp] not in (m, "new")]
            _hold(not moved, f"a member joined, and {moved} moved to others")

        self._for_any(assignor, check, same=True, claimed=False, members=8)

    def test_the_order_of_the_input_does_not_matter(self) -> None:
        """A group is answered alike in any order of its parts, and when asked about again."""
        assignor = self._made()

        def check(group: Group, rng: random.Random) -> None:
            told = [assign_checked(assignor, g) for g in (group, _shuffled(group, rng), group)]
            for other in told[1:]:
                same = told[0].as_dict() == other.as_dict()
                _hold(same, f"answered {told[0]!r}, then {other!r}")
                same = dict(told[0].standbys) == dict(other.standbys)
                _hold(same, "answered other standbys")
                same = dict(told[0].transferring) == dict(other.transferring)
                _hold(same, "withheld other partitions")

        self._for_any(assignor, check)

    def test_the_hash_seed_does_not_matter(self) -> None:
        """Processes with other hash seeds, and so other orders of sets, answer alike."""
        case = type(self)
        file = getattr(sys.modules.get(case.__module__), "__file__", None)
        if file is None or "." in case.__qualname__:
            pytest.skip("a new process finds classes at the top of a module only")
        one, other = (found[case.__qualname__] for found in answers_by_seed(case.__module__, file))
        for first, second in zip(one, other, strict=False):
            if first != second:
                raise AssertionError(
                    f"the answer depends on PYTHONHASHSEED, on the order of a set perhaps:\n"
                    f"{SEEDS[0]}: {first}\n{SEEDS[1]}: {second}"
                )

    def test_racks(self) -> None:
        """Where each member can have a share from its own rack, it has."""
        if not self.racks:
            pytest.skip("`racks` is not promised")
        assignor = self._made()

        @self.trials
        @given(
            racks=st.integers(2, 4), members=st.integers(1, 3), share=st.integers(1, 4),
            rng=st.randoms(use_true_random=False),
        )  # fmt: skip
        def trial(racks: int, members: int, share: int, rng: random.Random) -> None:
            names = [f"r{n}" for n in range(racks)]
            held = names * (members * share)
            rng.shuffle(held)
            owners = names * members
            rng.shuffle(owners)
            group = Group(
                tuple(Member(f"m{n}", frozenset({"t"}), rack=r) for n, r in enumerate(owners)),
                {"t": len(held)},
                partition_racks={"t": {p: frozenset({r}) for p, r in enumerate(held)}},
            )
            rack = {m.id: m.rack for m in group.members}
            owned = _owners(_settled(assignor, group))
            far = [tp for tp, member in owned.items() if rack[member] != held[tp[1]]]
            _hold(not far, f"{far} are read across racks, and need not be")

        trial()

    def test_rounds(self) -> None:
        """A rebalance comes to rest in its rounds, whatever happened to the group.

        In those of a cooperative assignor nothing is given away while its owner holds it.
        """
        assignor = self._made()
        most = self.rounds if "COOPERATIVE" in assignor.protocols else 1

        def check(group: Group, rng: random.Random) -> None:
            for _ in range(_EVENTS):
                rounds = rebalance(assignor, group)
                _hold(len(rounds) <= most, f"{len(rounds)} rounds, {most} are promised")
                same = self.same_subscriptions
                group = disturb(rng, rounds[-1].after, same=same)

        self._for_any(assignor, check)

    def test_speed(self) -> None:
        """The work for a partition does not grow with their number: lines are counted, not time."""
        if self.growth is None:
            pytest.skip("`growth` is not promised")
        assignor = self._made()
        few, many = (_lines(assignor, n) for n in (_PARTITIONS, _TIMES * _PARTITIONS))
        ratio = many / few / _TIMES
        if ratio > self.growth:
            raise AssertionError(
                f"{_PARTITIONS} partitions take {few:,} lines of Python, {_TIMES} times as many "
                f"{many:,}: {ratio:.1f} times as many for each partition, {self.growth:g} are "
                "promised"
            )

    def answers(self) -> Iterator[str]:
        """Return what the assignor answers about groups from a seed, as text."""
        return answers(self._made(), same=self.same_subscriptions)

    def _made(self) -> Assignor:
        given = type(self).assignor  # not of the object: a function would become a method
        if given is None:
            raise AssertionError(f"{type(self).__name__}.assignor is missing: name your assignor")
        if isinstance(given, str):
            made = find(given)
        elif isinstance(given, (CustomAssignor, Strategy)):
            made = given
        else:
            made = CustomAssignor(getattr(given, "__name__", type(given).__name__), given)
        return made.with_options(self.options) if isinstance(made, CustomAssignor) else made

    def _with_least_moves(self) -> Assignor:
        if not self.least_moves:
            pytest.skip("`least_moves` is not promised")
        return self._made()

    def _for_any(
        self,
        assignor: Assignor,
        check: Callable[[Group, random.Random], None],
        *,
        same: bool = False,
        **shape: Any,
    ) -> None:
        """Check groups that the assignor does not refuse."""
        alike = same or self.same_subscriptions
        reasons = [
            assignor.refusal(random_group(random.Random(n), same=alike)) for n in range(_TRIED)
        ]
        if None not in reasons:
            raise AssertionError(
                f"assignor {assignor.name!r} refuses all groups ({reasons[0]}): does it need "
                "`same_subscriptions = True`?"
            )

        @self.trials
        @given(group=groups(same=alike, **shape), seed=st.integers(0, 9))
        def trial(group: Group, seed: int) -> None:
            assume(assignor.refusal(group) is None)
            check(group, random.Random(seed))

        trial()


def _hold(condition: bool, problem: str) -> None:
    if not condition:
        raise AssertionError(problem)


def _settled(assignor: Assignor, group: Group) -> Assignment:
    return rebalance(assignor, group)[-1].assignment


def _owners(answer: Assignment) -> dict[tuple[str, int], str]:
    """Return who has each partition, by the mapping that members read."""
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
    sizes = [lag for lag, used in zip(lags, group.subscribed.tolist(), strict=True) if used]
    limit = _longest_first(sizes, len(group.ids)) * (1 + imbalance + _ROUNDING)
    load = {m: sum(lags[i] for i in part.ids.tolist()) for m, part in answer.items()}
    _hold(max(load.values()) <= limit, f"lags are {load}, at most {limit:g} is promised")


def _longest_first(sizes: Sequence[float], members: int) -> float:
    """Return the largest load when each, the largest first, goes to whoever has least (Graham)."""
    loads = [0.0] * members
    for size in sorted(sizes, reverse=True):
        heapq.heapreplace(loads, loads[0] + size)
    return max(loads)


def _shuffled(group: Group, rng: random.Random) -> Group:
    """Return an equal group whose parts were written down in another order."""

    def mixed(mapping: Mapping[_Key, _Value]) -> dict[_Key, _Value]:
        items = list(mapping.items())
        rng.shuffle(items)
        return dict(items)

    members = [
        replace(
            m,
            topics=frozenset(sorted(m.topics, reverse=True)),
            owned={t: rng.sample(list(ps), len(ps)) for t, ps in mixed(m.owned).items()},
        )
        for m in group.members
    ]
    rng.shuffle(members)
    return replace(
        group,
        members=tuple(members),
        topics=mixed(dict(group.topics)),
        lags={t: mixed(of) for t, of in mixed(group.lags).items()},
        partition_racks={t: mixed(of) for t, of in mixed(group.partition_racks).items()},
    )


def _lines(assignor: Assignor, partitions: int) -> int:
    """Count the lines of Python of two answers: to a new group, and to one that owns the first."""
    topics = {"a": partitions // 2, "b": partitions // 2}
    members = tuple(Member(f"m{n:02}", frozenset(topics)) for n in range(_MEMBERS))
    lags = {t: {p: 1 + (7 * p) % 101 for p in range(n)} for t, n in topics.items()}
    fresh = Group(members, topics, lags)
    owning = rebalance(assignor, fresh)[-1].after  # not counted: what is imported and cached here
    count = 0

    def trace(_frame: Any, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for group in (replace(fresh), owning):
            assignor.assign(group)
    finally:
        sys.settrace(before)
    return count

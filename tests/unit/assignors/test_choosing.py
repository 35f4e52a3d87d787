"""The choice of an assignor: by preference, by votes, and custom ones."""

from __future__ import annotations

import sys
from importlib import metadata
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from assignor_bridge.assignors import (
    ASSIGNORS,
    Assignment,
    Group,
    Member,
    Strategy,
    check_assignment,
    choose,
)
from assignor_bridge.assignors.check import assign_checked
from assignor_bridge.assignors.custom import find
from assignor_bridge.assignors.testing import InconsistentStrategyError, elect
from assignor_bridge.errors import OptionError, PlanError
from tests.support.consumer_group import InMemoryGroup, make_members, settle

T = frozenset({"t"})
SAME = Group((Member("A", T), Member("B", T)), {"t": 12})
MIXED = Group((Member("A", T), Member("B", T | {"u"})), {"t": 2, "u": 1})
UNEVEN = Group(tuple(make_members("AB", "tu")), {"t": 2, "u": 1})


@pytest.mark.parametrize(
    ("names", "group", "chosen"),
    [
        pytest.param("sticky", SAME, "sticky", id="one name"),
        pytest.param(" constrained-cooperative-sticky , sticky", SAME, None, id="the first fits"),
        pytest.param("constrained-cooperative-sticky,sticky", MIXED, "sticky", id="the next fits"),
        pytest.param("streams,sticky", UNEVEN, "sticky", id="a reservation passes over"),
        pytest.param("streams", UNEVEN, "streams", id="but not if nobody else is there"),
        pytest.param("constrained-cooperative-sticky,streams", UNEVEN, None, id="first of same"),
    ],
)
def test_choice_by_preference(names: str, group: Group, chosen: str | None) -> None:
    choice = choose(names, group)
    assert choice.assignor.name == (chosen or "constrained-cooperative-sticky")


def test_the_choice_has_the_reasons() -> None:
    choice = choose("constrained-cooperative-sticky,sticky", MIXED)
    assert choice.refusals == (
        "'constrained-cooperative-sticky' was passed over: all members must subscribe to the "
        "same topics, but 'B' subscribes to 'u' and 'A' does not",
    )
    assert choose("streams", UNEVEN).refusals == ()


@pytest.mark.parametrize(
    ("names", "text"),
    [
        pytest.param("stiky", "unknown assignor 'stiky'; did you mean 'sticky'", id="a typo"),
        pytest.param("sticky,stiky", "unknown assignor 'stiky'", id="a typo behind"),
        pytest.param(" , ", "names no assignor", id="nothing"),
        pytest.param(
            "streams", "no assignor in the list accepts the group: 'streams' was passed", id="none"
        ),
    ],
)
def test_an_invalid_preference_is_refused(names: str, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        choose(names, MIXED)


@pytest.mark.parametrize(
    ("lists", "winner"),
    [
        pytest.param([["range"], ["range"]], "range", id="the only one"),
        pytest.param([["new", "old"], ["old"]], "old", id="rolling upgrade, half way"),
        pytest.param([["new", "old"], ["new", "old"]], "new", id="rolling upgrade, done"),
        pytest.param([["a", "b"], ["b", "a"], ["b", "a"]], "b", id="most votes"),
        pytest.param([["b", "a"], ["a", "b"]], "b", id="a tie goes to the first member's"),
        pytest.param([["x", "a", "b"], ["b", "a"], ["a", "b"]], "a", id="x is not common"),
    ],
)
def test_elect_counts_votes(lists: list[list[str]], winner: str) -> None:
    assert elect({f"m{i}": names for i, names in enumerate(lists)}) == winner


def test_without_a_common_strategy_the_error_has_each_list() -> None:
    with pytest.raises(
        InconsistentStrategyError,
        match=r"'A' supports range; 'B' supports sticky, uniform\. Add a common strategy",
    ):
        elect({"B": ["sticky", "uniform"], "A": ["range"]})


def test_a_rolling_upgrade_from_eager_to_cooperative() -> None:
    group = InMemoryGroup({"t": 6}, ["sticky"])
    for member in make_members("ABC", "t"):
        group.join(member)
    before = group.rebalance()[-1].assignment.as_dict()
    for member in "ABC":
        group.upgrade(member, ["cooperative-sticky", "sticky"])
        rounds = group.rebalance()
        assert rounds[-1].assignment.as_dict() == before
    assert group.strategy == "cooperative-sticky"
    group.join(Member("D", T), ["range"])
    with pytest.raises(InconsistentStrategyError):
        group.rebalance()


def test_a_cooperative_join_takes_two_rounds() -> None:
    group = InMemoryGroup({"t": 4}, ["cooperative-sticky"])
    group.join(Member("A", T))
    group.rebalance()
    group.join(Member("B", T))
    first, second = group.rebalance()
    assert first.assignment.transferring == {"t": (2, 3)}
    assert second.assignment.as_dict() == {"A": {"t": [0, 1]}, "B": {"t": [2, 3]}}
    assert group.generation == 3
    assert "B joins" in group.history


@pytest.mark.parametrize("what", ["join", "leave", "crash", "come_back", "upgrade"])
def test_invalid_groups_are_refused(what: str) -> None:
    group = InMemoryGroup({"t": 1})
    group.join(Member("A", T))
    call = {
        "join": lambda: group.join(Member("A", T)),
        "leave": lambda: group.leave("X"),
        "crash": lambda: group.crash("X"),
        "come_back": lambda: group.come_back("X"),
        "upgrade": lambda: group.upgrade("X", ["range"]),
    }[what]
    with pytest.raises(OptionError, match=r"member '[AX]'"):
        call()


@pytest.mark.parametrize("capacity", [0, -1, float("inf"), float("nan")])
def test_an_invalid_capacity_is_refused(capacity: float) -> None:
    """0 was a ZeroDivisionError, and with -1 the member got everything."""
    with pytest.raises(OptionError, match=r"member 'A' has the capacity .* above 0 is expected"):
        Member("A", T, capacity=capacity)


@pytest.mark.parametrize("lag", [float("inf"), float("nan")])
def test_a_lag_that_is_not_finite_is_refused(lag: float) -> None:
    group = Group((Member("A", T), Member("B", T)), {"t": 2}, lags={"t": {1: lag}})
    with pytest.raises(OptionError, match=f"the lag of t-1 is {lag}: it must be finite"):
        choose("lag-aware-sticky", group).assignor.assign(group)


class Backwards:
    """Assigns everything to the last member."""

    def assign(self, group: Group) -> dict[str, dict[str, list[int]]]:
        return {group.ids[-1]: {t: list(range(n)) for t, n in group.topics.items()}}


def a_function(group: Group) -> Assignment:
    return ASSIGNORS["range"].assign(group)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("their_assignors")
    module.Backwards, module.a_function, module.number = Backwards, a_function, 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "their_assignors", module)
    return module


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        pytest.param("their_assignors:Backwards", [0, 12], id="a class"),
        pytest.param("their_assignors:a_function", [6, 6], id="a function"),
    ],
)
def test_a_custom_assignor_is_loaded(name: str, counts: list[int]) -> None:
    assignor = choose(f"{name},sticky", SAME, find).assignor
    assert assignor.name == name
    assert [part.count for part in assign_checked(assignor, SAME).values()] == counts


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("their_assignors:Missing", "could not be loaded: AttributeError", id="class"),
        pytest.param("not_there:X", "could not be loaded: ModuleNotFoundError", id="module"),
        pytest.param("their_assignors:number", r"is a int without `assign\(group\)`", id="number"),
        pytest.param("not-there", "unknown assignor 'not-there'", id="no such entry point"),
        pytest.param(
            "assignor_bridge.assignors:Group", "could not be created: TypeError", id="args"
        ),
    ],
)
def test_loading_errors_have_a_reason(name: str, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        find(name)


@pytest.mark.usefixtures("module")
def test_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def points(group: str, name: str) -> list[metadata.EntryPoint]:
        assert group == "assignor_bridge.assignors"
        known = {"backwards": "their_assignors:Backwards", "broken": "their_assignors:Nothing"}
        return [metadata.EntryPoint(name, known[name], group)] if name in known else []

    monkeypatch.setattr(metadata, "entry_points", points)
    assert find("backwards").assign(SAME) == Backwards().assign(SAME)
    with pytest.raises(OptionError, match=r"'broken' \(entry point their_assignors:Nothing\)"):
        find("broken")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(
            {"A": {"t": list(range(10))}},
            "assignor 'mine' left 2 of 12 partitions without a member: t-10, t-11. An assignment",
            id="left out",
        ),
        pytest.param({"A": {"t": [0]}, "B": {"t": [0]}}, "twice, to 'A' and 'B': t-0", id="twice"),
        pytest.param({"C": {}}, "the member 'C', which is not in the group: A, B", id="stranger"),
        pytest.param(
            {"A": {"t": [12]}}, r"does not exist: t-12 \(existing partitions: 12\)", id="too high"
        ),
        pytest.param(
            {"A": {"u": [0]}}, r"does not exist: u-0 \(existing partitions: 0\)", id="no topic"
        ),
        pytest.param({"A": {"t": ["0"]}}, "a partition that does not exist: t-0", id="a string"),
        pytest.param({"A": [0]}, "gave 'A' a list, not a mapping of topics", id="no topics"),
        pytest.param(None, "returned a NoneType, not a mapping of members", id="nothing"),
        pytest.param({"A": {"t": 3}}, "gave 'A' a int for 't', not a list", id="a number"),
        pytest.param({"A": {"t": None}}, "gave 'A' a NoneType for 't', not a list", id="none"),
        pytest.param({"A": {"t": "01"}}, "gave 'A' a str for 't', not a list", id="digits"),
        pytest.param({"A": {"t": [True]}}, r"t-True \(a bool\)", id="a flag"),
        pytest.param({"A": {"t": np.zeros((2, 2))}}, r"does not exist: t-\[0", id="2-D"),
        pytest.param({"A": {"t": [1.0]}}, r"does not exist: t-1.0 \(a float\)", id="a float"),
    ],
)
def test_wrong_answers_are_refused(answer: object, text: str) -> None:
    with pytest.raises(PlanError, match=text):
        check_assignment("mine", SAME, answer)


def owners(*owner: int) -> np.ndarray:
    return np.array(owner, np.int32)


class Explosive:
    """An object whose attributes raise errors."""

    def __len__(self) -> int:
        raise RuntimeError("look away")

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise RuntimeError("look away")


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        pytest.param({"owner": [0.5] * 12}, "'owner' with 1 dimension of float64", id="floats"),
        pytest.param({"owner": [[0] * 12]}, "'owner' with 2 dimensions of int64", id="2-D"),
        pytest.param({"owner": None}, "'owner' with 0 dimensions of object", id="none"),
        pytest.param(
            {"owner": [0] * 11},
            "returned 'owner' of length 11, not 12, one per partition",
            id="short",
        ),
        pytest.param(
            {"owner": [0] * 11 + [2]}, "member index 2 in 'owner', not -1 to 1", id="beyond"
        ),
        pytest.param({"owner": [0] * 11 + [-2]}, "member index -2 in 'owner'", id="before"),
        pytest.param({"owner": [0] * 12, "notes": 3}, "unreadable answer: TypeError", id="notes"),
        pytest.param({"owner": [0] * 12, "notes": "abc"}, "not a list of strings", id="a note"),
        pytest.param({"owner": [0] * 12, "standbys": [1]}, "standbys of type list", id="standbys"),
        pytest.param(
            {"owner": [0] * 12, "standbys": {"B": 1}}, "gave 'B' standbys of type int", id="standby"
        ),
        pytest.param({"owner": Explosive()}, "RuntimeError: look away", id="explosive"),
    ],
)
def test_invalid_parts_of_an_assignment_are_refused_with_the_name(
    parts: dict[str, Any], text: str
) -> None:
    """Each of these was a bare TypeError, AttributeError or IndexError, or was accepted."""
    with pytest.raises(PlanError, match=text) as raised:
        check_assignment("mine", SAME, Assignment(SAME, **parts))
    assert str(raised.value).startswith("assignor 'mine' ")


def test_a_list_of_owners_is_accepted_like_an_array() -> None:
    answer = Assignment(SAME, [0, 1] * 6, notes=["a\nb"])  # type: ignore[arg-type]
    checked = check_assignment("mine", SAME, answer)
    assert (checked.counts.tolist(), checked.notes) == ([6, 6], ("a b",))


HELD = Group((Member("A", T, {"t": [0, 1]}, 1), Member("B", T), Member("C", frozenset())), {"t": 2})


@pytest.mark.parametrize(
    ("owner", "withheld", "text"),
    [
        pytest.param((-1, -1), (99, 99), "member index 99 in 'withheld', not -1 to 2", id="range"),
        pytest.param((-1, -1), (-7, 1), "member index -7 in 'withheld'", id="below"),
        pytest.param((0, 0), (-1, 1), "gave and withheld 1 partition: t-1", id="both"),
        pytest.param((0, -1), (-1, 2), "withheld 1 partition for members that do not", id="topic"),
        pytest.param((0, -1), (-1, 0), "that no other member claims: t-1", id="its own"),
        pytest.param((-1, -1), (-1, 1), "left 1 of 2 partitions without a member: t-0", id="lost"),
        pytest.param(
            (0, -1), (1,), "returned 'withheld' of length 1, not 2, one per partition", id="short"
        ),
    ],
)
def test_withheld_partitions_are_checked_too(
    owner: tuple[int, ...], withheld: tuple[int, ...], text: str
) -> None:
    """An owner of -1 with any value in `withheld` was accepted once: partitions were lost."""
    with pytest.raises(PlanError, match=text):
        check_assignment("mine", HELD, Assignment(HELD, owners(*owner), withheld=owners(*withheld)))


def test_partitions_of_another_member_may_be_withheld() -> None:
    answer = Assignment(HELD, owners(0, -1), withheld=owners(-1, 1))
    assert check_assignment("mine", HELD, answer).transferring == {"t": (1,)}


def test_withholding_an_unowned_partition_is_refused() -> None:
    answer = Assignment(SAME, np.full(12, -1), withheld=np.zeros(12, np.int64))
    with pytest.raises(PlanError, match="withheld 12 partitions that no other member claims"):
        check_assignment("mine", SAME, answer)


def test_answers_for_non_subscribers_are_refused() -> None:
    with pytest.raises(PlanError, match="do not subscribe to the topic: u-0 to 'A'"):
        check_assignment("mine", MIXED, {"A": {"t": [0, 1], "u": [0]}})


def test_answers_about_another_group_are_refused() -> None:
    with pytest.raises(PlanError, match="whose members or topics"):
        check_assignment("mine", SAME, ASSIGNORS["sticky"].assign(MIXED))


def test_an_assignor_that_raises_is_named() -> None:
    def broken(_group: Group) -> Assignment:
        raise KeyError("x")

    with pytest.raises(PlanError, match="assignor 'mine' raised KeyError: 'x'"):
        assign_checked(Strategy("mine", broken), SAME)


def test_a_settled_cooperative_assignor_assigns_all_partitions() -> None:
    group = Group((Member("A", T, {"t": range(12)}, 1), Member("B", T)), {"t": 12})
    assert settle(ASSIGNORS["cooperative-sticky"], group).counts.tolist() == [6, 6]

"""Custom assignors: named in every error, given their options, informed of assignments."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import assignor_bridge
from assignor_bridge.assignors import ASSIGNORS, Group, Member, choose
from assignor_bridge.assignors.check import assign_checked
from assignor_bridge.assignors.custom import Finder, find
from assignor_bridge.assignors.own import CustomAssignor, configure_assignors
from assignor_bridge.errors import AssignorError, OptionError, PlanError
from assignor_bridge.model import Executor, OffsetRange
from assignor_bridge.options import BUILT_IN
from tests.support.consumer_group import InMemoryGroup, make_members, settle
from tests.support.planning import Snapshot, plan

T = frozenset({"t"})
GROUP = Group((Member("A", T), Member("B", T)), {"t": 4})
RANGES = tuple(OffsetRange("t", p, 0, 10) for p in range(4))
EXECUTORS = (Executor("1", "h"), Executor("2", "h"))


class Base:
    """Assigns everything to the first member."""

    def assign(self, group: Group) -> Any:
        return {group.ids[0]: {t: list(range(n)) for t, n in group.topics.items()}}


class Diary(Base):
    """Takes options, and records its calls."""

    name = "diary"
    made: list[Diary]

    def __init__(self) -> None:
        self.options: dict[str, str] | None = None
        self.told: list[tuple[str, dict[str, list[int]], int]] = []
        self.made.append(self)

    def configure(self, options: dict[str, str]) -> None:
        assert self.options is None
        self.options = options
        if "bad" in options:
            raise ValueError("bad is not taken")

    def on_assignment(self, member: Member, owned: Any, generation: int) -> Member | None:
        self.told.append((member.id, {t: list(ps) for t, ps in owned.items()}, generation))
        if (self.options or {}).get("mark"):
            return replace(member, owned=owned, generation=generation, user_data=b"mark")
        return None


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("theirs")
    Diary.made = []
    module.Diary, module.Base = Diary, Base  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "theirs", module)
    return module


def test_the_list_of_built_in_names_matches_the_table() -> None:
    assert frozenset(ASSIGNORS) == BUILT_IN
    sources = Path(assignor_bridge.__file__).parent / "jvm/src/io/assignorbridge"
    java = (sources / "settings/AssignorOptions.java").read_text("utf-8")
    [there] = re.findall(r"BUILT_IN =\s+Set\.of\((.*?)\);", java, re.DOTALL)
    assert frozenset(re.findall(r'"(\S+)"', there)) == BUILT_IN


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def raising(error: BaseException) -> Any:
    def method(*_: Any) -> Any:
        raise error

    return method


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(KeyError("x"), "KeyError: 'x'", id="an error"),
        pytest.param(SystemExit(3), "SystemExit: 3", id="an exit"),
        pytest.param(RuntimeError("a\nb"), "RuntimeError: a b", id="two lines"),
        pytest.param(UnspeakableError(), "UnspeakableError: (its __str__ raises", id="no text"),
        pytest.param(OptionError("odd"), "OptionError: odd", id="one of ours"),
        pytest.param(RuntimeError("\ud800"), "RuntimeError: ?", id="half a character"),
    ],
)
@pytest.mark.parametrize("method", ["assign", "refusal", "reservation"])
def test_errors_name_the_assignor(method: str, error: BaseException, words: str) -> None:
    class Mine(Base):
        name = "mine"

    setattr(Mine, method, raising(error))
    own = CustomAssignor("theirs:Mine", Mine)
    with pytest.raises(PlanError) as raised:
        assign_checked(choose("mine", GROUP, lambda _: own).assignor, GROUP)
    assert str(raised.value).startswith(f"assignor 'mine' raised {words}")


@pytest.mark.parametrize(
    ("method", "answer", "words"),
    [
        pytest.param(
            "refusal", 3, "returned int from refusal: expected a line of text", id="refusal"
        ),
        pytest.param("reservation", b"", "returned bytes from reservation", id="reservation"),
        pytest.param(
            "user_data", "x", "returned str from user_data: expected bytes or None", id="bytes"
        ),
        pytest.param(
            "on_assignment", 3, "returned int from on_assignment: expected the member", id="told"
        ),
        pytest.param("assign", 3, "returned a int, not a mapping", id="assign"),
    ],
)
def test_wrong_results_name_the_assignor(method: str, answer: Any, words: str) -> None:
    mine = type("Mine", (Base,), {"name": "mine", method: lambda *_: answer})
    own = CustomAssignor("theirs:Mine", mine)
    group = InMemoryGroup({"t": 4}, ["mine"], find=lambda _: own)
    for member in make_members("AB", "t"):
        group.join(member)

    def ask() -> None:
        choose("mine", group.group, lambda _: own)
        group.rebalance()

    with pytest.raises(PlanError, match=f"assignor 'mine' {words}"):
        ask()


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        pytest.param(
            {"name": property(raising(RuntimeError("no")))}, "RuntimeError: no", id="name"
        ),
        pytest.param({"name": 3}, r"invalid name \(a int\)", id="a number"),
        pytest.param({"name": ""}, "invalid name", id="empty"),
        pytest.param({"name": "a,b"}, "invalid name", id="comma"),
        pytest.param({"name": "sticky"}, "has the reserved name 'sticky'", id="ours"),
        pytest.param({"name": "None"}, "has the reserved name 'None'", id="none"),
        pytest.param({"protocols": None}, r"invalid protocols \(a NoneType\)", id="no"),
        pytest.param({"protocols": ("LAZY",)}, "a tuple of EAGER, COOPERATIVE, or", id="unknown"),
        pytest.param({"assign": 3}, r"without `assign\(group\)`", id="assign"),
        pytest.param(
            {"__init__": raising(SystemExit())}, "could not be created: SystemExit", id="make"
        ),
    ],
)
def test_invalid_attributes_are_refused_on_loading(
    module: ModuleType, attributes: dict[str, Any], words: str
) -> None:
    module.Odd = type("Odd", (Base,), attributes)  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match=words) as raised:
        find("theirs:Odd")
    assert "'theirs:Odd'" in str(raised.value)


def test_a_name_of_a_str_subclass_becomes_a_plain_str(module: ModuleType) -> None:
    """Answers to Java can be encoded only for plain str."""
    module.Odd = type("Odd", (Base,), {"name": type("Name", (str,), {})("odd")})  # type: ignore[attr-defined]
    found = find("theirs:Odd")
    assert (found.name, type(found.name)) == ("odd", str)


def test_a_module_that_exits_gives_a_one_line_error(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit('bye')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(OptionError, match="'leaves:X' could not be loaded: SystemExit: bye"):
        find("leaves:X")


@pytest.mark.parametrize(
    "tamper",
    [
        pytest.param(lambda group: group.subscribed.fill(False), id="nothing is wanted"),
        pytest.param(lambda group: group.catalog.counts.fill(0), id="no partitions"),
        pytest.param(lambda group: group.catalog.starts.fill(0), id="no numbers"),
    ],
)
def test_an_assignor_cannot_change_the_checked_group(tamper: Any) -> None:
    own = CustomAssignor("theirs:Mine", lambda group: tamper(group) or {})
    with pytest.raises(PlanError, match=r"'theirs:Mine' raised ValueError: .*read-only"):
        assign_checked(own, GROUP)


def test_ctrl_c_is_not_converted() -> None:
    own = CustomAssignor(
        "theirs:Mine", type("Mine", (Base,), {"assign": raising(KeyboardInterrupt())})
    )
    with pytest.raises(KeyboardInterrupt):
        assign_checked(own, GROUP)


def planned(find: Finder, **options: str) -> Any:
    given = {name.replace("__", "."): value for name, value in options.items()}
    return plan(Snapshot(EXECUTORS, RANGES, given), find)


def test_options_are_passed_once_without_their_prefix() -> None:
    finder = Finder()
    for _ in range(2):
        planned(finder, assignor="theirs:Diary", assignor__diary__maxAge="5", ASSIGNOR__DIARY__x="")
    assert [diary.options for diary in Diary.made] == [{"maxAge": "5", "x": ""}]
    planned(finder, assignor="theirs:Diary", assignor__diary__maxAge="6")
    planned(finder, assignor="theirs:Diary", assignor__diary__maxAge="5", ASSIGNOR__DIARY__x="")
    assert [diary.options for diary in Diary.made][1:] == [{"maxAge": "6"}]


def test_an_assignor_without_options_is_configured_with_an_empty_dict() -> None:
    planned(Finder(), assignor="theirs:Diary")
    assert Diary.made[0].options == {}


def test_an_assignor_without_a_name_gets_options_by_its_reference() -> None:
    class Plain(Base):
        configure = Diary.configure
        options = None

    own = CustomAssignor("theirs:Plain", Plain)
    [assignor] = configure_assignors(["x"], [("theirs:plain.age", "5")], lambda _: own).values()
    assert isinstance(assignor, CustomAssignor)
    assert assignor._assignor.options == {"age": "5"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(
            {"assignor": "sticky", "assignor.sticky.x": "1"},
            "unknown option 'assignor.sticky.x'",
            id="one of ours takes none",
        ),
        pytest.param(
            {"assignor": "theirs:Diary,sticky", "assignor.sticky.x": "1"},
            r"unknown option 'assignor.sticky.x': it does not begin .* \('diary'\)",
            id="nor beside one of theirs",
        ),
        pytest.param(
            {"assignor": "theirs:Diary", "assignor.splitt": "1"},
            "did you mean 'assignor.split'",
            id="a typo is a typo",
        ),
        pytest.param(
            {"assignor": "theirs:Base", "assignor.theirs:Base.x": "1"},
            r"'assignor.theirs:Base.x' is for assignor 'theirs:Base', which has no `configure",
            id="it takes none",
        ),
        pytest.param(
            {"assignor": "theirs:Diary", "assignor.diary.bad": "1"},
            r"'diary' does not accept its options \(bad\): ValueError: bad is not taken",
            id="it refuses",
        ),
    ],
)
def test_options_of_no_assignor_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        plan(Snapshot(EXECUTORS, RANGES, options), Finder())


def test_on_assignment_is_called_in_spark_for_each_slot() -> None:
    """`on_assignment` was documented, but never called."""
    first = planned(finder := Finder(), assignor="theirs:Diary")
    [diary] = Diary.made
    generation = first.metrics["generation"]
    assert diary.told == [("1/0", {"t": [0, 1, 2, 3]}, generation), ("2/0", {}, generation)]
    planned(finder, assignor="theirs:Diary")
    assert len(Diary.made) == 1


def test_on_assignment_returns_the_member_that_joins_next() -> None:
    finder = Finder()
    diary = configure_assignors(["theirs:Diary"], [("diary.mark", "1")], finder)["theirs:Diary"]
    group = InMemoryGroup({"t": 4}, ["diary"], find=lambda _: diary)
    for member in make_members("AB", "t"):
        group.join(member)
    group.rebalance()
    assert [told[0] for told in Diary.made[0].told] == ["A", "B"]
    assert [m.user_data for m in group.group.members] == [b"mark", b"mark"]
    assert group.group.members[0].generation == 1


def test_rebalance_calls_on_assignment() -> None:
    """A cooperative assignor is informed after each of two rounds."""

    class Mine(Diary):
        protocols = ("COOPERATIVE", "EAGER")

        def assign(self, group: Group) -> Any:
            return ASSIGNORS["cooperative-sticky"].assign(group)

    group = Group((Member("A", T, {"t": range(4)}, 1), Member("B", T)), {"t": 4})
    assert settle(CustomAssignor("theirs:Mine", Mine), group).counts.tolist() == [2, 2]
    assert Diary.made[0].told == [
        ("A", {"t": [0, 1]}, 2), ("B", {}, 2), ("A", {"t": [0, 1]}, 3), ("B", {"t": [2, 3]}, 3),
    ]  # fmt: skip


def test_user_data_are_in_the_members_subscription() -> None:
    class Mine(Base):
        def user_data(self, member: Member) -> bytes:
            return member.id.encode()

        def refusal(self, group: Group) -> str | None:
            return None if [m.user_data for m in group.members] == [b"A", b"B"] else "no bytes"

        def assign(self, group: Group) -> Any:
            assert self.refusal(group) is None
            return super().assign(group)

    group = InMemoryGroup({"t": 4}, ["mine"], find=lambda _: CustomAssignor("theirs:Mine", Mine))
    for member in make_members("AB", "t"):
        group.join(member)
    assert group.rebalance()[0].assignment["A"].count == 4


def test_all_errors_are_assignor_errors() -> None:
    """If any attribute raises, the command line prints the error on one line."""

    class Explosive:
        def __getattr__(self, name: str) -> Any:
            raise SystemExit(name)

    with pytest.raises(AssignorError, match="assignor 'x:y' raised SystemExit: assign"):
        CustomAssignor("x:y", Explosive())

"""Each case of the conformance suite detects an assignor that is broken on purpose."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import Phase, settings

from assignor_bridge.assignors import ASSIGNORS, Assignment
from assignor_bridge.assignors.claims import resolve_claims
from assignor_bridge.assignors.own import CustomAssignor
from assignor_bridge.errors import OptionError
from assignor_bridge.testing import AssignorConformance

if TYPE_CHECKING:
    from assignor_bridge.assignors import Group

ROOT = Path(__file__).parents[3]


def dealt(group: Group) -> dict[str, dict[str, list[int]]]:
    """Deal each topic to its subscribers: valid, balanced per topic, and blind to racks."""
    answer: dict[str, dict[str, list[int]]] = {m: {} for m in group.ids}
    for topic, subscribers in group.subscribers.items():
        for p in range(group.topics[topic]):
            member = group.ids[subscribers[p % len(subscribers)]]
            answer[member].setdefault(topic, []).append(p)
    return answer


def without_one(group: Group) -> dict[str, dict[str, list[int]]]:
    return {m: {t: ps[:2] for t, ps in of.items()} for m, of in dealt(group).items()}


def one_twice(group: Group) -> dict[str, dict[str, list[int]]]:
    answer = dealt(group)
    for topic, subscribers in group.subscribers.items():
        for i in subscribers if group.topics[topic] else ():
            answer[group.ids[i]][topic] = sorted({*answer[group.ids[i]].get(topic, []), 0})
    return answer


def to_anybody(group: Group) -> dict[str, dict[str, list[int]]]:
    return {group.ids[-1]: {t: list(range(group.topics[t])) for t in group.subscribers}}


def to_the_first(group: Group) -> dict[str, dict[str, list[int]]]:
    answer: dict[str, dict[str, list[int]]] = {m: {} for m in group.ids}
    for topic, (first, *_) in group.subscribers.items():
        answer[group.ids[first]][topic] = list(range(group.topics[topic]))
    return answer


def turned(group: Group) -> Any:
    """Assign each member's partitions to the next member: nothing ever stays."""
    held = resolve_claims(group).owner
    owner = np.array(ASSIGNORS["sticky"].assign(group).owner)
    owner[held >= 0] = (held[held >= 0] + 1) % len(group.ids)
    return Assignment(group, owner)


def as_written(group: Group) -> dict[str, dict[str, list[int]]]:
    """Assign topics in the order of the mapping of racks."""
    count, answer = 0, {m: {} for m in group.ids}  # type: ignore[var-annotated]
    for topic in dict.fromkeys([*group.lags, *group.subscribers]):
        for p in range(group.topics.get(topic, 0)) if topic in group.subscribers else ():
            subscribers = group.subscribers[topic]
            member = group.ids[subscribers[count % len(subscribers)]]
            answer[member].setdefault(topic, []).append(p)
            count += 1
    return answer


class Moody:
    """Gives another answer when called again."""

    asked = 0

    def assign(self, group: Group) -> dict[str, dict[str, list[int]]]:
        self.asked += 1
        return dealt(group) if self.asked % 3 else to_the_first(group)


class Hasty:
    """Declares itself cooperative, but takes partitions from present owners."""

    protocols = ("COOPERATIVE",)

    def assign(self, group: Group) -> Any:
        return ASSIGNORS["sticky"].assign(group)


class Slow:
    """Iterates over all partitions for each partition."""

    def assign(self, group: Group) -> dict[str, dict[str, list[int]]]:
        answer: dict[str, dict[str, list[int]]] = {m: {} for m in group.ids}
        pairs = [(t, p) for t in group.subscribers for p in range(group.topics[t])]
        for topic, p in pairs:
            place = 0
            for pair in pairs:
                place += pair < (topic, p)
            subscribers = group.subscribers[topic]
            member = group.ids[subscribers[place % len(subscribers)]]
            answer[member].setdefault(topic, []).append(p)
        return answer


class ByHash:
    """Starts with the first topic of a set."""

    def assign(self, group: Group) -> dict[str, dict[str, list[int]]]:
        first = next(iter({f"a{t}" for t in group.subscribers}), "")
        shift = int(first[-1:].isalnum() and first[-1:] > "0") and ord(first[-1:])
        answer: dict[str, dict[str, list[int]]] = {m: {} for m in group.ids}
        for topic, subscribers in group.subscribers.items():
            for p in range(group.topics[topic]):
                member = group.ids[subscribers[(p + shift) % len(subscribers)]]
                answer[member].setdefault(topic, []).append(p)
        return answer


#: Do not search for the smallest failure, which takes long.
FOUND = settings(AssignorConformance.trials, phases=(Phase.explicit, Phase.generate))


class HashedConformance(AssignorConformance):
    assignor = ByHash


class DealtConformance(AssignorConformance):
    assignor, balance, sticky = dealt, "topics", True


def run(case: str, assignor: Any, promises: dict[str, Any]) -> None:
    made = type(
        "Broken", (AssignorConformance,), {"assignor": assignor, "trials": FOUND, **promises}
    )
    getattr(made(), f"test_{case}")()


@pytest.mark.parametrize(
    ("case", "assignor", "promises", "problem"),
    [
        pytest.param("valid_and_complete", without_one, {}, "without a member", id="left out"),
        pytest.param("valid_and_complete", one_twice, {}, "gave one partition twice", id="twice"),
        pytest.param("valid_and_complete", to_anybody, {}, "do not subscribe", id="foreign"),
        pytest.param("balance", to_the_first, {"balance": "counts"}, "differ by", id="counts"),
        pytest.param("balance", to_the_first, {"balance": "topics"}, "differ by", id="topics"),
        pytest.param("balance", dealt, {"balance": "lags"}, "lags .* exceed", id="lags"),
        pytest.param(
            "nothing_moves_when_nothing_changed", turned,
            {"sticky": True, "same_subscriptions": True}, "moved: ", id="never rests",
        ),
        pytest.param(
            "a_leave_moves_only_what_the_leaver_had", dealt, {"least_moves": True}, "left, and",
            id="leave",
        ),
        pytest.param(
            "a_join_moves_partitions_only_to_the_newcomer", dealt, {"least_moves": True},
            "joined, and", id="join",
        ),
        pytest.param(
            "the_order_of_the_input_does_not_matter", as_written, {}, "answered", id="order"
        ),
        pytest.param("the_order_of_the_input_does_not_matter", Moody, {}, "answered", id="mood"),
        pytest.param("racks", dealt, {"racks": True}, "read across racks", id="racks"),
        pytest.param("rounds", Hasty, {}, "gave away owned partitions", id="not cooperative"),
        pytest.param("rounds", "cooperative-sticky", {"rounds": 1}, "2 rounds", id="rounds"),
        pytest.param("speed", Slow, {}, "times as many for each partition", id="quadratic"),
        pytest.param("balance", "streams", {"balance": "counts", "assignor": None}, "missing",
                     id="no assignor"),
    ],
)  # fmt: skip
def test_the_suite_detects_a_broken_assignor(
    case: str, assignor: Any, promises: dict[str, Any], problem: str
) -> None:
    with pytest.raises((AssertionError, ValueError), match=problem):
        run(case, assignor, promises)


def test_the_suite_detects_a_dependence_on_set_order() -> None:
    with pytest.raises(AssertionError, match="depends on PYTHONHASHSEED"):
        HashedConformance().test_the_hash_seed_does_not_matter()
    DealtConformance().test_the_hash_seed_does_not_matter()


def test_refusing_all_groups_names_the_missing_setting() -> None:
    refusing = type("Picky", (), {"assign": dealt, "refusal": lambda *_: "no"})
    with pytest.raises(AssertionError, match="same_subscriptions = True"):
        run("valid_and_complete", refusing, {})


def test_options_are_passed_and_wrong_ones_are_reported() -> None:
    told: list[dict[str, str]] = []

    class Configured:
        def configure(self, options: dict[str, str]) -> None:
            told.append(options)

        def assign(self, group: Group) -> Any:
            return dealt(group)

    run("valid_and_complete", Configured, {"options": {"most": "5"}})
    assert told == [{"most": "5"}]
    with pytest.raises(OptionError, match="has no `configure"):
        run("valid_and_complete", CustomAssignor("dealt", dealt), {"options": {"most": "5"}})


def test_the_example_of_the_docs_passes(tmp_path: Path) -> None:
    """Run the three lines of the docs in an otherwise empty folder."""
    text = (ROOT / "docs" / "writing-an-assignor.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    [rules] = [program for program in programs if "class LargestFirst:" in program]
    [test] = [program for program in programs if "AssignorConformance" in program]
    (tmp_path / "team_rules.py").write_text(rules, encoding="utf-8")
    (tmp_path / "test_mine.py").write_text(test, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "6 passed, 4 skipped" in done.stdout


@pytest.mark.parametrize("missing", ["hypothesis", "pytest"])
def test_without_the_extra_the_error_names_the_packages_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in sys.modules if n.startswith("assignor_bridge.testing")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=rf"needs '{missing}'.*pip install pytest hypothesis"):
        importlib.import_module("assignor_bridge.testing")

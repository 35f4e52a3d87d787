"""Run the examples in the docstrings of every module."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for package in ("assignor_bridge", "checkpoints", "streaming")
    for path in sorted((ROOT / package).rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    outcome = doctest.testmod(import_module(name))
    assert outcome.failed == 0


def test_the_plan_and_the_placement_have_an_example() -> None:
    assert {"assignor_bridge.planner.plan", "assignor_bridge.planner.place"} <= {*MODULES}


def test_each_assignor_has_an_example() -> None:
    from assignor_bridge.assignors import ASSIGNORS, Strategy

    for assignor in ASSIGNORS.values():
        assert isinstance(assignor, Strategy)
        assert ">>> print(" in (assignor.assign.__doc__ or ""), assignor.name

"""The worked examples in the planner's docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from assignor_bridge import planner

MODULES = [module.name for module in pkgutil.iter_modules(planner.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_true(name):
    assert doctest.testmod(importlib.import_module(f"assignor_bridge.planner.{name}")).failed == 0


def test_the_recipe_and_the_placement_have_one():
    for name in ("plan", "place"):
        assert doctest.testmod(importlib.import_module(f"assignor_bridge.planner.{name}")).attempted

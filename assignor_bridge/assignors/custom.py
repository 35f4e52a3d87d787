"""Import custom assignors by entry point, or as `package.module:Class`; `own` adapts them."""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

from assignor_bridge.assignors.own import CustomAssignor
from assignor_bridge.assignors.registry import ASSIGNORS, lookup
from assignor_bridge.errors import OptionError, convert_errors

if TYPE_CHECKING:
    from assignor_bridge.assignors.protocol import Assignor

#: Entry point group in which distributions register their assignors.
ENTRY_POINT_GROUP = "assignor_bridge.assignors"


class Finder:
    """Finds assignors by name; loads each custom assignor only once."""

    def __init__(self) -> None:
        self._custom_by_name: dict[str, Assignor] = {}

    def __call__(self, name: str) -> Assignor:
        """Return what `find` returns for this name, the same object each time."""
        if name in ASSIGNORS:
            return ASSIGNORS[name]
        if name not in self._custom_by_name:
            self._custom_by_name[name] = find(name)
        return self._custom_by_name[name]


def find(name: str) -> Assignor:
    """Return a built-in assignor, or load one by `package.module:Class` or entry point.

    The loaded object may be a class (called without arguments), an instance with `assign(group)`,
    or a function of a group. It may also have `name`, `protocols`, `refusal`, `reservation`,
    `user_data`, `configure` and `on_assignment`.

    Raises OptionError, with the reason, if there is no such assignor or it cannot be loaded.
    """
    if name in ASSIGNORS:
        return ASSIGNORS[name]
    if ":" in name:
        return CustomAssignor(name, _import_object(name))
    points = metadata.entry_points(group=ENTRY_POINT_GROUP, name=name)
    for point in sorted(points, key=lambda p: p.value):
        with convert_errors(
            OptionError,
            f"assignor {name!r} (entry point {point.value}) could not be loaded: {{}}. "
            "Correct or uninstall the package that registers it",
        ):
            user_object = point.load()
        return CustomAssignor(name, user_object)
    return lookup(name)


def _import_object(name: str) -> Any:
    module_name, _, attribute_path = name.partition(":")
    with convert_errors(
        OptionError,
        f"assignor {name!r} could not be loaded: {{}}. "
        "Write 'package.module:Class', and make the package importable",
    ):
        user_object: Any = import_module(module_name)
        for attribute in attribute_path.split("."):
            user_object = getattr(user_object, attribute)
    return user_object

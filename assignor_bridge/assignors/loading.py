"""Assignors of the user's own: by entry point, or as `package.module:Class`.

This is an edge: it imports code. What is found is wrapped by `own.Own`, whose methods are those of
`protocol.Assignor`.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

from assignor_bridge.assignors.own import CustomAssignor
from assignor_bridge.assignors.registry import ASSIGNORS, lookup
from assignor_bridge.errors import OptionError, convert_errors

if TYPE_CHECKING:
    from assignor_bridge.assignors.protocol import Assignor

#: Entry point group in which distributions name their assignors.
ENTRY_POINTS = "assignor_bridge.assignors"


class Finder:
    """Finds assignors, each of the user's own once: its object lives as long as the finder."""

    def __init__(self) -> None:
        self._own: dict[str, Assignor] = {}

    def __call__(self, name: str) -> Assignor:
        """See `find`."""
        if name in ASSIGNORS:
            return ASSIGNORS[name]
        if name not in self._own:
            self._own[name] = find(name)
        return self._own[name]


def find(name: str) -> Assignor:
    """Find an assignor: in our table, as `package.module:Class`, or among the entry points.

    The object may be a class (made without arguments), an instance with `assign(group)`, or a plain
    function of a group. `name`, `protocols`, `refusal`, `reservation`, `user_data`, `configure` and
    `on_assignment` are taken from it where it has them.

    Raises
    ------
    OptionError
        When there is no such assignor, or it cannot be loaded; the message says why.
    """
    if name in ASSIGNORS:
        return ASSIGNORS[name]
    if ":" in name:
        return CustomAssignor(name, _imported(name))
    points = metadata.entry_points(group=ENTRY_POINTS, name=name)
    for point in sorted(points, key=lambda p: p.value):
        with convert_errors(
            OptionError, f"assignor {name!r} (entry point {point.value}) could not be loaded: {{}}"
        ):
            loaded = point.load()
        return CustomAssignor(name, loaded)
    return lookup(name)


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    with convert_errors(
        OptionError,
        f"assignor {name!r} could not be loaded: {{}}. "
        "Write 'package.module:Class', and make the package importable for the planner",
    ):
        loaded: Any = import_module(module)
        for part in attribute.split("."):
            loaded = getattr(loaded, part)
    return loaded

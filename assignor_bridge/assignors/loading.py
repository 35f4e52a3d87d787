"""Assignors of the user's own: by entry point, or as `package.module:Class`.

This is an edge: it imports code. What is found is given the shape of `protocol.Assignor`; its
answers go through `check_assignment` like ours.
"""

from __future__ import annotations

import inspect
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

from assignor_bridge.assignors.protocol import Assignor, Strategy, fine, no_user_data
from assignor_bridge.assignors.registry import ASSIGNORS, lookup
from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

#: Entry point group in which distributions name their assignors.
ENTRY_POINTS = "assignor_bridge.assignors"


def find(name: str) -> Assignor:
    """Find an assignor: in our table, as `package.module:Class`, or among the entry points.

    The object may be a class (made without arguments), an instance with `assign(group)`, or a plain
    function of a group. `name`, `protocols`, `refusal`, `reservation`, `user_data` and
    `on_assignment` are taken from it where it has them.

    Raises
    ------
    OptionError
        When there is no such assignor, or it cannot be loaded; the message says why.
    """
    if name in ASSIGNORS:
        return ASSIGNORS[name]
    if ":" in name:
        return _shaped(name, _imported(name))
    points = metadata.entry_points(group=ENTRY_POINTS, name=name)
    for point in sorted(points, key=lambda p: p.value):
        try:
            loaded = point.load()
        except Exception as error:
            raise OptionError(
                f"assignor {name!r} (entry point {point.value}) could not be loaded: "
                f"{type(error).__name__}: {error}"
            ) from error
        return _shaped(name, loaded)
    return lookup(name)


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise OptionError(
            f"assignor {name!r} could not be loaded: {type(error).__name__}: {error}. "
            "Write 'package.module:Class', and make the package importable for the planner"
        ) from error
    return found


def _shaped(name: str, found: Any) -> Assignor:
    if inspect.isclass(found):
        try:
            found = found()
        except Exception as error:
            raise OptionError(
                f"assignor {name!r} could not be made: {type(error).__name__}: {error}. "
                "Its class is called without arguments"
            ) from error
    if isinstance(found, Assignor):
        return found
    function: Callable[..., Any] | None = getattr(found, "assign", None)
    if function is None and callable(found):
        function = found
    if function is None:
        raise OptionError(
            f"assignor {name!r} is a {type(found).__name__} without `assign(group)`: "
            "give a class, an instance or a function that assigns a group"
        )
    return Strategy(
        name=str(getattr(found, "name", name)),
        function=function,
        protocols=tuple(getattr(found, "protocols", ("EAGER",))),
        precondition=getattr(found, "refusal", fine),
        soft_condition=getattr(found, "reservation", fine),
        encode=getattr(found, "user_data", no_user_data),
    )

"""Parse assignor names on the command line, and load built-in and custom assignors."""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from assignor_bridge.assignors.custom import Finder
from assignor_bridge.assignors.protocol import Assignor
from assignor_bridge.errors import OptionError
from assignor_bridge.options import parse_options
from streaming.simulator.mappings import MAX_TASKS
from streaming.simulator.play import SPARK_MAPPINGS, is_spark_mapping

CustomAssignors = Annotated[
    list[str] | None,
    typer.Option(
        "--assignors",
        metavar="package.module:Class",
        help="Custom assignor class that the input may refer to; may be repeated.",
    ),
]
Tail = Annotated[
    str | None,
    typer.Option("--tail", metavar="auto|off|NUMBER", help="assignor.tail."),
]


def parse_tail(text: str | None) -> dict[str, str]:
    """Return `assignor.tail` as an option; empty without `text`. Raise OptionError if invalid."""
    options = {} if text is None else {"assignor.tail": text}
    parse_options(options)
    return options


def parse_names(text: str, option: str = "--assignors") -> list[str]:
    """Split an option's value at commas; raise OptionError for no name or an invalid `=NUMBER`."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise OptionError(f"{option} is {text!r}: at least one name is expected")
    for name in names:
        kind, equals, number = name.partition("=")
        if kind in SPARK_MAPPINGS[1:] and equals and not re.fullmatch("0*[1-9][0-9]{0,17}", number):
            raise OptionError(f"{option} {name!r}: a whole number from 1 is expected after '='")
        if kind == "minPartitions" and equals and int(number) > MAX_TASKS:
            raise OptionError(f"{option} {name!r}: at most {MAX_TASKS:,} tasks can be simulated")
    return names


def check_names(names: Sequence[str], find_assignor: Callable[[str], Assignor]) -> None:
    """Raise OptionError for a name that is neither a Spark mapping nor a loadable assignor."""
    for name in names:
        if not is_spark_mapping(name):
            find_assignor(name)


def make_finder(names: Sequence[str], option: str) -> Callable[[str], Assignor]:
    """Return a function that loads an assignor by name; it imports only custom classes in `names`.

    The input may be untrusted, so it raises OptionError for a class that is named only there.
    `names` are those given with `option` on the command line; a custom class among them may be in
    the working folder.
    """
    allowed_classes = {name for name in names if ":" in name}
    if allowed_classes:
        sys.path.append(str(Path.cwd()))
    find_assignor = Finder()

    def load(name: str) -> Assignor:
        if ":" in name and name not in allowed_classes:
            raise OptionError(
                f"assignor {name!r} is a custom class named only in the input: if you trust it, "
                f"add {option} {name}"
            )
        return find_assignor(name)

    return load

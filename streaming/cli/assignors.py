"""Assignors that a command is asked for, by name or as `package.module:Class`."""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from assignor_bridge.assignors.loading import Finder
from assignor_bridge.assignors.protocol import Assignor
from assignor_bridge.errors import OptionError
from streaming.simulator.mappings import MOST_TASKS
from streaming.simulator.play import SPARK_MAPPINGS, is_sparks

OwnAssignors = Annotated[
    list[str] | None,
    typer.Option(
        "--assignors",
        metavar="package.module:Class",
        help="An assignor of your own that the input may name; may be repeated.",
    ),
]


def parse_names(text: str) -> list[str]:
    """Return the names in `--assignors`."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise OptionError(f"--assignors is {text!r}: at least one name is expected")
    for name in names:
        kind, equals, number = name.partition("=")
        if kind in SPARK_MAPPINGS[1:] and equals and not re.fullmatch("0*[1-9][0-9]{0,17}", number):
            raise OptionError(f"--assignors {name!r}: a whole number from 1 is expected after '='")
        if kind == "minPartitions" and equals and int(number) > MOST_TASKS:
            raise OptionError(f"--assignors {name!r}: at most {MOST_TASKS:,} tasks are played")
    return names


def check_names(names: Sequence[str], find: Callable[[str], Assignor]) -> None:
    """Refuse a name that is neither one of Spark's mappings nor an assignor that can be made."""
    for name in names:
        if not is_sparks(name):
            find(name)


def make_finder(names: Sequence[str], option: str) -> Callable[[str], Assignor]:
    """Return what finds assignors; of code outside of this package only what the caller has named.

    Input may come from somebody else: what it alone names is not imported.

    Parameters
    ----------
    names
        What the command line names; of the form `package.module:Class` also from the working
        folder.
    option
        Where the command line names them.
    """
    own = {name for name in names if ":" in name}
    if own:
        sys.path.append(str(Path.cwd()))
    find = Finder()

    def found(name: str) -> Assignor:
        if ":" in name and name not in own:
            raise OptionError(
                f"assignor {name!r} is code that only the input names; if you trust it, name it by "
                f"{option}, too"
            )
        return find(name)

    return found

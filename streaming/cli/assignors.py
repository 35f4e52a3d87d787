"""Assignors that a command is asked for, by name or as `package.module:Class`."""

import re
import sys
from pathlib import Path

from assignor_bridge.assignors.loading import Finder
from assignor_bridge.errors import OptionError
from assignor_bridge.simulator.play import SPARK_MAPPINGS


def names_in(text: str) -> list[str]:
    """Return the names in `--assignors`."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise OptionError(f"--assignors is {text!r}: at least one name is expected")
    for name in names:
        kind, equals, number = name.partition("=")
        if kind in SPARK_MAPPINGS[1:] and equals and not re.fullmatch("0*[1-9][0-9]{0,17}", number):
            raise OptionError(f"--assignors {name!r}: a whole number from 1 is expected after '='")
    return names


def finder() -> Finder:
    """Return a finder that also knows modules in the working folder."""
    sys.path.insert(0, str(Path.cwd()))
    return Finder()

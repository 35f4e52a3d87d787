"""Assignors that a command is asked for, by name or as `package.module:Class`."""

import sys
from pathlib import Path

from assignor_bridge.assignors.loading import Finder
from assignor_bridge.errors import OptionError


def names_in(text: str) -> list[str]:
    """Return the names in `--assignors`."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise OptionError(f"--assignors is {text!r}: at least one name is expected")
    return names


def finder() -> Finder:
    """Return a finder that also knows modules in the working folder."""
    sys.path.insert(0, str(Path.cwd()))
    return Finder()

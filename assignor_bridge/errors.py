"""The errors that this package raises on purpose.

Each message says who, what exactly and what to do; the CLI prints it as its one line and exits
with the class's `exit_code` (2 for misuse, 1 for a failure).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class AssignorError(Exception):
    """Base of every error that assignor_bridge and streaming raise on purpose."""

    #: Exit code of the command line when this error ends it.
    exit_code = 1


class OptionError(AssignorError, ValueError):
    """An option, a name or an input that the user must change."""

    exit_code = 2


class PlanError(AssignorError, ValueError):
    """A plan or an assignment that breaks the rules (an offset lost, repeated or invented)."""


def one_line(text: str) -> str:
    """Put somebody else's text on one line that UTF-8 can write (no halves of characters)."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


def words(error: BaseException) -> str:
    """Put somebody else's error into one line: its kind and what it says, if it can say it."""
    try:
        text = one_line(str(error))
    except Exception:  # noqa: BLE001  (a user's error may fail to describe itself)
        text = "(its text cannot be read)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def elided(names: Sequence[str], most: int = 3) -> str:
    """Return the first few names, with commas and a sign that there are more."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


@contextlib.contextmanager
def blaming(kind: type[AssignorError], text: str) -> Iterator[None]:
    """Turn whatever the user's code raises within, `SystemExit` included, into an error of ours.

    Parameters
    ----------
    kind
        The error that is raised in its place.
    text
        Its message, with `{}` where the words of the cause stand.
    """
    try:
        yield
    except KeyboardInterrupt:  # Ctrl-C is not theirs
        raise
    except BaseException as error:
        raise kind(text.replace("{}", words(error))) from error

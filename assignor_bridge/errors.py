"""The errors that this package raises on purpose.

Each message says who, what exactly and what to do; the CLI prints it as its one line and exits
with the class's `exit_code` (2 for misuse, 1 for a failure).
"""

from __future__ import annotations

import contextlib
import difflib
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


def to_one_line(text: str) -> str:
    """Put somebody else's text on one line that UTF-8 can write (no halves of characters)."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


def escape_unprintable(text: str) -> str:
    r"""Return a text that a terminal shows and does not obey: what is not printable as escapes.

    >>> escape_unprintable("t\x1b[2J"), escape_unprintable("Größe")
    ('t\\x1b[2J', 'Größe')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def describe_error(error: BaseException) -> str:
    """Put somebody else's error into one line: its kind and what it says, if it can say it."""
    try:
        text = to_one_line(str(error))
    except Exception:  # noqa: BLE001  (a user's error may fail to describe itself)
        text = "(its text cannot be read)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def describe_unknown_name(what: str, name: str, known: Sequence[str], prefix: str = "") -> str:
    """Complain about a name: with the nearest one that is known, else with all of them.

    The `prefix` that all have makes none of them nearer.

    >>> describe_unknown_name("key", "checkpont", ["name", "checkpoint"])
    "unknown key 'checkpont'; did you mean 'checkpoint'?"
    """
    lowered = {each.lower().removeprefix(prefix): each for each in known}
    near = difflib.get_close_matches(name.lower().removeprefix(prefix), lowered, n=1, cutoff=0.6)
    if near:
        return f"unknown {what} {name!r}; did you mean {lowered[near[0]]!r}?"
    return f"unknown {what} {name!r}. Allowed are {', '.join(known)}"


def elide(names: Sequence[str], most: int = 3, between: str = ", ") -> str:
    """List the first few names, and how many more there are.

    >>> elide(["a", "b", "c", "d", "e"]), elide(["a", "b"])
    ('a, b, c and 2 more', 'a, b')
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return between.join(names[:most]) + more


def pluralize(number: int, one: str, many: str = "") -> str:
    """Write a number of things.

    >>> pluralize(1, "batch", "batches"), pluralize(1200, "slot")
    ('1 batch', '1,200 slots')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


@contextlib.contextmanager
def convert_errors(kind: type[AssignorError], text: str) -> Iterator[None]:
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
        raise kind(text.replace("{}", describe_error(error))) from error

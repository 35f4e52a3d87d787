"""The errors that this package raises on purpose, and helpers for their messages.

Each message names the cause and the remedy. The CLI prints it on one line and exits with the
class's `exit_code` (2 for misuse, 1 for a failure).
"""

from __future__ import annotations

import contextlib
import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class AssignorError(Exception):
    """Base of every error that assignor_bridge and streaming raise on purpose."""

    #: Exit code of a command that fails with this error.
    exit_code = 1


class OptionError(AssignorError, ValueError):
    """An option, a name, or an input is invalid, and the user must change it."""

    exit_code = 2


class PlanError(AssignorError, ValueError):
    """A plan or an assignment is invalid, or the assignor that should make it failed."""


def to_one_line(text: str) -> str:
    """Return the text on one line; lone surrogates, which UTF-8 cannot encode, become '?'."""
    return " ".join(text.encode("utf-8", "replace").decode().split())


def escape_unprintable(text: str) -> str:
    r"""Escape unprintable characters, so that the text cannot control a terminal.

    >>> escape_unprintable("t\x1b[2J"), escape_unprintable("Größe")
    ('t\\x1b[2J', 'Größe')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def describe_error(error: BaseException) -> str:
    """Return an error's type and message on one line; without a message, only its type."""
    try:
        text = to_one_line(str(error))
    except Exception:  # noqa: BLE001  (a user's __str__ may raise anything)
        text = "(its __str__ raises an error)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def describe_unknown_name(kind: str, name: str, names: Sequence[str], prefix: str = "") -> str:
    """Return a message that suggests the closest of `names`, or lists all if none is close.

    The comparison ignores case and a leading `prefix`.

    >>> describe_unknown_name("key", "checkpont", ["name", "checkpoint"])
    "unknown key 'checkpont'; did you mean 'checkpoint'?"
    """
    name_by_key = {candidate.lower().removeprefix(prefix): candidate for candidate in names}
    close_matches = difflib.get_close_matches(
        name.lower().removeprefix(prefix), name_by_key, n=1, cutoff=0.6
    )
    if close_matches:
        return f"unknown {kind} {name!r}; did you mean {name_by_key[close_matches[0]]!r}?"
    return f"unknown {kind} {name!r}: use one of {', '.join(names)}"


def elide(names: Sequence[str], max_names: int = 3, separator: str = ", ") -> str:
    """Return the first `max_names` names and the number of the others.

    >>> elide(["a", "b", "c", "d", "e"]), elide(["a", "b"])
    ('a, b, c and 2 more', 'a, b')
    """
    suffix = f" and {len(names) - max_names:,} more" if len(names) > max_names else ""
    return separator.join(names[:max_names]) + suffix


def pluralize(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun in the singular or plural.

    >>> pluralize(1, "batch", "batches"), pluralize(1200, "slot")
    ('1 batch', '1,200 slots')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


@contextlib.contextmanager
def convert_errors(error_type: type[AssignorError], message: str) -> Iterator[None]:
    """Convert any error that a user's code raises, even `SystemExit`, to `error_type`.

    `{}` in `message` becomes the cause's type and message. KeyboardInterrupt is not converted.
    """
    try:
        yield
    except KeyboardInterrupt:  # Ctrl-C does not come from the user's code
        raise
    except BaseException as error:
        raise error_type(message.replace("{}", describe_error(error))) from error

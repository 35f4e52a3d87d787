"""Lines of JSON that a command answers one by one: a bad one costs its own answer, no other."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

import orjson
import typer
from msgspec.structs import asdict
from rich.text import Text

from assignor_bridge.errors import AssignorError, OptionError
from assignor_bridge.protocol.messages import failed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Input = TypeVar("Input")


def answer_lines(
    lines: Iterable[bytes],
    read: Callable[[int, bytes], Input | None],
    answer: Callable[[int, Input], None],
    as_json: bool,
) -> None:
    """Answer each line; exit with 1 when one could not be answered, with 2 when one is malformed.

    Parameters
    ----------
    lines
        The input; empty lines are passed over.
    read
        Reads a line, by its number; None passes it over. An `OptionError` means that it is
        malformed.
    answer
        Prints the answer.
    as_json
        Whether errors are answers too, as lines of JSON.
    """
    worst = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            request = read(number, line)
        except Exception as error:  # noqa: BLE001  (a bug of ours, too, is a line's only)
            worst = max(worst, 2 if isinstance(error, OptionError) else 1)
            _complain(error, number, as_json)
            continue
        if request is None:
            continue
        try:
            answer(number, request)
        except BrokenPipeError:  # nobody reads the answers any more
            raise
        except Exception as error:  # noqa: BLE001
            worst = max(worst, 1)
            _complain(error, number, as_json)
    if worst:
        raise typer.Exit(worst)


def write_json(value: dict[str, object]) -> None:
    """Print one line of JSON."""
    options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    sys.stdout.buffer.write(orjson.dumps(value, option=options))
    sys.stdout.buffer.flush()


def note(number: int, text: str) -> None:
    """Say something about a line, on stderr."""
    typer.echo(f"assignor: line {number}: {printable(text)}", err=True)


def printable(text: str) -> str:
    """Give a text that a terminal shows and does not obey; what it cannot show is escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def plain(text: str) -> Text:
    """Give a name for a table, in which brackets are brackets and not markup."""
    return Text(printable(text))


def _complain(error: Exception, number: int, as_json: bool) -> None:
    """Report one line's error: as a line of JSON where JSON is asked for, and on stderr."""
    answer = failed(error)
    if as_json:
        given = {name: value for name, value in asdict(answer).items() if value}
        write_json({**given, "line": number})
    elif not isinstance(error, AssignorError):
        typer.echo(answer.traceback, err=True)
    note(number, answer.error)

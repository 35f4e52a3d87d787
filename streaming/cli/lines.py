"""Lines of JSON that a command answers one by one: a bad one costs its own answer, no other."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

import orjson
import typer
from msgspec.structs import asdict

from assignor_bridge.errors import AssignorError, OptionError
from assignor_bridge.protocol.messages import failed
from streaming.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Input = TypeVar("Input")


def answer_lines(
    lines: Iterable[bytes],
    read: Callable[[bytes], Input | None],
    answer: Callable[[int, Input], None],
    as_json: bool,
) -> None:
    """Answer each line; exit with 2 if one has to be changed, with 1 if one failed otherwise.

    Parameters
    ----------
    lines
        The input; empty lines are passed over.
    read
        Reads a line; None passes it over.
    answer
        Prints the answer to what was read of a line, by the line's number.
    as_json
        Whether errors are answers too, as lines of JSON.
    """
    exit_code, is_empty = 0, True
    for number, line in enumerate(lines, 1):
        is_empty = is_empty and not line.strip()
        try:
            request = read(line) if line.strip() else None
            if request is not None:
                answer(number, request)
        except OSError:  # of the output: it is full, or nobody reads it any more
            raise
        except Exception as error:  # noqa: BLE001  (a bug of ours, too, is a line's only)
            exit_code = max(exit_code, getattr(error, "exit_code", 1))
            _report_error(error, number, as_json)
    if is_empty:
        raise OptionError("the input has no line: JSON is expected, one value in each line")
    if exit_code:
        raise typer.Exit(exit_code)


def write_json(value: dict[str, object]) -> None:
    """Print one line of JSON."""
    options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    sys.stdout.buffer.write(orjson.dumps(value, option=options))
    sys.stdout.buffer.flush()


def note_on_line(number: int, text: str) -> None:
    """Say something about a line, on stderr."""
    note(f"line {number}: {text}")


def _report_error(error: Exception, number: int, as_json: bool) -> None:
    """Report one line's error: as a line of JSON where JSON is asked for, and on stderr."""
    answer = failed(error)
    if as_json:
        given = {name: value for name, value in asdict(answer).items() if value}
        write_json({**given, "line": number})
    elif not isinstance(error, AssignorError):
        typer.echo(answer.traceback, err=True)
    note_on_line(number, answer.error)

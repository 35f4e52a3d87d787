"""Process JSON lines one by one, so that an invalid line does not affect other lines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

import orjson
import typer
from msgspec.structs import asdict

from assignor_bridge.errors import AssignorError, OptionError
from assignor_bridge.protocol.messages import make_failed
from streaming.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Input = TypeVar("Input")


def answer_lines(
    lines: Iterable[bytes],
    parse_line: Callable[[bytes], Input | None],
    answer: Callable[[int, Input], None],
    as_json: bool,
) -> None:
    """Process each line; raise Exit(2) if one is invalid, else Exit(1) if one failed.

    Parameters
    ----------
    lines
        The input; empty lines are skipped. If all are empty, OptionError is raised.
    parse_line
        Parses a line; returns None to skip it.
    answer
        Prints the answer, given the line's number and the parsed line.
    as_json
        Whether errors are also printed as lines of JSON.
    """
    exit_code, is_empty = 0, True
    for line_number, line in enumerate(lines, 1):
        is_empty = is_empty and not line.strip()
        try:
            request = parse_line(line) if line.strip() else None
            if request is not None:
                answer(line_number, request)
        except OSError:  # writing failed: the disk is full, or the reader has exited
            raise
        except Exception as error:  # noqa: BLE001  (a bug must affect only one line)
            exit_code = max(exit_code, getattr(error, "exit_code", 1))
            _report_error(error, line_number, as_json)
    if is_empty:
        raise OptionError("the input is empty: JSON is expected, one value per line")
    if exit_code:
        raise typer.Exit(exit_code)


def write_json(value: dict[str, object]) -> None:
    """Print one line of JSON."""
    options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    sys.stdout.buffer.write(orjson.dumps(value, option=options))
    sys.stdout.buffer.flush()


def note_on_line(line_number: int, text: str) -> None:
    """Print a note about a line on stderr."""
    note(f"line {line_number}: {text}")


def _report_error(error: Exception, line_number: int, as_json: bool) -> None:
    """Print an error on stderr and, with `as_json`, as JSON on stdout.

    A bug's traceback is in the JSON or, without `as_json`, before the error on stderr.
    """
    failure = make_failed(error)
    if as_json:
        fields = {name: value for name, value in asdict(failure).items() if value}
        write_json({**fields, "line": line_number})
    elif not isinstance(error, AssignorError):
        typer.echo(failure.traceback, err=True)
    note_on_line(line_number, failure.error)

"""`assignor plan`: which executor slot would read which offsets, with no Spark and no broker."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from assignor_bridge.assignors.loading import find
from assignor_bridge.errors import AssignorError, OptionError
from assignor_bridge.planner.plan import as_plan, plan_batch
from assignor_bridge.wire import answer, dump, failure, parse_request, read_batch
from checkpoints.sticky_state import encode


def plan(
    snapshots: Annotated[
        typer.FileBinaryRead,
        typer.Argument(metavar="FILE|-", help="Snapshots as JSON, one a line; - reads stdin."),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON for each snapshot.")
    ] = False,
    chain: Annotated[
        bool,
        typer.Option("--chain", help="A snapshot whose state is null takes the previous plan's."),
    ] = False,
) -> None:
    """Show which executor slot would read which offsets, and why.

    Exit code 1 when a snapshot could not be planned, 2 when one is malformed; the others are
    still answered.
    """
    sys.path.insert(0, str(Path.cwd()))  # for `package.module:Class` beside the user's work
    state: str | None = None
    worst = 0
    for number, line in enumerate(snapshots, 1):
        if not line.strip():
            continue
        try:
            batch, given = read_batch(parse_request(line))
        except OptionError as error:
            worst = 2
            _complain(error, number, as_json)
            continue
        try:
            outcome = plan_batch(batch, given if given or not chain else state, find)
        except Exception as error:  # noqa: BLE001  (a user's assignor may raise anything)
            worst = max(worst, 1)
            _complain(error, number, as_json)
            continue
        state = encode(outcome.state)
        if as_json:
            sys.stdout.buffer.write(dump(answer(outcome)))
            sys.stdout.buffer.flush()
        else:
            typer.echo(as_plan(outcome).describe())
    if worst:
        raise typer.Exit(worst)


def _complain(error: Exception, number: int, as_json: bool) -> None:
    """Report one line's error: as a line of JSON where JSON is asked for, and on stderr."""
    said = failure(error)
    if as_json:
        sys.stdout.buffer.write(dump({**said, "line": number}))
        sys.stdout.buffer.flush()
    elif not isinstance(error, AssignorError):
        typer.echo(said.get("traceback", ""), err=True)
    typer.echo(f"assignor: line {number}: {said['error']}", err=True)

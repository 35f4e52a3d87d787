"""`assignor plan`: which executor slot would read which offsets, with no Spark and no broker."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from assignor_bridge.assignors.loading import Finder
from assignor_bridge.columns import is_int, kind
from assignor_bridge.errors import OptionError
from assignor_bridge.json_values import parse
from assignor_bridge.planner.batch import Batch
from assignor_bridge.planner.explain import describe
from assignor_bridge.planner.plan import Outcome, as_plan, plan_batch
from assignor_bridge.wire import answer, parse_request, read_batch
from checkpoints.sticky_state import encode
from streaming.cli.lines import answer_lines, note, printable, write_json


@dataclass(frozen=True)
class Asked:
    """One line of input."""

    batch: Batch
    state: str | None
    #: Of a line that `assignor.planLog` wrote: the number of the batch, and what was answered.
    number: int | None = None
    answered: dict[str, Any] | None = None


def plan(
    snapshots: Annotated[
        typer.FileBinaryRead,
        typer.Argument(
            metavar="FILE|-",
            help="Snapshots as JSON, one a line, or what `assignor.planLog` wrote; - reads stdin.",
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON for each snapshot.")
    ] = False,
    chain: Annotated[
        bool,
        typer.Option("--chain", help="A snapshot whose state is null takes the previous plan's."),
    ] = False,
    only: Annotated[
        int | None,
        typer.Option(
            "--batch", min=0, metavar="NUMBER", help="Of an `assignor.planLog`, this batch only."
        ),
    ] = None,
) -> None:
    """Show which executor slot would read which offsets, and why.

    Exit code 1 when a snapshot could not be planned, 2 when one is malformed; the others are
    still answered.
    """
    sys.path.insert(0, str(Path.cwd()))  # for `package.module:Class` beside the user's work
    find = Finder()
    state: str | None = None
    seen: set[int] = set()

    def read(_line: int, text: bytes) -> Asked | None:
        if only is None:
            return _read(text)
        try:
            number = parse_request(text).get("batchId")
        except OptionError:  # cut off by a crash, perhaps; it matters if the batch is not there
            return None
        if isinstance(number, int):
            seen.add(number)
        return _read(text) if number == only else None

    def show(line: int, asked: Asked) -> None:
        nonlocal state
        outcome = plan_batch(asked.batch, asked.state if asked.state or not chain else state, find)
        state = encode(outcome.state)
        if as_json:
            label = {} if asked.number is None else {"batchId": asked.number}
            write_json({**label, **answer(outcome)})
        else:
            if asked.number is not None:
                typer.echo(f"batch {asked.number}")
            for each in describe(as_plan(outcome)).splitlines():
                typer.echo(printable(each))
        difference = _difference(asked, outcome)
        if difference:
            note(line, difference)

    answer_lines(snapshots, read, show, as_json)
    if only is not None and only not in seen:
        there = f"there are {min(seen)} to {max(seen)}" if seen else "no line names its batch"
        raise OptionError(f"--batch {only} is not in {snapshots.name}: {there}")


def _read(text: bytes) -> Asked:
    request = parse_request(text)
    parse(text, "the request")  # slower, and knows of keys that are there twice
    if "snapshot" not in request:
        return Asked(*read_batch(request))
    snapshot, number, answered = (request.get(key) for key in ("snapshot", "batchId", "plan"))
    if not isinstance(snapshot, dict):
        raise OptionError(f"snapshot is a JSON {kind(snapshot)}: an object is expected")
    if number is not None and not is_int(number):
        raise OptionError(f"batchId is {number!r}: a whole number is expected")
    return Asked(*read_batch(snapshot), number, answered if isinstance(answered, dict) else None)


def _difference(asked: Asked, outcome: Outcome) -> str | None:
    """Say when the query itself had another answer: another version, or an assignor with moods."""
    then = asked.answered
    if then is None:
        return None
    if "error" in then:
        return f"batch {asked.number} was not planned then: {then['error']}"
    if then.get("tasks") != orjson.loads(orjson.dumps(answer(outcome)["tasks"])):
        reasons = "; ".join(map(str, then.get("reasons") or ("no reasons are recorded",)))
        return f"batch {asked.number} was planned otherwise then: {reasons}"
    return None

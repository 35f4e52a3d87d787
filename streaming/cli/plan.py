"""`assignor plan`: which executor slot would read which offsets, with no Spark and no broker."""

from dataclasses import dataclass
from typing import Annotated, Any

import orjson
import typer

from assignor_bridge.columns import is_int, kind
from assignor_bridge.errors import OptionError
from assignor_bridge.json_values import parse
from assignor_bridge.planner.batch import Batch
from assignor_bridge.planner.plan import Outcome, as_plan, plan_batch
from assignor_bridge.wire import answer, parse_request, read_batch
from checkpoints.sticky_state import encode
from streaming.cli import assignors
from streaming.cli.arguments import AsJson
from streaming.cli.lines import answer_lines, note_on, write_json
from streaming.cli.output import print_lines


@dataclass(frozen=True)
class PlanRequest:
    """One line of input."""

    batch: Batch
    state: str | None
    #: Of a line that `assignor.planLog` wrote: the number of the batch, and what was answered.
    number: int | None = None
    logged: dict[str, Any] | None = None


def plan(
    snapshots: Annotated[
        typer.FileBinaryRead,
        typer.Argument(
            metavar="FILE|-",
            help="Snapshots as JSON, one a line, or what `assignor.planLog` wrote; - reads stdin.",
        ),
    ],
    as_json: AsJson = False,
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
    find = assignors.finder()
    state: str | None = None
    numbers: set[int] = set()

    def read(line: bytes) -> PlanRequest | None:
        if only is None:
            return _read(line)
        try:
            number = parse_request(line).get("batchId")
        except OptionError:  # cut off by a crash, perhaps; it matters if the batch is not there
            return None
        if isinstance(number, int):
            numbers.add(number)
        return _read(line) if number == only else None

    def show(line: int, request: PlanRequest) -> None:
        nonlocal state
        before = state if chain and not request.state else request.state
        outcome = plan_batch(request.batch, before, find)
        state = encode(outcome.state)
        if as_json:
            label = {} if request.number is None else {"batchId": request.number}
            write_json({**label, **answer(outcome)})
        else:
            title = [] if request.number is None else [f"batch {request.number}"]
            print_lines([*title, *as_plan(outcome).describe().splitlines()])
        difference = _difference(request, outcome)
        if difference:
            note_on(line, difference)

    answer_lines(snapshots, read, show, as_json)
    if only is not None and only not in numbers:
        span = f"there are {min(numbers, default=0)} to {max(numbers, default=0)}"
        has = span if numbers else "no line names its batch"
        raise OptionError(f"--batch {only} is not in {snapshots.name}: {has}")


def _read(line: bytes) -> PlanRequest:
    request = parse_request(line)
    parse(line, "the request")  # slower, and knows of keys that are there twice
    if "snapshot" not in request:
        return PlanRequest(*read_batch(request))
    snapshot, number, logged = (request.get(key) for key in ("snapshot", "batchId", "plan"))
    if not isinstance(snapshot, dict):
        raise OptionError(f"snapshot is a JSON {kind(snapshot)}: an object is expected")
    if number is not None and not is_int(number):
        raise OptionError(f"batchId is {number!r}: a whole number is expected")
    return PlanRequest(*read_batch(snapshot), number, logged if isinstance(logged, dict) else None)


def _difference(request: PlanRequest, outcome: Outcome) -> str | None:
    """Say when the query itself had another answer: another version, or an assignor with moods."""
    then = request.logged
    if then is None:
        return None
    if "error" in then:
        return f"batch {request.number} was not planned then: {then['error']}"
    if then.get("tasks") != orjson.loads(orjson.dumps(answer(outcome)["tasks"])):
        reasons = "; ".join(map(str, then.get("reasons") or ("no reasons are recorded",)))
        return f"batch {request.number} was planned otherwise then: {reasons}"
    return None

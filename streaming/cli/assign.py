"""`assignor lab assign`: run any assignor on a consumer group, without Spark or a broker."""

import json
from collections.abc import Mapping
from typing import Annotated

import typer

from assignor_bridge.errors import pluralize
from streaming.cli import assignors
from streaming.cli.arguments import AsJson
from streaming.cli.lines import answer_lines, note_on_line
from streaming.cli.output import print_lines, print_table
from streaming.human_json.group_json import Answer, Request, answer, answer_steps, parse_request


def assign(
    groups: Annotated[
        typer.FileBinaryRead,
        typer.Argument(metavar="FILE|-", help="Groups as JSON, one per line; - reads stdin."),
    ],
    as_json: AsJson = False,
    chain: Annotated[
        bool,
        typer.Option(
            "--chain",
            help="Apply each group's `steps`: print the first assignment, then one per step.",
        ),
    ] = False,
    assignor_names: assignors.CustomAssignors = None,
) -> None:
    """Show which member of a consumer group gets which partitions.

    The exit code is 2 if a group is invalid, for example because its assignor is unknown, and 1 if
    assigning it failed for another reason. The other groups are still assigned.

    Example: `assignor lab assign groups.jsonl --json`
    """
    find = assignors.make_finder(assignor_names or (), "--assignors")

    def show(line_number: int, request: Request) -> None:
        answers = answer_steps(request, find) if chain else [answer(request, find)]
        if as_json:
            json_answers = [result.to_json() for result in answers]
            chain_answer = {"assignor": request.assignor, "steps": json_answers}
            typer.echo(json.dumps(chain_answer if chain else json_answers[0]))
        else:
            for step_number, result in enumerate(answers):
                _print_answer(result, step_number)
        if request.steps and not chain:
            note_on_line(line_number, "the group's steps were not applied: add --chain")

    answer_lines(groups, parse_request, show, as_json)


def _print_answer(result: Answer, step_number: int) -> None:
    lags, assignment = result.group.lag_list(), result.assignment
    columns = {
        "member": list(assignment),
        "partitions": [_format_partitions(partitions) for partitions in assignment.values()],
        "count": [f"{partitions.count:,}" for partitions in assignment.values()],
    }
    if any(lags):
        ids_per_member = [tps.ids_in(result.group.catalog).tolist() for tps in assignment.values()]
        columns["lag"] = [f"{sum(lags[i] for i in ids):,.0f}" for ids in ids_per_member]
    if standbys := assignment.standbys:
        columns["standby"] = [_format_partitions(standbys.get(m, {})) for m in assignment]
    title = result.assignor.name
    if result.step is not None:
        title += f", step {step_number}: {json.dumps(result.step)}"
    rows = zip(*columns.values(), strict=True)
    print_table(list(columns), list(rows), title=title, text_columns=("partitions", "standby"))
    lines = [f"{pluralize(result.moved_partitions, 'partition')} moved"]
    if assignment.transferring.count:
        partitions = _format_partitions(assignment.transferring)
        lines.append(f"withheld until their current owners release them: {partitions}")
    print_lines([*lines, *result.notes])


def _format_partitions(numbers_by_topic: Mapping[str, tuple[int, ...]]) -> str:
    """Format partitions as `topic: 0-3, 7; other: 1`."""
    return "; ".join(f"{topic}: {_format_numbers(ns)}" for topic, ns in numbers_by_topic.items())


def _format_numbers(numbers: tuple[int, ...]) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)

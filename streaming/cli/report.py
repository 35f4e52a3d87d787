"""`assignor report`: one page about one query, from its checkpoint, Spark's UI and its log."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from streaming.cli.arguments import Query, check_not_empty, check_writable, write
from streaming.report.query_facts import gather
from streaming.report.query_report import report_page


def report(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="CHECKPOINT|URL|LOG...",
            help="A query's checkpoint, the address of Spark's UI or history server (http://…), "
            "or a file of metrics.log_file; several of the same query tell more.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", dir_okay=False, metavar="FILE", help="The page.")
    ] = Path("report.html"),
    query: Query = None,
    batches: Annotated[
        int | None,
        typer.Option(
            min=1, help="Only the last so many batches; by default 20 of a UI, all of the others."
        ),
    ] = None,
) -> None:
    """Write a page about a query: lag, load of the slots, moves, costs, before and after.

    One HTML file that opens offline. A checkpoint tells what was read and what Spark's mapping and
    ours would make of it, Spark's UI which slot worked when, the log of metrics the lag and what
    moved. What is not known from what is given is said on the page. Nothing is changed.
    """
    for place in places:
        check_not_empty("CHECKPOINT|URL|LOG", place)
    check_writable("--output", output)
    with Console(stderr=True).status("reading"):
        facts = gather(places, query, batches)
        text = report_page(facts)
    write("--output", output, text)
    typer.echo(f"{output}: {facts.title}")

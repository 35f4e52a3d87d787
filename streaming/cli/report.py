"""`assignor report`: one page about one query, from its checkpoint, Spark's UI and its log."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from streaming.cli import zones
from streaming.cli.arguments import Query, check_not_empty, check_writable, write
from streaming.cli.output import note, print_lines
from streaming.replay.traffic import PRICE_PER_GB
from streaming.report.query_facts import gather
from streaming.report.query_report import report_page
from streaming.report.query_summary import first_lines


def report(  # noqa: PLR0917
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="CHECKPOINT|URL|LOG...",
            help="A query's checkpoint, the address of Spark's UI or history server (http://…), "
            "a file of metrics.log_file, or of assignor.planLog beside the checkpoint; several of "
            "the same query show more.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", dir_okay=False, metavar="FILE", help="The page.")
    ] = Path("report.html"),
    query: Query = None,
    batches: Annotated[
        int | None,
        typer.Option(
            min=1, help="Only the last N batches; by default 20 from a UI, all from the others."
        ),
    ] = None,
    racks_file: zones.RacksFile = None,
    price_per_gb: zones.PricePerGb = None,
) -> None:
    """Write a page about a query: what holds it up, lag, load of the slots, moves, costs.

    One HTML file that opens offline. Its first lines name what holds the query up (also printed)
    and what would help. A checkpoint has what was read, and how Spark's mapping and ours
    would read it; Spark's UI has which slot worked when; the log of metrics has lag and moves; the
    plan log what each executor reported. The page says what is unknown, and which input has it.
    Nothing is changed.
    """
    for place in places:
        check_not_empty("CHECKPOINT|URL|LOG", place)
    check_writable("--output", output)
    racks = zones.racks_of(racks_file)
    with Console(stderr=True).status("reading"):
        price = PRICE_PER_GB if price_per_gb is None else price_per_gb
        facts = gather(places, query, batches, racks, price)
        text = report_page(facts)
    for warning in facts.log.checkpoint.warnings if facts.log else ():
        note(warning)
    write("--output", output, text)
    print_lines([f"{output}: {facts.title}", *first_lines(facts)])

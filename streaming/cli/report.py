"""`assignor report`: one query as a page, live in the terminal, or one batch of it explained."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from assignor_bridge.errors import OptionError
from streaming.cli import explain, top, zones
from streaming.cli.arguments import (
    OUTPUT,
    AsJson,
    Query,
    check_not_empty,
    check_writable,
    reject_options,
    write_file,
)
from streaming.cli.output import note, print_lines
from streaming.replay.traffic import PRICE_PER_GB
from streaming.report.query_facts import sort_places
from streaming.report.query_report import make_report

_DEFAULT_PAGE = Path("report.html")


def report(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="CHECKPOINT|URL|LOG...",
            help="A query's checkpoint, the address of Spark's UI or history server (http://…), "
            "a file of metrics.log_file, or with the checkpoint one of assignor.planLog; several "
            "of the same query show more.",
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option(*OUTPUT, dir_okay=False, metavar="FILE", help=f"Page, by default {_DEFAULT_PAGE}."),
    ] = None,
    query: Query = None,
    batches: Annotated[
        int | None,
        typer.Option(
            min=1, help="Only the last N batches; by default 20 from a UI, all from the others."
        ),
    ] = None,
    price_per_gb: zones.PricePerGb = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Watch the query in the terminal: give Spark's UI (http://driver:4040), the "
            "endpoint of metrics.port (http://driver:9404), or both. q or Ctrl-C ends it.",
        ),
    ] = False,
    interval: top.Interval = None,
    once: top.Once = False,
    batch: explain.BatchNumber = None,
    partition: explain.NamedPartition = None,
    source: explain.SourceNumber = None,
    assignors: explain.Assignors = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Report on a query: what holds it up, lag, load of the slots, moves, costs.

    Writes one HTML page that opens offline, and prints its first screen: what is wrong, what to do,
    and what the option gained. With --live it watches the query in the terminal. With --batch or
    --partition it explains one batch: who had read each partition, which slots read it, and why.
    It only reads; your query is not touched.

    Example: `assignor report data/checkpoints/orders http://driver:4040 -o orders.html`
    """
    for place in places:
        check_not_empty("CHECKPOINT|URL|LOG", place)
    of_page = {"--output": output, "--batches": batches, "--price-per-gb": price_per_gb}
    of_live = {"--interval": interval, "--once": once}
    of_batch = {"--batch": batch, "--partition": partition}
    of_batch_only = {"--source": source, "--assignors": assignors, "--json": as_json}
    if live:
        reject_options("with --live", {**of_page, **of_batch, **of_batch_only})
        top.watch_live(places, query, interval, once=once)
        return
    reject_options("without --live", of_live)
    if batch is not None or partition is not None:
        reject_options("with --batch or --partition", {**of_page, "--query": query})
        checkpoint, plan_log = _select_batch_files(places)
        explain.print_batch(
            checkpoint, batch, partition, source=source, plan_log=plan_log, assignors=assignors,
            as_json=as_json,
        )  # fmt: skip
        return
    reject_options("without --batch or --partition", of_batch_only)
    path = output or _DEFAULT_PAGE
    check_writable("--output", path)
    with Console(stderr=True).status("reading"):
        price = PRICE_PER_GB if price_per_gb is None else price_per_gb
        found = make_report(*places, query=query, batches=batches, price_per_gb=price)
    for warning in found.warnings:
        note(warning)
    write_file("--output", path, found.html)
    print_lines([f"{path}: {found.lines[0]}", *found.lines[1:]])


def _select_batch_files(places: list[str]) -> tuple[str, Path | None]:
    """Return the checkpoint and the plan log, from which one batch is explained."""
    kinds = sort_places(places)
    checkpoint, plan_log = kinds.pop("checkpoint", None), kinds.pop("plan log", None)
    for kind, place in kinds.items():
        raise OptionError(f"{place!r} is a {kind}: --batch needs a checkpoint, or a plan log too")
    if checkpoint is None:
        raise OptionError("--batch and --partition need the query's checkpoint")
    return checkpoint, Path(plan_log) if plan_log else None

"""`assignor report`: show a query as a page or live in the terminal, or explain one batch."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from assignor_bridge.errors import OptionError
from streaming.cli import explain, top, zone_options
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
from streaming.report.query_facts import classify_inputs
from streaming.report.query_report import make_report

_DEFAULT_PATH = Path("report.html")


def report(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="CHECKPOINT|URL|LOG...",
            help="A query's checkpoint, the address of Spark's UI or history server (http://…), a "
            "metrics log (metrics.log_file) or, with the checkpoint, a plan log "
            "(assignor.planLog). Several inputs of the same query give a fuller report.",
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            *OUTPUT, dir_okay=False, metavar="FILE", help=f"HTML file; default: {_DEFAULT_PATH}."
        ),
    ] = None,
    query: Query = None,
    batches: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Only the last N batches; default: 20 from a UI, else all."
        ),
    ] = None,
    price_per_gb: zone_options.PricePerGb = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Watch the query in the terminal: give Spark's UI (http://driver:4040), the "
            "endpoint of metrics.port (http://driver:9404), or both. Press q or Ctrl-C to quit.",
        ),
    ] = False,
    interval: top.Interval = None,
    once: top.Once = False,
    batch: explain.BatchNumber = None,
    partition: explain.NamedPartition = None,
    source: explain.SourceNumber = None,
    assignors: explain.Assignors = None,
    as_json: AsJson = False,
) -> None:
    """Report on a query: bottlenecks, lag, slot load, partition moves and costs.

    Writes an HTML page that opens offline and prints its summary: problems, what to do, and what
    the assignor gained. With --live, it watches the query in the terminal. With --batch or
    --partition, it explains one batch: which slot read each partition before, which slots read
    it now, and why. It only reads files and UIs; your query is not touched.

    Example: `assignor report data/checkpoints/orders http://driver:4040 -o orders.html`
    """
    for location in inputs:
        check_not_empty("CHECKPOINT|URL|LOG", location)
    page_options = {"--output": output, "--batches": batches, "--price-per-gb": price_per_gb}
    live_options = {"--interval": interval, "--once": once}
    batch_options = {"--batch": batch, "--partition": partition}
    batch_only_options = {"--source": source, "--assignors": assignors, "--json": as_json}
    if live:
        reject_options("with --live", {**page_options, **batch_options, **batch_only_options})
        top.watch_live(inputs, query, interval, once=once)
        return
    reject_options("without --live", live_options)
    if batch is not None or partition is not None:
        reject_options("with --batch or --partition", {**page_options, "--query": query})
        checkpoint, plan_log = _select_batch_files(inputs)
        explain.print_batch(
            checkpoint, batch, partition, source, plan_log, assignors=assignors, as_json=as_json
        )
        return
    reject_options("without --batch or --partition", batch_only_options)
    path = output or _DEFAULT_PATH
    check_writable("--output", path)
    with Console(stderr=True).status("reading the query"):
        price = PRICE_PER_GB if price_per_gb is None else price_per_gb
        page = make_report(*inputs, query=query, batches=batches, price_per_gb=price)
    for warning in page.warnings:
        note(warning)
    write_file("--output", path, page.html)
    print_lines([f"{path}: {page.lines[0]}", *page.lines[1:]])


def _select_batch_files(inputs: list[str]) -> tuple[str, Path | None]:
    """Return the checkpoint and plan log (or None); raise OptionError for any other `inputs`."""
    input_by_kind = classify_inputs(inputs)
    checkpoint, plan_log = (input_by_kind.pop(k, None) for k in ("checkpoint", "plan log"))
    for kind, location in input_by_kind.items():
        raise OptionError(f"{location!r} ({kind}) is not used with --batch or --partition: omit it")
    if checkpoint is None:
        raise OptionError("--batch and --partition need the query's checkpoint")
    return checkpoint, Path(plan_log) if plan_log else None

"""`assignor demo`: run a job on real flight data, with and without an assignor."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from streaming.cli.arguments import BOOTSTRAP_SERVER, OUTPUT
from streaming.cli.output import print_checks, print_lines, print_table
from streaming.cli.stopping import unwind_on_sigterm
from streaming.demo import flights
from streaming.demo.compare import build_figure_rows
from streaming.demo.demo_run import DemoOptions, run_demo
from streaming.demo.verdict import write_headline
from streaming.kafka.servers import parse_servers

_WORK_HELP = "Wait per record in the first act, to simulate a service call; 0 skips the act."


def demo(
    *,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Executors, each with two slots and 1 GB of memory.")
    ] = 2,
    output: Annotated[
        Path,
        typer.Option(*OUTPUT, dir_okay=False, metavar="FILE", help="HTML report to write."),
    ] = Path("assignor-demo.html"),
    rows: Annotated[
        int, typer.Option(min=1, max=flights.FLIGHT_COUNT, help="Flights to read in each act.")
    ] = 16_000,
    batches: Annotated[
        int, typer.Option(min=2, max=100, help="Micro-batches per mode in each act.")
    ] = 4,
    work_us: Annotated[
        int,
        typer.Option(min=0, max=1_000_000, metavar="MICROSECONDS", help=_WORK_HELP),
    ] = 2_000,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            *BOOTSTRAP_SERVER, metavar="HOST:PORT", help="Kafka brokers; default: an embedded one."
        ),
    ] = None,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master; default: local executors.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder for the tables; all executors must share it.", file_okay=False),
    ] = None,
) -> None:
    """Run one job on real flight data, alternately with and without an assignor.

    Starts a broker and Spark on this machine, unless you give them. Both modes get the same
    batches. Checks that Delta holds each flight exactly once, prints the time of each mode, and
    writes a report that opens offline. In the first act, each record waits, to simulate a service
    call; in the second act, no record waits. The exit code is 1 if a check fails.

    Example: `assignor demo --workers 2 -o demo.html`
    """
    if bootstrap_servers is not None:
        parse_servers("--bootstrap-server", bootstrap_servers)
    options = DemoOptions(workers, rows, batches, work_us, bootstrap_servers, master, data)
    with unwind_on_sigterm():
        outcome = run_demo(options, output, Console(stderr=True))
    for number, act in enumerate(outcome.acts, start=1):
        figure_rows = [[name, *values] for name, values in build_figure_rows(act.runs)]
        head = ["", *(run.name for run in act.runs)]
        print_table(head, figure_rows, title=f"Act {number}: {act.title}")
    print_checks(outcome.checks)
    headline = write_headline(outcome.acts, outcome.checks)
    next_step = "to write a job for your own topic, see: assignor init --help"
    print_lines([headline, f"report: {output}", next_step])
    if not outcome.succeeded:
        raise typer.Exit(1)

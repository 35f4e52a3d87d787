"""`assignor lab broker`: run a real Kafka broker until Ctrl-C, for experiments."""

import contextlib
import time
from pathlib import Path
from typing import Annotated

import typer

from streaming.cli.output import show_fetch_progress
from streaming.cli.stopping import StopSignals
from streaming.kafka.embedded import EmbeddedBroker


def broker(
    data: Annotated[
        Path | None,
        typer.Option(help="Data folder; default: a temporary one.", file_okay=False),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the broker; default: a free one.")
    ] = None,
) -> None:
    """Run a real Kafka broker on this machine until Ctrl-C.

    Prints the broker's address to stdout when it is ready. The first start downloads Kafka (43 MB).

    Example: `assignor lab broker --port 9092`
    """
    with StopSignals(), contextlib.ExitStack() as cleanup:
        server = start_broker(cleanup, data, port)
        typer.echo(server.bootstrap_servers)
        while True:
            time.sleep(0.5)
            server.check_alive()


def start_broker(
    cleanup: contextlib.ExitStack, data: Path | None, port: int | None = None
) -> EmbeddedBroker:
    """Start a broker, and register its `close` with `cleanup`."""
    with show_fetch_progress("Kafka broker") as on_line:
        server = EmbeddedBroker(data=data, port=port, on_line=on_line)
        cleanup.callback(server.close)
        server.start()
    return server

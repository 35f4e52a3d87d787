"""`assignor broker`: a real Kafka broker until Ctrl-C, for trying things out."""

import contextlib
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from streaming.cli.spinner import fetching
from streaming.kafka.embedded import EmbeddedBroker


class _StopAskedError(BaseException):
    """Ctrl-C or SIGTERM: the normal end of a server, hence exit code 0."""


def broker(
    data: Annotated[
        Path | None,
        typer.Option(help="Folder for the data, kept. By default temporary.", file_okay=False),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port to listen on; by default a free one.")
    ] = None,
) -> None:
    """Run a real Kafka broker on this machine until Ctrl-C.

    Its address is printed on stdout when it is ready. Kafka is fetched once (43 MB).
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ask_to_stop)
    with contextlib.suppress(_StopAskedError), contextlib.ExitStack() as cleanup:
        with fetching("Kafka broker") as on_line:
            server = EmbeddedBroker(data=data, port=port, on_line=on_line)
            cleanup.callback(server.close)
            server.start()
        typer.echo(server.bootstrap_servers)
        while True:
            time.sleep(0.5)
            server.check_alive()


def _ask_to_stop(_number: int, _frame: FrameType | None) -> None:
    raise _StopAskedError

"""`assignor top`: a query live in the terminal, from Spark's UI and the endpoint of metrics."""

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from assignor_bridge.errors import AssignorError
from streaming.cli.arguments import Query
from streaming.cli.stopping import StopSignals
from streaming.top.screen import Snapshot, Watch, frame

_QUIT = b"qQ\x04"
#: How long a signal may go unnoticed while the program waits.
_LOOK_S = 0.2
#: Lines of a frame that goes elsewhere than to a terminal.
_LINES = 40


def top(
    urls: Annotated[
        list[str],
        typer.Argument(
            metavar="URL...",
            help="Spark's UI (http://driver:4040), the endpoint of metrics.port "
            "(http://driver:9404), or both: each has what the other lacks.",
        ),
    ],
    query: Query = None,
    interval: Annotated[
        float, typer.Option(min=0.2, max=3600, metavar="SECONDS", help="Time between two frames.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and exit.")] = False,
) -> None:
    """Watch a query live: lag, worst first; load of the slots; last batches; the planner.

    Press q or Ctrl-C to end.
    """
    watch = Watch(urls, query)
    snapshot = watch.look()
    console = Console(highlight=False)
    if once or not console.is_terminal:
        console.print(frame(snapshot, console.height if console.is_terminal else _LINES))
        return
    _live(watch, snapshot, console, interval)


def _live(watch: Watch, snapshot: Snapshot, console: Console, interval_s: float) -> None:
    note = ""
    with (
        _keys(),
        StopSignals(unwinds=True) as signals,
        Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        signals.notes_only()  # raised wherever the program is, it is lost in a destructor
        while True:
            live.update(frame(snapshot, console.height, note), refresh=True)
            if _is_quit_pressed(interval_s, signals):
                return
            if signals.number is not None:
                raise typer.Exit(128 + signals.number)
            try:
                snapshot, note = watch.look(), ""
            except AssignorError as error:  # the driver is busy, or gone: the last frame stays
                note = f"{time.strftime('%H:%M:%S')}: {error}"


@contextlib.contextmanager
def _keys() -> Iterator[None]:
    """Have keys come one by one, where stdin is a terminal."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _is_quit_pressed(limit_s: float, signals: StopSignals) -> bool:
    """Wait this long, or until a key or a signal comes: Python goes on waiting after a signal."""
    deadline = time.monotonic() + limit_s
    keys = [sys.stdin] if sys.stdin.isatty() else []
    while signals.number is None and (rest := deadline - time.monotonic()) > 0:
        if select.select(keys, [], [], min(rest, _LOOK_S))[0]:
            return bool(set(os.read(sys.stdin.fileno(), 64)) & set(_QUIT))
    return False

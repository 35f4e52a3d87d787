"""`assignor report --live`: watch a query through Spark's UI and the metrics endpoint."""

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from assignor_bridge.errors import AssignorError
from streaming.cli.stopping import StopSignals
from streaming.report.screen import LiveFigures, Watch, draw_frame

_QUIT_KEYS = b"qQ\x04"
#: Polling interval for signals, because Python resumes a wait after a signal.
_SIGNAL_POLL_S = 0.2
_DEFAULT_HEIGHT_LINES = 40
_DEFAULT_INTERVAL_S = 2.0
_INTERVAL_HELP = f"Seconds between two frames of --live; default: {_DEFAULT_INTERVAL_S:g}."

Interval = Annotated[
    float | None, typer.Option(min=0.2, max=3600, metavar="SECONDS", help=_INTERVAL_HELP)
]
Once = Annotated[bool, typer.Option("--once", help="Print one frame of --live and exit.")]


def watch_live(
    urls: Sequence[str], query: str | None, interval_s: float | None, *, once: bool
) -> None:
    """Draw frames until a quit key or signal; only one with `once` or if stdout is no terminal."""
    watch = Watch(urls, query)
    figures = watch.fetch_figures()
    console = Console(highlight=False)
    if once or not console.is_terminal:
        height = console.height if console.is_terminal else _DEFAULT_HEIGHT_LINES
        console.print(draw_frame(figures, height))
        return
    _draw_frames(watch, figures, console, interval_s or _DEFAULT_INTERVAL_S)


def _draw_frames(watch: Watch, figures: LiveFigures, console: Console, interval_s: float) -> None:
    note = ""
    with (
        _disable_line_buffering(),
        StopSignals(unwinds=True) as signals,
        Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        signals.defer_signals()  # an exception inside a destructor would be lost
        while True:
            live.update(draw_frame(figures, console.height, note), refresh=True)
            if _wait_for_key(interval_s, signals):
                return
            if signals.number is not None:
                raise typer.Exit(128 + signals.number)
            try:
                figures, note = watch.fetch_figures(), ""
            except AssignorError as error:  # the driver is busy or gone: keep the last frame
                note = f"{time.strftime('%H:%M:%S')}: {error}"


@contextlib.contextmanager
def _disable_line_buffering() -> Iterator[None]:
    """Make each key readable at once, without Enter, if stdin is a terminal."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    previous_settings = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, previous_settings)


def _wait_for_key(limit_s: float, signals: StopSignals) -> bool:
    """Wait for any key, a signal or the time limit; return whether a quit key was pressed."""
    deadline_s = time.monotonic() + limit_s
    inputs = [sys.stdin] if sys.stdin.isatty() else []
    while signals.number is None and (remaining_s := deadline_s - time.monotonic()) > 0:
        if select.select(inputs, [], [], min(remaining_s, _SIGNAL_POLL_S))[0]:
            return bool(set(os.read(sys.stdin.fileno(), 64)) & set(_QUIT_KEYS))
    return False

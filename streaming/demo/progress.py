"""Show the demo's progress: bars in a terminal, otherwise a line per step and every 10 seconds."""

from __future__ import annotations

import time
from threading import Event, Thread
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed

if TYPE_CHECKING:
    from rich.console import Console

#: Interval between lines if the output is not a terminal.
_LINE_INTERVAL_S = 10.0


class DemoProgress:
    """Show the current step and its progress."""

    def __init__(self, console: Console) -> None:
        self._console = console
        description, count = TextColumn("{task.description}"), MofNCompleteColumn()
        columns = (SpinnerColumn(), description, BarColumn(), count, Elapsed())
        self._bars = Progress(*columns, console=console) if console.is_terminal else None
        self._start_s = time.monotonic()
        self._step = ""
        self._done_parts, self._total_parts = 0, 0
        self._ended = Event()
        self._printer = Thread(target=self._keep_printing, name="demo-progress", daemon=True)

    def __enter__(self) -> DemoProgress:
        if self._bars is not None:
            self._bars.start()
        else:
            self._printer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._bars is not None:
            self._bars.stop()
        else:
            self._printer.join()

    def begin(self, step: str, total: int = 1) -> None:
        """Begin a step with `total` parts."""
        self._step, self._done_parts, self._total_parts = step, 0, total
        if self._bars is not None:
            self._bars.add_task(step, total=total)
        else:
            self._print()

    def rename(self, step: str) -> None:
        """Change the description of the current step."""
        self._step = step
        if self._bars is not None:
            self._bars.update(self._bars.task_ids[-1], description=step)

    def advance(self) -> None:
        """Count one part of the current step as done."""
        self._done_parts += 1
        if self._bars is not None:
            self._bars.update(self._bars.task_ids[-1], advance=1)

    def _keep_printing(self) -> None:
        while not self._ended.wait(_LINE_INTERVAL_S):
            self._print()

    def _print(self) -> None:
        seconds = time.monotonic() - self._start_s
        part = f" {self._done_parts}/{self._total_parts}" if self._total_parts > 1 else ""
        self._console.print(f"{seconds:4.0f} s  {self._step}{part}", highlight=False)

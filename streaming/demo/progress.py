"""Show the demo's progress: bars in a terminal, otherwise a line at least every 10 seconds."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console

#: Interval between lines if the output is not a terminal.
_SILENCE_S = 10.0


class DemoProgress:
    """Show the current step and its progress."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(),
                   MofNCompleteColumn(), Elapsed())  # fmt: skip
        self._bars = Progress(*columns, console=console) if console.is_terminal else None
        self._start_s = time.monotonic()
        self._step = ""
        self._done, self._total = 0, 0
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="demo-progress", daemon=True)

    def __enter__(self) -> DemoProgress:
        if self._bars is not None:
            self._bars.start()
        else:
            self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._ended.set()
        if self._bars is not None:
            self._bars.stop()
        else:
            self._ticker.join()

    def begin(self, step: str, total: int = 1) -> None:
        """End the previous step and begin a step with `total` parts."""
        self._step, self._done, self._total = step, 0, total
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
        self._done += 1
        if self._bars is not None:
            self._bars.update(self._bars.task_ids[-1], advance=1)

    def _tick(self) -> None:
        while not self._ended.wait(_SILENCE_S):
            self._print()

    def _print(self) -> None:
        seconds = time.monotonic() - self._start_s
        part = f" {self._done}/{self._total}" if self._total > 1 else ""
        self._console.print(f"{seconds:4.0f} s  {self._step}{part}", highlight=False)

"""A child process that reads commands and writes answers, one line each."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

_END_LIMIT_S = 60.0


class LineProcess:
    """A process and its pipes; as a context manager, it is killed at the end of the block."""

    def __init__(self, command: Sequence[str], cwd: Path | None = None) -> None:
        self._command = command
        self._process = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def send(self, line: str) -> None:
        """Send a command without waiting for an answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def read(self) -> str:
        """Wait for the next line; fails if the process has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"{self._command} ended with {self._process.wait(_END_LIMIT_S)}"
        return line

    def ask(self, line: str) -> str:
        """Send a command, and return its answer."""
        self.send(line)
        return self.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._process.kill()
        self._process.communicate()

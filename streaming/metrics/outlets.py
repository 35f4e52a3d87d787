"""Where figures go: a file for node exporter, a log; both opened before a query starts."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest

from assignor_bridge.errors import OptionError
from streaming.observe.progress_log import dump

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import IO

    from streaming.metrics.board import Board


class Textfile:
    """A file that is replaced as a whole after each batch."""

    def __init__(self, board: Board, path: Path, mode: int) -> None:
        _has_folder("metrics.textfile", path)
        self._registry = CollectorRegistry()
        self._registry.register(board)
        self._path = path
        self._mode = mode

    def write(self) -> None:
        """Write what is known now; readers see the old file or the new one."""
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            with _made(new, self._mode) as file:
                file.write(generate_latest(self._registry))
            new.replace(self._path)
        finally:
            new.unlink(missing_ok=True)


class Log:
    """Lines of JSON, on stderr or in a file."""

    def __init__(self, path: Path | None, mode: int) -> None:
        self._file: IO[bytes] | None = None
        if path is not None:
            _has_folder("metrics.log_file", path)
            try:
                self._file = _made(path, mode)
            except OSError as error:
                raise OptionError(
                    f"metrics.log_file {path} cannot be written ({error.strerror})"
                ) from error

    def write(self, line: Mapping[str, Any], progress: Mapping[str, Any] | None = None) -> None:
        """Write a line at once; a file gets the whole progress with it, stderr does not."""
        if self._file is not None:
            self._file.write(dump(line, progress))
            self._file.flush()
        else:
            sys.stderr.write(dump(line).decode())
            sys.stderr.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _has_folder(option: str, path: Path) -> None:
    if not path.absolute().parent.is_dir():
        raise OptionError(f"{option} {path}: its folder does not exist; create it first")


def _made(path: Path, mode: int) -> IO[bytes]:
    """Open a file to append to; one that is made here gets the mode, whatever the umask."""
    try:
        file = path.open("xb")
    except FileExistsError:
        return path.open("ab")
    os.fchmod(file.fileno(), mode)
    return file

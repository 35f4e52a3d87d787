"""Where figures go: an endpoint, a file for node exporter, a log; opened before a query starts."""

from __future__ import annotations

import errno
import sys
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile

from assignor_bridge.errors import AssignorError, OptionError
from streaming.metrics.log import dump

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from threading import Thread
    from typing import IO
    from wsgiref.simple_server import WSGIServer

    from streaming.metrics.board import Board


class MetricsError(AssignorError):
    """Metrics cannot be served."""


class Endpoint:
    """An HTTP endpoint for Prometheus, `http://address:port/metrics`."""

    def __init__(self, board: Board, port: int, address: str) -> None:
        registry = CollectorRegistry()
        registry.register(board)
        self._server: WSGIServer
        self._thread: Thread
        try:
            self._server, self._thread = start_http_server(port, address, registry)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise MetricsError(
                    f"metrics port {port} on {address} is in use by another process: set "
                    "metrics.port to a free one (0 takes any)"
                ) from error
            raise MetricsError(
                f"metrics cannot be served on {address}:{port} ({error.strerror or error}): set "
                "metrics.address and metrics.port"
            ) from error
        self.port = self._server.server_port

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Textfile:
    """A file that is replaced as a whole after each batch."""

    def __init__(self, board: Board, path: Path) -> None:
        _has_folder("metrics.textfile", path)
        self._registry = CollectorRegistry()
        self._registry.register(board)
        self._path = path

    def write(self) -> None:
        """Write what is known now; readers see the old file or the new one."""
        write_to_textfile(str(self._path), self._registry)


class Log:
    """Lines of JSON, on stderr or in a file."""

    def __init__(self, path: Path | None) -> None:
        self._file: IO[bytes] | None = None
        if path is not None:
            _has_folder("metrics.log_file", path)
            try:
                self._file = path.open("ab")
            except OSError as error:
                raise OptionError(
                    f"metrics.log_file {path} cannot be written ({error.strerror})"
                ) from error

    def write(self, line: Mapping[str, Any], progress: str | None = None) -> None:
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

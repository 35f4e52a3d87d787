"""Where figures go: an endpoint for Prometheus, a file for node exporter, a log.

All are opened before a query starts. The endpoint answers `/metrics` and nothing else, and no
client can hold it up.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import socket
import socketserver
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, MetricsHandler, generate_latest

from assignor_bridge.errors import AssignorError
from streaming.observe.progress_log import dump

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import IO

    from streaming.metrics.board import Board
    from streaming.metrics.config import MetricsConfig

_PATH = "/metrics"
#: A client has so long for its question, and then for taking the answer.
_ASK_LIMIT_S = 5.0
_ANSWER_LIMIT_S = 30.0
_LONGEST_QUESTION = 16 * 1024
_CHUNK = 4096
#: More at once are turned away: each has a thread.
_MOST_CLIENTS = 256
#: A file of the log that is longer becomes FILE.1, in the place of the one before.
_MOST_LOG_BYTES = 256 * 2**20
_DEVICES = (("/", "dev"), ("/", "proc"))
_MEMORY = ("/", "dev", "shm")
_MOST_LINKS = 40


class MetricsError(AssignorError):
    """Metrics cannot be served."""


class Endpoint:
    """An HTTP endpoint, `http://address:port/metrics`."""

    def __init__(self, board: Board, port: int, address: str) -> None:
        self._server = _listen(port, address, _Handler.factory(_registry(board)))
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def check_port(config: MetricsConfig | None) -> None:
    """Raise MetricsError if the endpoint of a configuration cannot listen."""
    if config is not None and config.port is not None:
        _listen(config.port, config.address, socketserver.BaseRequestHandler).server_close()


def _listen(port: int, address: str, handler: Callable[..., Any]) -> _Server:
    try:
        family, *_, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        kind = type("_Server", (_Server,), {"address_family": family})
        server: _Server = kind(where[:2], handler)
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
    return server


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = 128
    daemon_threads = True
    block_on_close = False

    def __init__(self, *arguments: Any) -> None:
        self._places = threading.BoundedSemaphore(_MOST_CLIENTS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, if there are not too many."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread was made
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet about clients that go away."""


class _Handler(MetricsHandler):
    """Answers one question a connection."""

    connection: socket.socket

    def setup(self) -> None:
        """Read the whole question within its time, however slowly it comes."""
        super().setup()
        deadline = time.monotonic() + _ASK_LIMIT_S
        question = b""
        while b"\r\n\r\n" not in question and len(question) < _LONGEST_QUESTION:
            self.connection.settimeout(max(0.001, deadline - time.monotonic()))
            chunk = self.connection.recv(_CHUNK)
            if not chunk:
                break
            question += chunk
        self.rfile = io.BufferedReader(io.BytesIO(question))
        self.connection.settimeout(_ANSWER_LIMIT_S)  # for all of it, not for each piece

    def do_GET(self) -> None:  # noqa: N802
        """Answer with the figures."""
        if urlsplit(self.path).path != _PATH:
            self.send_error(404, explain=f"the figures are at {_PATH}")
        else:
            super().do_GET()


class Textfile:
    """A file that is replaced as a whole after each batch, and now and then while there is none."""

    def __init__(self, board: Board, path: Path, mode: int) -> None:
        _check_folder("metrics.textfile", path)
        self._registry = _registry(board)
        self._path = path
        self._mode = mode

    def write(self) -> None:
        """Write the figures; readers see the old file or the new one."""
        descriptor, name = tempfile.mkstemp(prefix=f"{self._path.name}.", dir=self._path.parent)
        new = Path(name)
        try:
            with _made(descriptor, self._mode) as file:
                file.write(generate_latest(self._registry))
            new.replace(self._path)
        finally:
            new.unlink(missing_ok=True)


class Log:
    """Lines of JSON, on stderr or in a file."""

    def __init__(self, path: Path | None, mode: int) -> None:
        self._file: _LogFile | None = None
        if path is not None:
            _check_folder("metrics.log_file", path)
            try:
                self._file = _LogFile(path, mode)
            except OSError as error:
                raise MetricsError(
                    f"metrics.log_file {path} cannot be written ({error.strerror})"
                ) from error

    def write(self, line: Mapping[str, Any], progress: Mapping[str, Any] | None = None) -> None:
        """Write a line at once; a file gets the whole progress with it, stderr does not."""
        if self._file is not None:
            self._file.write(dump(line, progress))
        else:
            sys.stderr.write(dump(line).decode())
            sys.stderr.flush()

    def close(self) -> None:
        """Close the file; what could not be written was told then."""
        if self._file is not None:
            self._file.close()


class _LogFile:
    """A file that is appended to; others may move it away at any time, as logrotate does."""

    def __init__(self, path: Path, mode: int) -> None:
        #: Devices (`/dev/stderr`) are written to and nothing else.
        self._is_plain = not _is_device(path)
        self._given = path
        self._mode = mode
        self._file = _append_to(self._path, mode)

    @property
    def _path(self) -> Path:
        """Where it is now: a link may be pointed elsewhere."""
        return Path(os.path.realpath(self._given)) if self._is_plain else self._given

    def write(self, lines: bytes) -> None:
        """Write lines at once; one that is too long by now is FILE.1 before."""
        if self._is_plain:
            with contextlib.suppress(OSError):  # rather too long than not written
                self._move_if_long()
            if self._is_moved():
                new = _append_to(self._path, self._mode)
                self.close()
                self._file = new
        self._file.write(lines)
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _move_if_long(self) -> None:
        if os.fstat(self._file.fileno()).st_size > _MOST_LOG_BYTES:
            fcntl.flock(self._file, fcntl.LOCK_EX)  # another job may write it, too
            try:
                if not self._is_moved():
                    path = self._path
                    path.replace(path.with_name(f"{path.name}.1"))
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _is_moved(self) -> bool:
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return True


def _is_device(path: Path) -> bool:
    """Whether a path, or a link on the way to its file, is a device's or a process's."""
    place = path.absolute()
    for _ in range(_MOST_LINKS):
        if place.parts[:2] in _DEVICES and place.parts[:3] != _MEMORY:
            return True
        if not place.is_symlink():
            return False
        place = Path(os.path.normpath(place.parent / place.readlink()))
    return False  # links in a ring: opening it says so


def _registry(board: Board) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(board)
    return registry


def _check_folder(option: str, path: Path) -> None:
    if not path.absolute().parent.is_dir():
        raise MetricsError(f"{option} {path}: its folder does not exist; create it first")


def _append_to(path: Path, mode: int) -> IO[bytes]:
    """Open a file to append to; one that is there keeps its mode."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    try:
        return _made(os.open(path, flags | os.O_EXCL, 0o600), mode)
    except FileExistsError:
        return os.fdopen(os.open(path, flags, 0o600), "ab")


def _made(descriptor: int, mode: int) -> IO[bytes]:
    """Give a new file, until then its owner's alone, its mode, whatever the umask."""
    file = os.fdopen(descriptor, "ab")
    os.fchmod(file.fileno(), mode)
    return file

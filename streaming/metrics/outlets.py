"""Outlets of metrics: an HTTP endpoint for Prometheus, a file for node exporter, and a log."""

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
#: Time limit for a client to send its request.
_REQUEST_TIMEOUT_S = 5.0
_RESPONSE_TIMEOUT_S = 30.0
_MAX_REQUEST_BYTES = 16 * 1024
_CHUNK_BYTES = 4096
#: Connections above this number are closed, because each needs a thread.
_MAX_CLIENTS = 256
#: A longer log file is renamed to FILE.1, which replaces the previous FILE.1.
_MAX_LOG_BYTES = 256 * 2**20
#: Devices are below these folders, except for files in `_SHARED_MEMORY`.
_DEVICE_FOLDERS = (("/", "dev"), ("/", "proc"))
_SHARED_MEMORY = ("/", "dev", "shm")
_MAX_LINKS = 40  # as in Linux


class MetricsError(AssignorError):
    """Metrics cannot be served or written."""


class Endpoint:
    """An HTTP endpoint, `http://address:port/metrics`, which no client can block."""

    def __init__(self, board: Board, port: int, address: str) -> None:
        self._server = _create_server(port, address, _Handler.factory(_create_registry(board)))
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def check_port(config: MetricsConfig | None) -> None:
    """Raise MetricsError if the configured endpoint cannot listen."""
    if config is not None and config.port is not None:
        _create_server(config.port, config.address, socketserver.BaseRequestHandler).server_close()


def _create_server(port: int, address: str, handler: Callable[..., Any]) -> _Server:
    try:
        family, *_, socket_address = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        server_class = type("_Server", (_Server,), {"address_family": family})
        server: _Server = server_class(socket_address[:2], handler)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise MetricsError(
                f"metrics port {port} on {address} is in use by another process: set "
                "metrics.port to a free one (0 takes any)"
            ) from error
        raise MetricsError(
            f"metrics cannot be served on {address}:{port} ({error.strerror or error}): change "
            "metrics.address or metrics.port"
        ) from error
    return server


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = 128
    daemon_threads = True
    block_on_close = False

    def __init__(self, *arguments: Any) -> None:
        self._free_threads = threading.BoundedSemaphore(_MAX_CLIENTS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle the request in a new thread, or close the connection if too many threads run."""
        if not self._free_threads.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread was started
            self._free_threads.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle the request, then let another thread start."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free_threads.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing, because clients may disconnect at any time."""


class _Handler(MetricsHandler):
    connection: socket.socket

    def setup(self) -> None:
        """Read the whole request within one time limit, however slowly it arrives."""
        super().setup()
        deadline = time.monotonic() + _REQUEST_TIMEOUT_S
        request = b""
        while b"\r\n\r\n" not in request and len(request) < _MAX_REQUEST_BYTES:
            self.connection.settimeout(max(0.001, deadline - time.monotonic()))
            chunk = self.connection.recv(_CHUNK_BYTES)
            if not chunk:
                break
            request += chunk
        self.rfile = io.BufferedReader(io.BytesIO(request))
        self.connection.settimeout(_RESPONSE_TIMEOUT_S)  # for the whole response

    def do_GET(self) -> None:
        """Send the metrics, or status 404 for another path."""
        if urlsplit(self.path).path != _PATH:
            self.send_error(404, explain=f"the metrics are at {_PATH}")
        else:
            super().do_GET()


class Textfile:
    """A metrics file, which each update replaces atomically."""

    def __init__(self, board: Board, path: Path, file_mode: int) -> None:
        _check_folder("metrics.textfile", path)
        self._registry = _create_registry(board)
        self._path = path
        self._file_mode = file_mode

    def write(self) -> None:
        """Write the metrics; readers see either the old file or the new one."""
        descriptor, name = tempfile.mkstemp(prefix=f"{self._path.name}.", dir=self._path.parent)
        new_path = Path(name)
        try:
            with _open_with_mode(descriptor, self._file_mode) as file:
                file.write(generate_latest(self._registry))
            new_path.replace(self._path)
        finally:
            new_path.unlink(missing_ok=True)


class Log:
    """A log of JSON lines, on stderr or in a file."""

    def __init__(self, path: Path | None, file_mode: int) -> None:
        self._file: _LogFile | None = None
        if path is not None:
            _check_folder("metrics.log_file", path)
            try:
                self._file = _LogFile(path, file_mode)
            except OSError as error:
                raise MetricsError(
                    f"metrics.log_file {path} cannot be written ({error.strerror}): check its "
                    "path and permissions"
                ) from error

    def write(self, fields: Mapping[str, Any], progress: Mapping[str, Any] | None = None) -> None:
        """Write and flush a line; `progress` is added in a file, but not on stderr."""
        if self._file is not None:
            self._file.write(dump(fields, progress))
        else:
            sys.stderr.write(dump(fields).decode())
            sys.stderr.flush()

    def close(self) -> None:
        """Close the file without errors, because `write` has flushed each line."""
        if self._file is not None:
            self._file.close()


class _LogFile:
    """A file opened for append; other programs, such as logrotate, may rename it at any time."""

    def __init__(self, path: Path, file_mode: int) -> None:
        #: Whether the file is not a device such as `/dev/stderr`.
        self._can_rotate = not _is_device(path)
        self._raw_path = path
        self._file_mode = file_mode
        self._file = _open_to_append(self._path, file_mode)

    @property
    def _path(self) -> Path:
        """Path of the file, with links resolved at each call, because their target may change."""
        return Path(os.path.realpath(self._raw_path)) if self._can_rotate else self._raw_path

    def write(self, line: bytes) -> None:
        """Rotate the file if it is too long, reopen it if it was moved, then write the line."""
        if self._can_rotate:
            with contextlib.suppress(OSError):  # a log that is too long is better than no log
                self._rotate_if_long()
            if self._is_moved():
                new_file = _open_to_append(self._path, self._file_mode)
                self.close()
                self._file = new_file
        self._file.write(line)
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _rotate_if_long(self) -> None:
        if os.fstat(self._file.fileno()).st_size > _MAX_LOG_BYTES:
            fcntl.flock(self._file, fcntl.LOCK_EX)  # another job may write to the same file
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
    """Return whether a path, or its link's target, is in `/dev` (not `/dev/shm`) or `/proc`."""
    target = path.absolute()
    for _ in range(_MAX_LINKS):
        if target.parts[:2] in _DEVICE_FOLDERS and target.parts[:3] != _SHARED_MEMORY:
            return True
        if not target.is_symlink():
            return False
        target = Path(os.path.normpath(target.parent / target.readlink()))
    return False  # circular links; opening the file reports them


def _create_registry(board: Board) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(board)
    return registry


def _check_folder(option: str, path: Path) -> None:
    if not path.absolute().parent.is_dir():
        raise MetricsError(f"{option} {path}: its folder does not exist; create it first")


def _open_to_append(path: Path, file_mode: int) -> IO[bytes]:
    """Open a file for append, or create it with `file_mode`; an existing file keeps its mode."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    try:
        return _open_with_mode(os.open(path, flags | os.O_EXCL, 0o600), file_mode)
    except FileExistsError:
        return os.fdopen(os.open(path, flags, 0o600), "ab")


def _open_with_mode(descriptor: int, file_mode: int) -> IO[bytes]:
    """Wrap a new file's descriptor; set its mode explicitly, because the umask would narrow it."""
    file = os.fdopen(descriptor, "ab")
    os.fchmod(file.fileno(), file_mode)
    return file

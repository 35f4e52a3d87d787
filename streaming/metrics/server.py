"""The endpoint for Prometheus: `/metrics` and nothing else, and no client can hold it up."""

from __future__ import annotations

import errno
import io
import socket
import socketserver
import threading
import time
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, MetricsHandler

from assignor_bridge.errors import AssignorError

if TYPE_CHECKING:
    from streaming.metrics.board import Board

_PATH = "/metrics"
#: A client has so long for its question, and then for taking the answer.
_ASK_LIMIT_S = 5.0
_ANSWER_LIMIT_S = 30.0
_LONGEST_QUESTION = 16 * 1024
_CHUNK = 4096


class MetricsError(AssignorError):
    """Metrics cannot be served."""


class Endpoint:
    """An HTTP endpoint, `http://address:port/metrics`."""

    def __init__(self, board: Board, port: int, address: str) -> None:
        registry = CollectorRegistry()
        registry.register(board)
        try:
            family, *_, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
            kind = type("_Server", (_Server,), {"address_family": family})
            self._server: _Server = kind(where[:2], _Handler.factory(registry))
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
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True
    block_on_close = False

    def server_bind(self) -> None:
        """Bind without asking a name server for the address's name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

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

"""The proxy of the fault tests does what it is told: before it is believed, it is tried."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import time
from typing import TYPE_CHECKING

import pytest

from streaming.kafka.embedded_setup import HOST, find_free_ports
from tests.support.chaos_proxy import ChaosProxy
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.request.recv(4096):
                self.request.sendall(data)


@pytest.fixture
def proxy() -> Iterator[ChaosProxy]:
    _, at = find_free_ports(None)
    with socketserver.ThreadingTCPServer((HOST, 0), _Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with ChaosProxy((HOST, at), (HOST, server.server_address[1])) as proxy:
            yield proxy
        server.shutdown()


def connected(proxy: ChaosProxy) -> socket.socket:
    return socket.create_connection(proxy.at, 10)


def echoed(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    found = b""
    while len(found) < len(data) and (part := client.recv(65536)):
        found += part
    return found


def test_all_passes_in_order_late_or_not(proxy):
    data = bytes(range(256)) * 4000
    with connected(proxy) as client:
        assert echoed(client, data) == data
        proxy.delay_s = (0.0, 0.02)
        assert echoed(client, data) == data
        proxy.delay_s = (0.1, 0.1)
        began = time.monotonic()
        assert echoed(client, b"x") == b"x"
        assert time.monotonic() - began >= 0.2  # there and back
        proxy.reset()
        proxy.bytes_per_s = 1000
        began = time.monotonic()
        assert echoed(client, b"x" * 200) == b"x" * 200
        assert time.monotonic() - began >= 0.4
        assert proxy.late_bytes >= 402
    assert proxy.connections == 1


def test_connections_are_cut(proxy):
    with connected(proxy) as one, connected(proxy) as other:
        assert echoed(one, b"a") + echoed(other, b"b") == b"ab"
        assert proxy.cut() == 2
        for client in (one, other):
            with pytest.raises(ConnectionResetError):
                client.recv(1)
    with connected(proxy) as again:
        assert echoed(again, b"c") == b"c"


def test_nobody_is_told_of_a_silence(proxy):
    with connected(proxy) as client:
        assert echoed(client, b"a") == b"a"
        proxy.is_silent = True
        client.sendall(b"b")
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(1)
        proxy.is_silent = False
        client.settimeout(10)
        assert client.recv(1) == b"b"


def test_half_closed_connections_end_one_way(proxy):
    seen = set()

    def both() -> bool:
        with connected(proxy) as client:
            assert echoed(client, b"a") == b"a"
            assert proxy.half_close() >= 1
            assert client.recv(1) == b""  # at once, or once the other end has closed
            with contextlib.suppress(OSError):
                client.sendall(b"b")
                seen.add("open")
                time.sleep(0.05)
                client.sendall(b"c")
                seen.add("stays open")
        return "stays open" in seen

    wait_until(both, "a connection that is open one way only")

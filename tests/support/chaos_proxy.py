"""A TCP proxy for a broker that can delay, throttle, cut, and half-close connections."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from streaming.kafka import embedded_setup
from streaming.kafka.embedded import EmbeddedBroker
from tests.support.broker_cluster import find_free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_CHUNK_BYTES = 256 * 1024
_LOOK_S = 0.02
_SOON_S = 0.05
#: Makes closing send a reset, which loses data in flight, as if a firewall dropped a connection.
_NO_LINGER = struct.pack("ii", 1, 0)


class _Chunk(NamedTuple):
    """A chunk of bytes, when it arrived, and when to forward it."""

    arrived_s: float
    due_s: float
    chunk: bytes


class _Link(NamedTuple):
    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter


@dataclass
class ChaosProxy:
    """Forward connections from `at` to `to`; its fields may be changed while it runs.

    As a context manager, it listens in its own thread.
    """

    at: tuple[str, int]
    to: tuple[str, int]
    seed: int = 0
    #: Minimum and maximum of the random delay of each chunk; the order of chunks is kept.
    delay_s: tuple[float, float] = (0.0, 0.0)
    #: Throughput of each connection and direction.
    bytes_per_s: float = float("inf")
    #: Whether to forward nothing, without closing connections.
    is_silent: bool = False
    #: Number of connections so far.
    connections: int = 0
    #: Bytes that were forwarded more than `_SOON_S` after their arrival.
    late_bytes: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._loop = asyncio.new_event_loop()
        self._links: set[_Link] = set()
        #: Data for these is dropped.
        self._half_closed: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def address(self) -> str:
        return f"{self.at[0]}:{self.at[1]}"

    def __enter__(self) -> ChaosProxy:
        listening = asyncio.start_server(self._accept, *self.at, limit=_CHUNK_BYTES)
        self._server = self._loop.run_until_complete(listening)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._run_in_loop(self._server.close)
        self.cut()
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def reset(self) -> None:
        """Forward everything without delay again."""
        self.delay_s, self.bytes_per_s, self.is_silent = (0.0, 0.0), float("inf"), False

    def cut(self) -> int:
        """Reset all connections, and return their number."""
        return self._change_all(_reset)

    def half_close(self) -> int:
        """Close a random direction of each connection, and return the number of connections."""

        def close_one(link: _Link) -> None:
            writer = self._rng.choice(link)
            self._half_closed.add(writer)
            _send_eof(writer)

        return self._change_all(close_one)

    def _change_all(self, change: Callable[[_Link], None]) -> int:
        def change_links() -> int:
            links = list(self._links)
            for link in links:
                change(link)
            return len(links)

        return int(self._run_in_loop(change_links))

    def _run_in_loop(self, call: Callable[[], Any]) -> Any:
        async def run() -> Any:
            return call()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(10)

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            broker_reader, broker_writer = await asyncio.open_connection(
                *self.to, limit=_CHUNK_BYTES
            )
        except OSError:  # the broker does not run
            writer.transport.abort()
            return
        link = _Link(writer, broker_writer)
        self._links.add(link)
        directions = [
            self._loop.create_task(self._forward(reader, broker_writer)),
            self._loop.create_task(self._forward(broker_reader, writer)),
        ]
        try:
            done, _ = await asyncio.wait(directions, return_when=asyncio.FIRST_EXCEPTION)
            for direction in done:
                direction.exception()  # retrieved, so that asyncio logs nothing
        finally:
            for direction in directions:
                direction.cancel()
            self._links.discard(link)
            self._half_closed.difference_update(link)
            for end in link:
                end.transport.abort()

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Forward bytes in order; many chunks may be delayed at a time."""
        delayed: asyncio.Queue[_Chunk] = asyncio.Queue()

        async def receive() -> None:
            chunk = b"first"
            while chunk:
                chunk = await source.read(_CHUNK_BYTES)
                now_s = self._loop.time()
                delayed.put_nowait(_Chunk(now_s, now_s + self._rng.uniform(*self.delay_s), chunk))

        receiving = self._loop.create_task(receive())
        try:
            while True:
                arrived_s, due_s, chunk = await self._next(delayed, receiving)
                await asyncio.sleep(max(0.0, due_s - self._loop.time()))
                while self.is_silent:
                    await asyncio.sleep(_LOOK_S)
                if not chunk:
                    _send_eof(target)
                    return
                if target in self._half_closed:
                    continue
                await asyncio.sleep(len(chunk) / self.bytes_per_s)
                if self._loop.time() - arrived_s > _SOON_S:
                    self.late_bytes += len(chunk)
                target.write(chunk)
                await target.drain()
        finally:
            if not receiving.cancel() and not receiving.cancelled():
                receiving.exception()  # retrieved, so that asyncio logs nothing

    @staticmethod
    async def _next(delayed: asyncio.Queue[_Chunk], receiving: asyncio.Task[None]) -> _Chunk:
        """Wait for a chunk; raise the error that ended `receiving`."""
        getting = asyncio.ensure_future(delayed.get())
        await asyncio.wait({getting, receiving}, return_when=asyncio.FIRST_COMPLETED)
        if not getting.done() and delayed.empty():
            getting.cancel()
            receiving.result()  # raises if the connection was reset
        return await getting


def _send_eof(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, RuntimeError):  # it is already closed
        writer.write_eof()


def _reset(link: _Link) -> None:
    for writer in link:
        connection = writer.get_extra_info("socket")
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        writer.transport.abort()


@contextlib.contextmanager
def run_proxied_broker(
    seed: int = 0, more: Mapping[str, str] | None = None
) -> Iterator[tuple[EmbeddedBroker, ChaosProxy]]:
    """Run a broker that advertises the proxy's address to clients of the proxy.

    The broker's own address bypasses the proxy. `more` are further settings of the broker.
    """
    host = embedded_setup.HOST
    port, controller = find_free_ports(set())
    far, outside = find_free_ports({port, controller})
    properties = {
        "listeners": f"PLAINTEXT://{host}:{port},FAR://{host}:{far},"
        f"CONTROLLER://{host}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{host}:{port},FAR://{host}:{outside}",
        "controller.quorum.voters": f"1@{host}:{controller}",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,FAR:PLAINTEXT,CONTROLLER:PLAINTEXT",
        **(more or {}),
    }
    with (
        EmbeddedBroker(port=port, properties=properties) as broker,
        ChaosProxy((host, outside), (host, far), seed) as proxy,
    ):
        yield broker, proxy

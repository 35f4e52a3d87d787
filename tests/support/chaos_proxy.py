"""A TCP proxy before a broker, which delays, limits, cuts and half-closes what passes when told."""

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

_CHUNK = 256 * 1024
_LOOK_S = 0.02
_SOON_S = 0.05
#: Closing then sends a reset: what is under way is lost, as when a firewall forgets a connection.
_NO_LINGER = struct.pack("ii", 1, 0)


class _Piece(NamedTuple):
    """What came at once, when, and when it may be passed on."""

    came: float
    due: float
    chunk: bytes


class _Link(NamedTuple):
    """One connection of a client, and ours to the broker."""

    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter


@dataclass
class ChaosProxy:
    """Passes on what comes to `at`; its fields may be changed while it runs, and hold from then on.

    As a context manager, it listens in a thread of its own.
    """

    at: tuple[str, int]
    to: tuple[str, int]
    seed: int = 0
    #: How late each piece is passed on, at random between the two; their order stays.
    delay_s: tuple[float, float] = (0.0, 0.0)
    #: Of each connection and direction.
    bytes_per_s: float = float("inf")
    #: Nothing is passed on, and nobody is told.
    is_silent: bool = False
    #: Connections that were made so far.
    connections: int = 0
    #: Bytes that were passed on later than `_SOON_S` after they came.
    late_bytes: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._loop = asyncio.new_event_loop()
        self._links: set[_Link] = set()
        #: What still comes for these is thrown away.
        self._half_closed: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return f"{self.at[0]}:{self.at[1]}"

    def __enter__(self) -> ChaosProxy:
        listening = asyncio.start_server(self._accepted, *self.at, limit=_CHUNK)
        self._server = self._loop.run_until_complete(listening)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._in_loop(self._server.close)
        self.cut()
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def reset(self) -> None:
        """Pass all on as it comes again."""
        self.delay_s, self.bytes_per_s, self.is_silent = (0.0, 0.0), float("inf"), False

    def cut(self) -> int:
        """Reset all connections at once; how many there were."""
        return self._each(_reset)

    def half_close(self) -> int:
        """End one direction of each connection, at random; the other one stays open."""

        def end_one(link: _Link) -> None:
            end = self._rng.choice(link)
            self._half_closed.add(end)
            _send_eof(end)

        return self._each(end_one)

    def _each(self, change: Callable[[_Link], None]) -> int:
        def all_of_them() -> int:
            links = list(self._links)
            for link in links:
                change(link)
            return len(links)

        return int(self._in_loop(all_of_them))

    def _in_loop(self, call: Callable[[], Any]) -> Any:
        async def called() -> Any:
            return call()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result(10)

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            there, back = await asyncio.open_connection(*self.to, limit=_CHUNK)
        except OSError:  # the broker is not there
            writer.transport.abort()
            return
        link = _Link(writer, back)
        self._links.add(link)
        ways = [
            self._loop.create_task(self._pass(reader, back)),
            self._loop.create_task(self._pass(there, writer)),
        ]
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_EXCEPTION)
            for way in done:
                way.exception()  # is looked at: a connection that broke is what this is about
        finally:
            for way in ways:
                way.cancel()
            self._links.discard(link)
            self._half_closed.difference_update(link)
            for end in link:
                end.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Pass bytes on in order; many may be on their way."""
        under_way: asyncio.Queue[_Piece] = asyncio.Queue()

        async def arrive() -> None:
            chunk = b"first"
            while chunk:
                chunk = await source.read(_CHUNK)
                came = self._loop.time()
                under_way.put_nowait(_Piece(came, came + self._rng.uniform(*self.delay_s), chunk))

        arriving = self._loop.create_task(arrive())
        try:
            while True:
                came, due, chunk = await self._next(under_way, arriving)
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                while self.is_silent:
                    await asyncio.sleep(_LOOK_S)
                if not chunk:
                    _send_eof(target)
                    return
                if target in self._half_closed:
                    continue
                await asyncio.sleep(len(chunk) / self.bytes_per_s)
                if self._loop.time() - came > _SOON_S:
                    self.late_bytes += len(chunk)
                target.write(chunk)
                await target.drain()
        finally:
            if not arriving.cancel() and not arriving.cancelled():
                arriving.exception()  # is looked at: it broke

    @staticmethod
    async def _next(under_way: asyncio.Queue[_Piece], arriving: asyncio.Task[None]) -> _Piece:
        """Wait for a piece; raises what ended their arrival."""
        getting = asyncio.ensure_future(under_way.get())
        await asyncio.wait({getting, arriving}, return_when=asyncio.FIRST_COMPLETED)
        if not getting.done() and under_way.empty():
            getting.cancel()
            arriving.result()  # a reset
        return await getting


def _send_eof(writer: asyncio.StreamWriter) -> None:
    """Tell that no more bytes will come this way."""
    with contextlib.suppress(OSError, RuntimeError):  # it is over already
        writer.write_eof()


def _reset(link: _Link) -> None:
    for writer in link:
        connection = writer.get_extra_info("socket")
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        writer.transport.abort()


@contextlib.contextmanager
def proxied_broker(
    seed: int = 0, more: Mapping[str, str] | None = None
) -> Iterator[tuple[EmbeddedBroker, ChaosProxy]]:
    """Run a broker that tells those who come through the proxy to go on doing so.

    The broker's own address leads to it directly. `more` are further settings of the broker.
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

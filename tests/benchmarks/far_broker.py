"""A broker with a second way to it that takes longer: a proxy that delays what passes."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streaming.kafka import embedded_setup
from streaming.kafka.embedded import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 256 * 1024


@contextmanager
def far_broker(round_trip_s: float) -> Iterator[tuple[EmbeddedBroker, str]]:
    """Give a broker, and the address at which the same one answers after this time."""
    host = embedded_setup.HOST
    port, controller = embedded_setup.free_ports(None)
    far, proxy = embedded_setup.free_ports(None)
    properties = {
        "listeners": f"PLAINTEXT://{host}:{port},FAR://{host}:{far},"
        f"CONTROLLER://{host}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{host}:{port},FAR://{host}:{proxy}",
        "controller.quorum.voters": f"1@{host}:{controller}",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,FAR:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    with (
        EmbeddedBroker(port=port, properties=properties) as broker,
        _proxy((host, proxy), (host, far), round_trip_s / 2),
    ):
        yield broker, f"{host}:{proxy}"


@contextmanager
def _proxy(at: tuple[str, int], to: tuple[str, int], delay_s: float) -> Iterator[None]:
    loop = asyncio.new_event_loop()
    passing: set[asyncio.Task[None]] = set()

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*to, limit=_CHUNK)
        for source, target in ((reader, back), (there, writer)):
            task = loop.create_task(_delayed(source, target, delay_s))
            passing.add(task)
            task.add_done_callback(passing.discard)

    server = loop.run_until_complete(asyncio.start_server(passed, *at, limit=_CHUNK))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _delayed(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, delay_s: float
) -> None:
    """Pass bytes on in order, each this much later than it came; many may be on their way."""
    loop = asyncio.get_running_loop()
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def arrive() -> None:
        while (chunk := await source.read(_CHUNK)) != b"":
            under_way.put_nowait((loop.time() + delay_s, chunk))
        under_way.put_nowait((loop.time() + delay_s, b""))

    arriving = loop.create_task(arrive())
    try:
        while True:
            due, chunk = await under_way.get()
            if not chunk:
                return
            await asyncio.sleep(max(0.0, due - loop.time()))
            target.write(chunk)
            await target.drain()
    except ConnectionError:
        pass  # the client or the broker has gone, which ends both ways
    finally:
        arriving.cancel()
        target.close()

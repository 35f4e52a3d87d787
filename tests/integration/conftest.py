"""A broker behind a proxy, once a session; and no test passes by Spark's own mapping unawares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.quick_jvms import start_jvms_quickly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.kafka.embedded import EmbeddedBroker
    from tests.support.chaos_proxy import ChaosProxy

start_jvms_quickly()


@pytest.fixture(scope="session")
def proxied() -> Iterator[tuple[EmbeddedBroker, ChaosProxy]]:
    """Run a broker behind a proxy."""
    from tests.support.chaos_proxy import proxied_broker

    with proxied_broker() as both:
        yield both


@pytest.fixture(autouse=True)
def no_batch_falls_back_unawares(request: pytest.FixtureRequest) -> Iterator[None]:
    """A batch that Spark's own mapping read fails the test, unless it is marked `falls_back`.

    Spark's own suite once passed with the bridge never loaded.
    """
    if "spark" not in request.fixturenames or request.node.get_closest_marker("falls_back"):
        yield
        return
    from tests.support.spark_tools import DriverLog

    log = DriverLog(Path(request.getfixturevalue("spark").conf.get("assignor.test.log")))
    yield
    assert log.lines("Spark's default assignment is used instead") == []
    assert log.lines("Spark's own limits apply instead") == []


@pytest.fixture(autouse=True)
def finish_delta_writers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End the thread of each writer that a test starts without a job around it.

    Otherwise a later test that counts Spark jobs, or the driver's threads, finds it at work.
    """
    from streaming.pipeline.delta.writer import DeltaWriter

    writers: list[DeltaWriter] = []
    start = DeltaWriter.set_query

    def start_and_note(writer: DeltaWriter, *arguments: Any) -> None:
        writers.append(writer)
        start(writer, *arguments)

    monkeypatch.setattr(DeltaWriter, "set_query", start_and_note)
    yield
    for writer in writers:
        writer.finish()

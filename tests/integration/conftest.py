"""Fixtures: a broker behind a proxy, and checks that no batch fell back to Spark's default."""

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
    from tests.support.chaos_proxy import run_proxied_broker

    with run_proxied_broker() as broker_and_proxy:
        yield broker_and_proxy


@pytest.fixture(autouse=True)
def fail_on_fallbacks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test if a batch used Spark's default assignment, unless it is marked `falls_back`.

    Spark's own suite once passed although the bridge was not loaded.
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
    """End the thread of each writer that a test starts without a job.

    Otherwise a later test that counts Spark jobs or the driver's threads would count its work.
    """
    from streaming.pipeline.delta.writer import DeltaWriter

    writers: list[DeltaWriter] = []
    start = DeltaWriter.set_query

    def start_and_record(writer: DeltaWriter, *arguments: Any) -> None:
        writers.append(writer)
        start(writer, *arguments)

    monkeypatch.setattr(DeltaWriter, "set_query", start_and_record)
    yield
    for writer in writers:
        writer.finish()

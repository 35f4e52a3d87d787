"""Progress events in the form that Spark 4.0 writes them."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streaming.metrics.attach import Exporter

QUERY, RUN = "11111111-aaaa", "22222222-bbbb"


def progress(
    batch: int = 1,
    *,
    start: dict[str, int],
    end: dict[str, int],
    latest: dict[str, int] | None = None,
    second: int = 0,
    name: str | None = "orders",
    query_id: str = QUERY,
    run_id: str = RUN,
    topic: str = "t",
    untold: tuple[str, ...] = (),
    **ours: str,
) -> dict[str, Any]:
    """One batch of one Kafka source; `ours` are `assignor.*` metrics, `untold` is null of it."""
    return {
        "id": query_id,
        "runId": run_id,
        "name": name,
        "timestamp": f"2026-11-21T12:{second // 60:02}:{second % 60:02}.500Z",
        "batchId": batch,
        "batchDuration": 750,
        "numInputRows": sum(end.values()) - sum(start.values()),
        "inputRowsPerSecond": 20.0,
        "processedRowsPerSecond": 40.0,
        "durationMs": {"addBatch": 500, "triggerExecution": 750},
        "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"},
        "stateOperators": [{"numRowsTotal": 7, "memoryUsedBytes": 900}],
        "sources": [
            {
                "description": f"KafkaV2[Subscribe[{topic}]]",
                "startOffset": {topic: start},
                "endOffset": {topic: end},
                "latestOffset": {topic: latest or end},
                "numInputRows": sum(end.values()) - sum(start.values()),
                "metrics": {f"assignor.{key}": value for key, value in ours.items()},
                **dict.fromkeys(untold),
            }
        ],
        "sink": {"description": "noop", "numOutputRows": -1},
    }


def text(**given: Any) -> str:
    """The same as JSON text."""
    return json.dumps(progress(**given))


def flush(exporter: Exporter) -> None:
    """Wait until the exporter has looked at all events that have come."""
    reached = threading.Event()
    exporter._events.put(reached.set)
    assert reached.wait(10)

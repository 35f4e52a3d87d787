"""Create progress events in the format of Spark 4.0."""

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
    null_keys: tuple[str, ...] = (),
    **metrics: str,
) -> dict[str, Any]:
    """Return a batch with one Kafka source, its `assignor.*` metrics, and null for `null_keys`."""
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
                "metrics": {f"assignor.{key}": value for key, value in metrics.items()},
                **dict.fromkeys(null_keys),
            }
        ],
        "sink": {"description": "noop", "numOutputRows": -1},
    }


def text(**arguments: Any) -> str:
    """Return the JSON text of `progress`."""
    return json.dumps(progress(**arguments))


def flush(exporter: Exporter) -> None:
    """Wait until the exporter has handled all queued events."""
    is_handled = threading.Event()
    exporter._events.put(is_handled.set)
    assert is_handled.wait(10)

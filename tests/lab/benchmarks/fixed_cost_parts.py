"""Where the time of a small batch goes: Spark's phases, and addBatch by what its stages tell."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.spark_tools import StageRun

#: Phases of a trigger before addBatch, in their order.
_BEFORE = ("latestOffset", "walCommit", "getBatch", "queryPlanning")
_PHASES = (*_BEFORE, "addBatch", "commitOffsets")


def parts_of(batch: dict[str, Any], stages: Sequence[StageRun]) -> dict[str, float]:
    """Split the milliseconds of a batch, nothing else having run beside it.

    `addBatch` is split at its stages: what comes before the first one is submitted (physical
    planning, our plan, a sink's look at its table), the stages, and what comes after the last one
    (a sink's commit). Of the stages, the one that reads is split by its longest task. All clocks
    are the driver's but those inside of a task.
    """
    took = {name: float(ms) for name, ms in batch["durationMs"].items()}
    parts = {"trigger": took["triggerExecution"]}
    parts |= {name: took.get(name, 0.0) for name in _PHASES}
    parts["between phases"] = took["triggerExecution"] - sum(parts[name] for name in _PHASES)
    moment = datetime.strptime(batch["timestamp"], "%Y-%m-%dT%H:%M:%S.%fZ")
    trigger_ms = moment.replace(tzinfo=timezone.utc).timestamp() * 1000
    begun = trigger_ms + sum(parts[name] for name in _BEFORE)
    ours = [s for s in stages if trigger_ms <= s.submitted_ms <= trigger_ms + parts["trigger"]]
    assert ours, f"no stage of batch {batch['batchId']}"
    first, last = min(s.submitted_ms for s in ours), max(s.completed_ms for s in ours)
    reading = max(ours, key=lambda stage: stage.records)
    longest = max(reading.tasks, key=lambda task: task["duration"])
    parts["addBatch, before its stages"] = first - begun
    parts["addBatch, stages"] = last - first
    parts["addBatch, after its stages"] = begun + parts["addBatch"] - last
    parts["addBatch, number of stages"] = len(ours)
    parts["reading stage, to its first task"] = reading.launched_ms - reading.submitted_ms
    parts["reading stage, longest task"] = longest["duration"]
    parts["longest task, deserialising"] = longest["deserialize"]
    parts["longest task, running"] = longest["run"]
    metrics = batch["sources"][0].get("metrics") or {}
    parts["our plan (assignor.planMillis)"] = float(metrics.get("assignor.planMillis", 0))
    return parts

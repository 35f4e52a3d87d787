"""Between the messages and `admission`: how far a batch goes, by what the planner has learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assignor_bridge.admission.admit import admit, completed
from assignor_bridge.admission.align import Alignment, admit_within, align, spread
from assignor_bridge.admission.deadline import seconds_left
from assignor_bridge.admission.lag import BatchTime, Lag, Limits
from assignor_bridge.planner.forecast import ASSUMED_SECONDS, forecast
from assignor_bridge.protocol import messages
from assignor_bridge.protocol.columns import pack_ranges, unpack_batch, unpack_times

if TYPE_CHECKING:
    from assignor_bridge.admission.lag import Memory
    from assignor_bridge.options import PlannerOptions
    from assignor_bridge.protocol.messages import AdmitBatch
    from checkpoints.sticky_state import StickyState


class LimitedBatch(NamedTuple):
    """The answer to a request, and what it leaves."""

    answer: messages.AdmittedBatch | messages.LookUp
    #: For the next request.
    memory: Memory
    #: For the plan of the batch: offsets that wait over those that it reads.
    backlog: float = 1.0


def limit_batch(
    request: AdmitBatch, options: PlannerOptions, memory: Memory, state: StickyState
) -> LimitedBatch:
    """Say how far a batch goes.

    A look-up changes nothing: the same request comes again, with what Kafka answered.
    """
    batch = unpack_batch(request, options)
    costs = forecast(batch, state)
    times = unpack_times(request) if options.needs_times else None
    left = retention = np.full(batch.ranges, np.inf)
    if times is not None and options.fairness == "deadline":
        kept_ms = request.retention_ms or {}
        kept = np.array([kept_ms.get(topic, np.inf) for topic in batch.topics]) / 1000
        retention = kept[batch.topic]
        left = seconds_left(times.stamp, retention, times.now)
    lag = Lag(
        batch.topics, batch.topic, batch.partition, batch.start, batch.end,
        costs.work, costs.fixed, costs.bytes, costs.slots, left, retention,
    )  # fmt: skip
    aligned, apart = None, 0.0
    if times is not None and options.align_event_time is not None:
        alignment = Alignment(
            round(1000 * options.align_event_time), round(1000 * options.max_future_seconds)
        )
        found = align(lag, times, alignment, memory.steps)
        if isinstance(found, int):
            return LimitedBatch(messages.LookUp(found), memory)
        aligned, apart = found, spread(times, alignment)
    if request.last is not None:
        reading = float(np.nansum(batch.observed.seconds)) or request.last.records * ASSUMED_SECONDS
        time = BatchTime(request.last.records, reading / costs.slots, request.last.seconds)
        memory = completed(memory, time)
    limits = Limits(
        request.most_records,
        options.max_bytes_per_trigger,
        options.target_batch_seconds,
        options.fairness,
        dict(options.weights),
        dict(options.floors),
        request.fixed_end,
    )
    admitted = (
        admit(lag, limits, memory)
        if aligned is None
        else admit_within(lag, aligned, limits, memory)
    )
    records = int((admitted.end - batch.start).sum())
    held = sum((batch.end - admitted.end).tolist())
    metrics: dict[str, str | int | float] = {
        "admittedRecords": records,
        "heldBackRecords": held,
        "heldBackBy": admitted.held_by or "nothing",
    }
    if np.isfinite(left).any():
        metrics["secondsToLoss"] = round(max(0.0, float(left.min())), 3)
    if aligned is not None:
        metrics["eventTimeSpreadSeconds"] = apart
    ranges = pack_ranges(batch.topics, batch.topic, batch.partition, batch.start, admitted.end)
    return LimitedBatch(
        messages.AdmittedBatch(ranges, metrics), admitted.memory, 1.0 + held / records
    )

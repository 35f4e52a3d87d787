"""Answer `AdmitBatch` requests: predict costs, then decide where the batch ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assignor_bridge.admission.admit import admit, remember_batch_time
from assignor_bridge.admission.align import Alignment, admit_up_to, align, find_spread_s
from assignor_bridge.admission.batch_inputs import BatchTime, Lag, Limits
from assignor_bridge.admission.deadline import compute_seconds_left
from assignor_bridge.planner.forecast import ASSUMED_S_PER_OFFSET, forecast
from assignor_bridge.protocol import messages
from assignor_bridge.protocol.columns import pack_ranges, unpack_batch, unpack_times

if TYPE_CHECKING:
    from assignor_bridge.admission.batch_inputs import Memory
    from assignor_bridge.options import PlannerOptions
    from assignor_bridge.protocol.messages import AdmitBatch
    from checkpoints.sticky_state import StickyState


class LimitResult(NamedTuple):
    """The answer to a request, and the values that later requests need."""

    answer: messages.AdmittedBatch | messages.LookUp
    #: Memory for the next admission.
    memory: Memory
    #: Unread offsets divided by admitted offsets, for the plan of this batch.
    backlog_ratio: float = 1.0


def limit_batch(
    request: AdmitBatch, options: PlannerOptions, memory: Memory, state: StickyState
) -> LimitResult:
    """Return where the batch ends, or a timestamp whose offsets Java must look up first.

    With a timestamp, the memory is unchanged: Java repeats the request, with Kafka's answer.
    """
    batch = unpack_batch(request, options)
    cost = forecast(batch, state)
    times = unpack_times(request) if options.needs_times else None
    seconds_left = retention_s = np.full(batch.range_count, np.inf)
    if times is not None and options.fairness == "deadline":
        retention_ms = request.retention_ms or {}
        topic_retention_ms = np.array([retention_ms.get(topic, np.inf) for topic in batch.topics])
        retention_s = (topic_retention_ms / 1000)[batch.topic]
        seconds_left = compute_seconds_left(times.stamp_ms, retention_s, times.now_ms)
    lag = Lag(
        batch.topics, batch.topic, batch.partition, batch.start, batch.end, cost.seconds_per_offset,
        cost.seconds_per_range, cost.bytes_per_offset, cost.slots, seconds_left, retention_s,
    )  # fmt: skip
    aligned_ends, spread_s = None, 0.0
    if times is not None and options.align_event_time is not None:
        alignment = Alignment(
            round(1000 * options.align_event_time), round(1000 * options.max_future_seconds)
        )
        ends_or_time = align(lag, times, alignment, memory.steps)
        if isinstance(ends_or_time, int):
            return LimitResult(messages.LookUp(ends_or_time), memory)
        aligned_ends, spread_s = ends_or_time, find_spread_s(times, alignment)
    if request.last is not None:
        offsets, batch_s = request.last.records, request.last.seconds
        slot_s = float(np.nansum(batch.reports.seconds)) or offsets * ASSUMED_S_PER_OFFSET
        memory = remember_batch_time(memory, BatchTime(offsets, slot_s / cost.slots, batch_s))
    limits = Limits(
        request.most_records,
        options.max_bytes_per_trigger,
        options.target_batch_seconds,
        options.fairness,
        dict(options.weights),
        dict(options.floors),
        request.fixed_end,
    )
    if aligned_ends is None:
        admission = admit(lag, limits, memory)
    else:
        admission = admit_up_to(lag, aligned_ends, limits, memory)
    admitted_offsets = int((admission.end - batch.start).sum())
    held_back_offsets = sum((batch.end - admission.end).tolist())
    metrics: dict[str, str | int | float] = {
        "admittedRecords": admitted_offsets,
        "heldBackRecords": held_back_offsets,
        "heldBackBy": admission.held_back_by or "nothing",
    }
    if np.isfinite(seconds_left).any():
        metrics["secondsToLoss"] = round(max(0.0, float(seconds_left.min())), 3)
    if aligned_ends is not None:
        metrics["eventTimeSpreadSeconds"] = spread_s
    ranges = pack_ranges(batch.topics, batch.topic, batch.partition, batch.start, admission.end)
    answer = messages.AdmittedBatch(ranges, metrics)
    return LimitResult(answer, admission.memory, 1.0 + held_back_offsets / admitted_offsets)

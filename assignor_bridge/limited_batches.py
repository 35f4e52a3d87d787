"""Between the messages and `admission`: how far a batch goes, by what the planner has learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.admission.admit import admit, completed
from assignor_bridge.admission.align import Alignment, admit_within, align, spread
from assignor_bridge.admission.lag import BatchTime, Lag, Limits
from assignor_bridge.planner.forecast import ASSUMED_SECONDS, forecast
from assignor_bridge.protocol import messages
from assignor_bridge.protocol.columns import batch_of, pack_ranges, unpack_times

if TYPE_CHECKING:
    from assignor_bridge.admission.lag import Memory
    from assignor_bridge.options import PlannerOptions
    from assignor_bridge.protocol.messages import AdmitBatch


def admit_batch(
    request: AdmitBatch, options: PlannerOptions, memory: Memory
) -> tuple[messages.Admitted | messages.LookUp, Memory]:
    """Answer a request, and return what to remember until the next one.

    A look-up changes nothing: the same request comes again, with what Kafka answered.
    """
    batch = batch_of(request, options)
    costs = forecast(batch, request.state)
    lag = Lag(
        batch.topics, batch.topic, batch.partition, batch.start, batch.end,
        costs.work, costs.fixed, costs.bytes, costs.slots,
    )  # fmt: skip
    aligned, apart = None, 0.0
    if options.align_event_time is not None:
        times = unpack_times(request)
        alignment = Alignment(
            round(1000 * options.align_event_time), round(1000 * options.max_future_seconds)
        )
        found = align(lag, times, alignment, memory.steps)
        if isinstance(found, int):
            return messages.LookUp(found), memory
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
    metrics: dict[str, str | int | float] = {
        "admittedRecords": records,
        "heldBackRecords": sum((batch.end - admitted.end).tolist()),
        "heldBackBy": admitted.held_by or "nothing",
    }
    if aligned is not None:
        metrics |= {
            "eventTimeSpreadSeconds": apart,
        }
    ranges = pack_ranges(batch.topics, batch.topic, batch.partition, batch.start, admitted.end)
    return messages.Admitted(ranges, metrics), admitted.memory


def backlog(admitted: messages.Admitted) -> float:
    """Return the offsets that wait over those of the batch."""
    taken, held = (admitted.metrics[name] for name in ("admittedRecords", "heldBackRecords"))
    return 1.0 + float(held) / float(taken)

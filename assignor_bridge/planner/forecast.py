"""Predict the cost of unread ranges, so that admission can limit the next batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assignor_bridge.planner.costs import MIN_DENSITY, fill_from_topic, predict
from assignor_bridge.planner.learning import learn
from assignor_bridge.planner.slots import share_slots
from assignor_bridge.planner.table import load_table

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, MicroBatch
    from checkpoints.sticky_state import StickyState

#: Seconds per offset until seconds are reported. Without it, admission could limit no duration.
ASSUMED_S_PER_OFFSET = 1e-5


class Forecast(NamedTuple):
    """Predicted costs for admission (columns have one element per range)."""

    #: Slot seconds per offset.
    seconds_per_offset: Floats
    #: Fixed slot seconds per range.
    seconds_per_range: Floats
    #: Bytes per offset; NaN if no bytes are reported yet.
    bytes_per_offset: Floats
    #: Number of slots, weighted by executor speed.
    slots: float


def forecast(batch: MicroBatch, state: StickyState) -> Forecast:
    """Predict the costs of a batch's ranges from the last batch's state, and the new reports."""
    batch = share_slots(batch, state)
    table = load_table(state, batch)
    state = learn(table, batch).state
    weights = predict(state, table.line, batch)
    log_bytes = fill_from_topic(state.bytes, state.topic, np.nan)
    density = np.clip(fill_from_topic(state.density, state.topic, 1.0), MIN_DENSITY, 1.0)
    has_seconds = weights.basis == "seconds"
    work_per_offset = (weights.work - weights.fixed_work) / batch.size
    return Forecast(
        work_per_offset if has_seconds else np.full(batch.range_count, ASSUMED_S_PER_OFFSET),
        weights.fixed_work,
        (np.exp(log_bytes) * density)[table.line],
        float((batch.executor_slots / weights.slowness).sum()),
    )

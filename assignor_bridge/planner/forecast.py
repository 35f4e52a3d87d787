"""Predict a batch's reading cost for admission, before the batch is planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.costs import MIN_DENSITY, fill_from_topic, predict
from assignor_bridge.planner.learn import learn
from assignor_bridge.planner.slots import share_slots
from assignor_bridge.planner.table import load_table

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, MicroBatch
    from checkpoints.sticky_state import StickyState

#: Seconds per record until seconds are reported.
ASSUMED_RECORD_S = 1e-5


@dataclass(frozen=True, eq=False)
class Forecast:
    """Predicted cost of each range (one element per range)."""

    #: Slot seconds per offset.
    seconds_per_offset: Floats
    #: Fixed slot seconds per range.
    seconds_per_range: Floats
    #: Bytes per offset; NaN if no bytes are reported yet.
    bytes_per_offset: Floats
    #: Number of slots, weighted by executor speed.
    slots: float


def forecast(batch: MicroBatch, state: StickyState) -> Forecast:
    """Return the predicted cost of each range."""
    batch = share_slots(batch, state)
    table = load_table(state, batch)
    learned, _ = learn(table, batch)
    weights = predict(learned, table.line, batch)
    bytes_per_record = np.exp(fill_from_topic(learned.bytes, learned.topic, np.nan))
    density = np.clip(fill_from_topic(learned.density, learned.topic, 1.0), MIN_DENSITY, 1.0)
    has_seconds = weights.basis == "seconds"
    seconds_per_offset = (weights.work - weights.fixed) / batch.size
    return Forecast(
        seconds_per_offset if has_seconds else np.full(batch.ranges, ASSUMED_RECORD_S),
        weights.fixed if has_seconds else np.zeros(batch.ranges),
        (bytes_per_record * density)[table.line],
        float((batch.executor_slots / weights.slowness).sum()),
    )

"""What reading the ranges of a batch would cost, by what was learned and by the newest reports.

For who decides how far a batch goes, before there is a plan of it.
"""

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


#: Seconds that a record is thought to take while nobody has reported any.
ASSUMED_SECONDS = 1e-5


@dataclass(frozen=True, eq=False)
class Forecast:
    """Columns with a cell a range of the batch."""

    #: Seconds of a slot that an offset takes, and the range beside its offsets.
    work: Floats
    fixed: Floats
    #: Bytes an offset; not a number where nobody has reported any.
    bytes: Floats
    #: Slots, each counted by the speed of its executor.
    slots: float


def forecast(batch: MicroBatch, state: StickyState) -> Forecast:
    """Return what reading each range would cost."""
    batch = share_slots(batch, state)
    table = load_table(state, batch)
    learned, _ = learn(table, batch)
    weights = predict(learned, table.line, batch)
    size = np.exp(fill_from_topic(learned.bytes, learned.topic, np.nan))
    density = np.clip(fill_from_topic(learned.density, learned.topic, 1.0), MIN_DENSITY, 1.0)
    known = weights.basis == "seconds"
    seconds = (weights.work - weights.fixed) / batch.size
    return Forecast(
        seconds if known else np.full(batch.ranges, ASSUMED_SECONDS),
        weights.fixed if known else np.zeros(batch.ranges),
        (size * density)[table.line],
        float((batch.executor_slots / weights.slowness).sum()),
    )

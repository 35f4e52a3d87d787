"""What reading the ranges of a batch would cost, by what was learned and by the newest reports.

For who decides how far a batch goes, before there is a plan of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.costs import LEAST_DENSITY, filled, predict
from assignor_bridge.planner.learn import learn
from assignor_bridge.planner.table import load
from checkpoints.sticky_state import StateError, StickyState, decode

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Batch, Floats


@dataclass(frozen=True, eq=False)
class Forecast:
    """Columns with a cell a range of the batch."""

    #: Work of an offset, and of the range beside its offsets; in seconds of a slot or not.
    work: Floats
    fixed: Floats
    in_seconds: bool
    #: Bytes an offset; not a number where nobody has reported any.
    bytes: Floats
    #: Slots, each counted by the speed of its executor.
    slots: float


def forecast(batch: Batch, state_text: str | None) -> Forecast:
    """Return what reading each range would cost; a state that cannot be used knows nothing."""
    try:
        state = decode(state_text) if state_text else StickyState.empty()
    except StateError:
        state = StickyState.empty()
    table = load(state, batch)
    learned, _ = learn(table, batch)
    weights = predict(learned, table.line, batch)
    size = np.exp(filled(learned.bytes, learned.topic, np.nan))
    density = np.clip(filled(learned.density, learned.topic, 1.0), LEAST_DENSITY, 1.0)
    return Forecast(
        (weights.work - weights.fixed) / batch.size,
        weights.fixed,
        weights.basis == "seconds",
        (size * density)[table.line],
        float((batch.executor_slots / weights.slowness).sum()),
    )

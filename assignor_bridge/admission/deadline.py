"""Fairness by deadline: partitions whose records retention may delete soon come first.

Kafka deletes a segment when its newest record is older than `retention.ms`. The segment of the
first unread record has none that is older, so that record lives for `stamp + retention - now` at
least.

To read the earliest deadline first loses nothing wherever nothing need be lost (Liu and Layland
1973), but everybody would wait for a backlog with days to live. So a partition is in a hurry only
within a margin; and those with about the same time left share alike, for it is not known which of
the records behind the first one are urgent, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.admission.fill import fill
from assignor_bridge.admission.lag import Budget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.admission.lag import BatchTime, Floats, Ints, Lag

#: The margin: for clocks that differ and bursts behind a first record, for so many batches, and for
#: what waits, read with this part of each batch; but at most this part of the retention.
_MARGIN_S, _MARGIN_BATCHES, _URGENT_SHARE_OF_BATCH, _MAX_SHARE_OF_RETENTION = 300.0, 10, 0.5, 0.5
_MIN_MARGIN_S = 0.001
#: Time left is told apart by halves of the margin, so many times.
_MAX_HALVINGS = 10


def compute_seconds_left(stamp_ms: Ints, retention_s: Floats, now_ms: int) -> Floats:
    """Return how long each first unread record lives at least; infinite where that is unknown.

    Parameters
    ----------
    stamp_ms
        Kafka's timestamp of the record, -1 for unknown.
    retention_s
        Of its topic; infinite where records are kept for ever, or nobody knows for how long.

    Examples
    --------
    >>> seconds_left(np.array([1_000, -1]), np.array([60.0, 60.0]), 11_000).tolist()
    [50.0, inf]
    """
    return np.where(stamp_ms < 0, np.inf, retention_s - (now_ms - stamp_ms) / 1000)


def compare_with_margin(lag: Lag, times: Sequence[BatchTime]) -> Floats:
    """Return the time left as a share of the margin: less than 1 is a hurry."""
    batch = float(np.median([time.seconds for time in times] or [0.0]))
    offset = float(np.median([time.seconds / max(time.records, 1.0) for time in times] or [0.0]))
    needed = _MARGIN_S + _MARGIN_BATCHES * batch + lag.size * offset / _URGENT_SHARE_OF_BATCH
    margin = np.minimum(needed, _MAX_SHARE_OF_RETENTION * lag.retention)
    return np.asarray(lag.left / np.maximum(margin, _MIN_MARGIN_S))


def raise_urgent(  # noqa: PLR0917
    least: Ints,
    most: Ints,
    weight: Floats,
    budgets: Sequence[Budget],
    order: Ints,
    share: Floats,
) -> Ints:
    """Raise what partitions get at least where time runs out: soonest first, up to all they have.

    Parameters
    ----------
    share
        Time left as a share of the margin; the other parameters are those of `fill`.
    """
    least = least.copy()
    hurry = order[(share < 1)[order]]
    halves = np.floor(np.log2(np.maximum(share[hurry], 0.5**_MAX_HALVINGS)))
    for half in np.unique(halves).tolist():
        rows = hurry[halves == half]
        inside = []
        for name, cost, amount in budgets:
            others = float(cost @ least - cost[rows] @ least[rows])
            inside.append(Budget(name, cost[rows], amount - others))
        every = np.arange(len(rows))
        least[rows], held_by = fill(least[rows], most[rows], weight[rows], inside, every)
        if held_by is not None:
            break
    return least

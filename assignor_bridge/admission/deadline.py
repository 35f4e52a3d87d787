"""Deadline fairness: partitions whose records retention may delete soon come first.

Kafka deletes a segment when its newest record is older than `retention.ms`, so the first unread
record lives for at least `stamp + retention - now`.

Reading in deadline order loses no record if any order can avoid a loss (Liu and Layland, 1973). But
then all partitions would wait for a backlog with days left. So a partition is urgent only if its
time left is below a margin. Urgent partitions with about the same time left share equally, because
it is unknown how many records behind the first one are urgent too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.admission.batch_inputs import Budget
from assignor_bridge.admission.fill import fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.admission.batch_inputs import BatchTime, Floats, Ints, Lag

_MARGIN_S = 300.0  # part of the margin, for clock differences and bursts
_MARGIN_BATCHES = 10  # part of the margin, in median batch durations
_URGENT_SHARE = 0.5  # share of each batch that the margin assumes for reading one partition's lag
_MAX_SHARE_OF_RETENTION = 0.5  # upper bound of the margin, as a share of the retention time
_MIN_MARGIN_S = 0.001  # so that divisions are safe
_URGENT_GROUPS = 10  # groups by time left: 1/2 to 1 of the margin, 1/4 to 1/2, ..., the remainder


def compute_seconds_left(stamp_ms: Ints, retention_s: Floats, now_ms: int) -> Floats:
    """Return a lower bound on the seconds until retention deletes each first unread record.

    It is infinite if the timestamp is unknown (-1), or if `retention_s` is infinite.

    >>> compute_seconds_left(np.array([1_000, -1]), np.array([60.0, 60.0]), 11_000).tolist()
    [50.0, inf]
    """
    return np.where(stamp_ms < 0, np.inf, retention_s - (now_ms - stamp_ms) / 1000)


def compare_with_margin(lag: Lag, times: Sequence[BatchTime]) -> Floats:
    """Return each partition's time left as a share of its margin; below 1 it is urgent."""
    batch_s = float(np.median([t.seconds for t in times] or [0.0]))
    s_per_offset = float(np.median([t.seconds / max(t.offsets, 1.0) for t in times] or [0.0]))
    needed_s = _MARGIN_S + _MARGIN_BATCHES * batch_s + lag.size * s_per_offset / _URGENT_SHARE
    margin_s = np.minimum(needed_s, _MAX_SHARE_OF_RETENTION * lag.retention_s)
    return np.asarray(lag.seconds_left / np.maximum(margin_s, _MIN_MARGIN_S))


def raise_urgent_minimums(
    min_offsets: Ints,
    max_offsets: Ints,
    weight: Floats,
    budgets: Sequence[Budget],
    order: Ints,
    *,
    margin_share: Floats,
) -> Ints:
    """Return the minimums, raised for urgent partitions within the budgets, most urgent first.

    `margin_share` is the time left as a share of the margin; for the other parameters see `fill`.
    """
    min_offsets = min_offsets.copy()
    urgent_rows = order[(margin_share < 1)[order]]
    groups = np.floor(np.log2(np.maximum(margin_share[urgent_rows], 0.5**_URGENT_GROUPS)))
    for group in np.unique(groups).tolist():
        rows = urgent_rows[groups == group]
        minimums = min_offsets[rows]
        remaining_budgets = []
        for name, cost, amount in budgets:
            used_amount = float(cost @ min_offsets - cost[rows] @ minimums)
            remaining_budgets.append(Budget(name, cost[rows], amount - used_amount))
        min_offsets[rows], held_back_by = fill(
            minimums, max_offsets[rows], weight[rows], remaining_budgets, np.arange(len(rows))
        )
        if held_back_by is not None:
            break
    return min_offsets

"""Create lags for tests from numbers of unread records and their costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from assignor_bridge.admission.batch_inputs import Lag

if TYPE_CHECKING:
    from collections.abc import Sequence


def make_lag(
    waiting: dict[str, Sequence[int]],
    *,
    work: float | Sequence[float] = 1e-5,
    fixed: float = 0.0,
    size: float | Sequence[float] = np.nan,
    slots: float = 1.0,
    left: float | Sequence[float] = np.inf,
    retention: float | Sequence[float] = np.inf,
) -> Lag:
    """Return the lag of each topic's partitions, numbered from 0, which begin at offset 10."""
    topics = tuple(sorted(waiting))
    rows = [(t, p, n) for t, name in enumerate(topics) for p, n in enumerate(waiting[name])]
    topic, partition, count = np.array(rows, np.int64).reshape(-1, 3).T
    start = np.full(len(rows), 10, np.int64)

    def column(value: Any) -> Any:
        return np.broadcast_to(np.array(value, np.float64), len(rows)).copy()

    return Lag(
        topics, topic, partition, start, start + count, column(work), column(fixed),
        column(size), slots, column(left), column(retention),
    )  # fmt: skip

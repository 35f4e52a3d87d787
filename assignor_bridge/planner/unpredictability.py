"""Measure how far the times of tasks deviate from their predictions.

The reports of a batch are compared with what the state before that batch predicts for them. The
next batch is expected to deviate by the median of the last ones.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.cold_reads import is_read_by_owner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.planner.batch import Floats, Ints, MicroBatch
    from assignor_bridge.planner.table import PartitionTable

#: Batches whose median is used. With fewer, one stall would cut a tail off a steady stream.
_MAX_BATCHES = 5
#: Predicted batches that a tail needs: the majority of the batches whose median is used.
MIN_BATCHES = 3


def measure_spread(
    predicted_s: Floats, reported_s: Floats, task: Ints, partition: Ints
) -> float | None:
    """Return the standard deviation of log(reported / predicted seconds) over tasks.

    `task` and `partition` are those of each report. Tasks are weighted by their predicted seconds,
    because short ones hardly delay a batch. Tasks of a partition are not independent. Returns None
    if fewer than two tasks have predicted and reported seconds.

    >>> two, task = np.array([1.0, 1.0]), np.array([0, 1])
    >>> round(measure_spread(two, np.array([1.0, math.e]), task, partition=task), 3)
    0.707
    """
    predicted_task_s, task_s = np.bincount(task, predicted_s), np.bincount(task, reported_s)
    rows = np.flatnonzero((predicted_task_s > 0) & (task_s > 0))
    if len(rows) < 2:
        return None
    weight = predicted_task_s[rows] / predicted_task_s[rows].sum()
    log_ratio = np.log(task_s[rows]) - np.log(predicted_task_s[rows])
    variance = float(weight @ (log_ratio - weight @ log_ratio) ** 2)
    partition_s = np.bincount(partition, predicted_s)
    concentration = float(partition_s @ partition_s) / float(partition_s.sum()) ** 2
    independent_tasks = 1 / max(float(weight @ weight), concentration)
    return math.sqrt(variance * independent_tasks / max(independent_tasks - 1, 0.5))


def update_spreads(
    table: PartitionTable, batch: MicroBatch, predicted_s: Floats | None
) -> tuple[float, ...]:
    """Return the spreads of the last batches, with that of this batch's reports if it is known.

    Reports by the owner of their partition are attributed to its slot. Any other report counts as a
    task, because tails and cut ranges mostly have a task for each piece. `predicted_s`: see
    `predict_reports`.
    """
    spreads, reports, warm_s = table.state.spreads, batch.reports, batch.reports.warm_seconds
    if predicted_s is None:
        return spreads
    rows = np.flatnonzero(
        (table.report_line >= 0)
        & (warm_s > 0)
        & np.isfinite(warm_s)
        & (reports.records >= 1)
        & np.isfinite(predicted_s)
    )
    owner, is_owner = table.owner[table.report_line[rows]], is_read_by_owner(table, batch, rows)
    task = np.where(is_owner, owner, batch.slots + np.arange(len(rows)))
    reported_s = np.minimum(warm_s[rows], 1e15)
    spread = measure_spread(predicted_s[rows], reported_s, task, table.report_line[rows])
    return spreads if spread is None else (*spreads, min(spread, 10.0))[-_MAX_BATCHES:]


def compute_unpredictability(spreads: Sequence[float]) -> float | None:
    """Return the median of the last five `spreads`; None if fewer than three are known.

    Missing spreads count as 0.

    >>> compute_unpredictability([0.5, 0.3, 0.4]), compute_unpredictability([0.5, 0.3, 0.4, 0.6])
    (0.3, 0.4)
    """
    if len(spreads) < MIN_BATCHES:
        return None
    return median((*spreads, *[0.0] * (_MAX_BATCHES - len(spreads))))

"""Measure how long a cold read waits: the first one of a range that its consumer did not read last.

The wait is a cost of a task in a tail (see `planner.tail_shape`), and no part of a partition's
cost: otherwise the cold reads of a tail would look unpredictable, and cause the next tail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from checkpoints.sticky_state import ASSUMED_COLD_READ_S

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Flags, Ints, MicroBatch
    from assignor_bridge.planner.table import PartitionTable

#: Weight of a batch with cold reads in the running mean. With less, a costly tail stays for long.
_GAIN = 0.5
#: Weight of the assumed wait in a batch without cold reads. Without it, a tail that was too costly
#: once would never be tried again; with more, it is tried too often.
_ASSUMPTION_GAIN = 1 / 32
#: Maximum seconds of a wait. Without it, absurd reports prevent tails for many batches.
_MAX_S = 10.0


def update_cold_read_s(table: PartitionTable, batch: MicroBatch) -> float:
    """Return the mean wait of cold reads, in seconds, updated with this batch's reports.

    Only reads by others than the owner count, because these are mostly tasks of their own. In the
    tasks of owners, which read many ranges at once, waits overlap. `load_table` has made the sole
    reader of a partition its owner. Without such reads, the mean approaches the assumed wait.
    """
    reports, cold_read_s = batch.reports, table.state.cold_read_s
    line, wait_s = table.report_line, reports.cold_seconds
    rows = np.flatnonzero((line >= 0) & (wait_s > 0) & np.isfinite(wait_s))
    rows = rows[(table.owner[line[rows]] >= 0) & ~is_read_by_owner(table, batch, rows)]
    if not len(rows):
        return cold_read_s + _ASSUMPTION_GAIN * (ASSUMED_COLD_READ_S - cold_read_s)
    median_s = min(float(np.median(wait_s[rows])), _MAX_S)
    return cold_read_s + _GAIN * (median_s - cold_read_s)


def is_read_by_owner(table: PartitionTable, batch: MicroBatch, rows: Ints) -> Flags:
    """Return whether the slot that owns the partition read the range of each of these reports.

    Reports do not name their slot. It is taken to be the owner if the owner's executor (in local
    mode, any) sent the report, and no other one about this partition.
    """
    line, reports = table.report_line[rows], batch.reports
    index_by_id = {executor.id: i for i, executor in enumerate(batch.executors)}
    executor = np.array([index_by_id.get(name, -1) for name in reports.executors], np.int64)
    reader, owner = executor[reports.executor[rows]], table.owner[line]
    is_owner = (owner >= 0) & (batch.anonymous | (batch.slot_executor[owner] == reader))
    pairs = line * (len(reports.executors) + 1) + reports.executor[rows]
    _, pair, reports_of_pair = np.unique(pairs, return_inverse=True, return_counts=True)
    return np.asarray(is_owner & (reports_of_pair[pair] == 1))

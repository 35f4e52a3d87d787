"""Select the slots that a query plans for (`assignor.slots`) if queries share executors.

Each executor gives slots in proportion to its size. The remaining slots come from the executors
with the largest fractions. Ties go to the executors that read most of the query's partitions, so
that the partitions stay there, and then to a different executor for each query.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Ints, MicroBatch
    from checkpoints.sticky_state import StickyState


def share_slots(batch: MicroBatch, state: StickyState) -> MicroBatch:
    """Return the batch with the slots that its query may use; drop executors that give none.

    >>> from streaming.human_json.snapshots import parse_snapshot
    >>> from checkpoints.sticky_state import StickyState
    >>> executors = [{"id": str(i), "host": "h", "slots": 4} for i in range(3)]
    >>> snapshot = {"executors": executors, "ranges": [], "options": {"assignor.slots": "50%"}}
    >>> [e.slots for e in share_slots(parse_snapshot(snapshot)[0], StickyState.empty()).executors]
    [2, 2, 2]
    """
    requested_slots, slots = batch.options.slots, batch.executor_slots
    if requested_slots is None:
        return batch
    total = int(slots.sum())
    if isinstance(requested_slots, float):
        requested_slots = max(1, math.ceil(requested_slots * total - 1e-9))  # 0.1 * 30 must be 3
    if requested_slots >= total:
        return batch
    counts, remainders = slots * requested_slots // total, slots * requested_slots % total
    remaining_slots = requested_slots - int(counts.sum())
    rotation = (np.arange(len(slots)) - batch.stream * remaining_slots % len(slots)) % len(slots)
    ranking = np.lexsort((rotation, -_count_partitions(batch, state), -remainders))
    counts[ranking[:remaining_slots]] += 1
    counted_executors = zip(batch.executors, counts.tolist(), strict=True)
    executors = tuple(replace(executor, slots=n) for executor, n in counted_executors if n)
    return replace(batch, executors=executors, unused_executor_count=len(slots) - len(executors))


def _count_partitions(batch: MicroBatch, state: StickyState) -> Ints:
    """Return each executor's partition count; for a new one, that of those gone from its host."""
    slots = np.array([reader.slots for reader in state.readers], np.int64)
    reader = np.repeat(np.arange(len(slots)), slots)
    counts = np.bincount(reader[state.member[state.member >= 0]], minlength=len(slots)).tolist()
    count_by_reader = {(r.executor, r.host): n for r, n in zip(state.readers, counts, strict=True)}
    executors = [(e.id, e.host) for e in batch.executors]
    lost_by_host: defaultdict[str, int] = defaultdict(int)
    for id_, host in count_by_reader.keys() - set(executors):
        lost_by_host[host] += count_by_reader[id_, host]
    new_counts = [count_by_reader.get((id_, host), lost_by_host[host]) for id_, host in executors]
    return np.array(new_counts, np.int64)

"""The part of the slots that a query plans for (`assignor.slots`), where several share executors.

Each executor gives in proportion to its slots. Where that does not come out even, the executors
that hold most of the query's partitions give one more, so that these stay; then it goes by turns:
queries that were started one after the other begin at different executors.
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
    """Return the batch with the slots that its query may use; executors without any are left out.

    Examples
    --------
    >>> from streaming.human_json.snapshots import read_snapshot
    >>> from checkpoints.sticky_state import StickyState
    >>> executors = [{"id": str(i), "host": "h", "slots": 4} for i in range(3)]
    >>> asked = {"executors": executors, "ranges": [], "options": {"assignor.slots": "50%"}}
    >>> [e.slots for e in share_slots(read_snapshot(asked)[0], StickyState.empty()).executors]
    [2, 2, 2]
    """
    wanted, slots = batch.settings.slots, batch.executor_slots
    if wanted is None:
        return batch
    total = int(slots.sum())
    if isinstance(wanted, float):
        wanted = max(1, math.ceil(wanted * total - 1e-9))  # 0.1 of 30 are 3
    if wanted >= total:
        return batch
    given, over = slots * wanted // total, slots * wanted % total
    rest = wanted - int(given.sum())
    turn = (np.arange(len(slots)) - batch.stream * rest % len(slots)) % len(slots)
    given[np.lexsort((turn, -_count_owned_partitions(batch, state), -over))[:rest]] += 1
    kept = tuple(
        replace(executor, slots=count)
        for executor, count in zip(batch.executors, given.tolist(), strict=True)
        if count
    )
    return replace(batch, executors=kept, left_out=len(slots) - len(kept))


def _count_owned_partitions(batch: MicroBatch, state: StickyState) -> Ints:
    """Count the partitions that each executor reads, or that its host read before it came."""
    slots = np.array([reader.slots for reader in state.readers], np.int64)
    reader = np.repeat(np.arange(len(slots)), slots)
    lines = np.bincount(reader[state.member[state.member >= 0]], minlength=len(slots)).tolist()
    here = {(r.executor, r.host): count for r, count in zip(state.readers, lines, strict=True)}
    present = {(e.id, e.host) for e in batch.executors}
    on_host: defaultdict[str, int] = defaultdict(int)
    for (executor, host), count in here.items():
        if (executor, host) not in present:
            on_host[host] += count
    return np.array([here.get((e.id, e.host), on_host[e.host]) for e in batch.executors], np.int64)

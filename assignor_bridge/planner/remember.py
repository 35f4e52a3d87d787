"""The memory after a batch: who read each partition last and where it stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.owners import find, keys_of
from checkpoints.sticky_state import Member, StickyState

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Batch
    from assignor_bridge.planner.pack import Tasks

#: Batches without data after which a partition is forgotten.
FORGET_AFTER_BATCHES = 10_000


def remember(batch: Batch, tasks: Tasks, before: StickyState) -> StickyState:
    """Make the state to hand back with the next batch.

    Partitions without data keep their place: they may come back. The generation rises when the
    members or the set of partitions changed.
    """
    number = before.batches + 1
    members = tuple(
        sorted(Member(e.id, e.host, slot) for e in batch.executors for slot in range(e.slots))
    )
    index = {m: i for i, m in enumerate(members)}
    known = before.seen > before.batches - FORGET_AFTER_BATCHES
    names = {before.topics[t] for t in np.unique(before.topic[known]).tolist()}
    topics = tuple(sorted(names | set(batch.topics)))
    code = {name: i for i, name in enumerate(topics)}
    old = keys_of(before.topics, code, before.topic[known], before.partition[known])
    new = keys_of(batch.topics, code, batch.topic, batch.partition)
    keys = np.union1d(old, new)

    def carried(column: np.ndarray, default: float) -> np.ndarray:
        values = np.full(len(keys), default, column.dtype)
        values[find(keys, old)] = column[known]
        return values

    translate = np.array([*(index.get(m, -1) for m in before.members), -1], np.int64)
    member = carried(translate[before.member], -1)
    position = carried(before.position, -1)
    seen = carried(before.seen, 0)
    pieces = tasks.pieces
    order = np.lexsort((pieces.end, pieces.row))
    row = pieces.row[order]
    last = order[np.concatenate((row[1:] != row[:-1], [True]))] if len(row) else order
    place = find(keys, new[pieces.row[last]])
    slot_member = np.fromiter(
        (
            index[Member(batch.executors[e].id, batch.executors[e].host, n)]
            for e, n in zip(batch.slot_executor.tolist(), batch.slot_number.tolist(), strict=True)
        ),
        np.int64,
        batch.slots,
    )
    member[place] = slot_member[pieces.slot[last]]
    position[place] = pieces.end[last]
    seen[place] = number
    changed = (
        members != before.members or len(keys) != len(before.topic) or (topics != before.topics)
    )
    return StickyState(
        generation=before.generation + int(changed),
        batches=number,
        members=members,
        speeds={},
        topics=topics,
        topic=keys >> 32,
        partition=keys & 0xFFFFFFFF,
        member=member,
        position=position,
        seen=seen,
        cost=carried(before.cost, np.nan),
        last_cost=carried(before.last_cost, np.nan),
        bytes=carried(before.bytes, np.nan),
        density=carried(before.density, np.nan),
    )

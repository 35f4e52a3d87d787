"""The memory during one batch: one line a partition, of the state and of the batch.

Partitions without data keep their line: they may come back. Who read each last is told in slots
that exist now. Executors come and go, and after a restart of the driver ids begin anew: the same id
may then be another executor, on another host. So an executor is still there only if id and host
are. The slots of one that is gone are dealt evenly over the slots of new executors on its host, so
that partitions return to the host that had them; where no new one is there, what they had has no
owner. What the readers report (a task that ran elsewhere than planned) outranks what was planned.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from assignor_bridge.planner.batch import ANONYMOUS
from checkpoints.sticky_state import KnownExecutor, StickyState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assignor_bridge.planner.batch import Flags, Ints, MicroBatch
    from checkpoints.sticky_state import Pace


@dataclass(frozen=True, eq=False)
class PartitionTable:
    """The state, with a line for each partition of the batch as well, and members as of now."""

    state: StickyState
    #: Topic and partition of each line as one number: rises.
    key: Ints
    #: Line of each range of the batch, and of each report (-1: of a partition that is not here).
    line: Ints
    reported: Ints
    #: Whether the state knew the partition of a line, and whether that had a reader.
    known: Flags
    had_reader: Flags
    #: Whether members or partitions are others than in the state.
    changed: bool
    #: Share of the reported partitions that were read where they were planned; None if unknown.
    hit_rate: float | None

    @property
    def owner(self) -> Ints:
        """Slot that read each line's partition last, -1 for none."""
        return self.state.member

    @cached_property
    def range_owner(self) -> Ints:
        """Slot that read each range's partition last, -1 for none."""
        return self.owner[self.line]


def load_table(
    state: StickyState, batch: MicroBatch, forget_after: int | None = None
) -> PartitionTable:
    """Extend the state by the batch's partitions, and see who of its readers is still there.

    Partitions that the query reads no more, where that is known, are left out.

    Parameters
    ----------
    forget_after
        Batches without data after which a partition is left out; None for the state's own.
    """
    is_held = state.seen > state.batches - (forget_after or state.hold)
    if batch.partitions is not None:
        counts = np.array([batch.partitions.get(name, 0) for name in state.topics], np.int64)
        is_held &= state.partition < counts[state.topic]
    kept = np.flatnonzero(is_held)
    names = {state.topics[t] for t in np.flatnonzero(np.bincount(state.topic[kept])).tolist()}
    topics = tuple(sorted(names.union(batch.topics)))
    number = {name: i for i, name in enumerate(topics)}

    def keys(names: tuple[str, ...], topic: Ints, partition: Ints) -> Ints:
        numbers = np.fromiter((number.get(name, -1) for name in names), np.int64, len(names))
        return np.asarray((numbers[topic] << 32) + partition)

    old = keys(state.topics, state.topic[kept], state.partition[kept])
    asked, seen = keys(batch.topics, batch.topic, batch.partition), batch.observed
    key = old if np.array_equal(old, asked) else np.union1d(old, asked)
    place = np.searchsorted(key, old)

    def column(values: NDArray[Any], default: float = np.nan) -> NDArray[Any]:
        extended = np.full(len(key), default, values.dtype)
        extended[place] = values[kept]
        return extended

    report = keys(seen.topics, seen.topic, seen.partition)
    report[(seen.partition < 0) | (seen.partition >= 1 << 32)] = -1
    reported = np.searchsorted(key, report)
    reported[np.append(key, np.iinfo(np.int64).min)[reported] != report] = -1
    heirs, paces = _map_members_to_slots(state, batch)
    member = column(state.member, -1)
    owner, hit_rate = _apply_reports(np.append(heirs, -1)[member], reported, batch)
    known = np.zeros(len(key), np.bool_)
    known[place] = True
    extended = replace(
        state,
        readers=tuple(KnownExecutor(e.id, e.host, e.slots) for e in batch.executors),
        paces=paces,
        topics=topics,
        topic=key >> 32,
        partition=key & 0xFFFFFFFF,
        member=owner,
        position=column(state.position, -1),
        seen=column(state.seen, 0),
        cost=column(state.cost),
        last_cost=column(state.last_cost),
        evidence=column(state.evidence),
        bytes=column(state.bytes),
        density=column(state.density),
    )
    before = state.readers, state.topics, len(state.topic)
    changed = (extended.readers, topics, len(key)) != before or not bool(known.all())
    line = np.searchsorted(key, asked)
    return PartitionTable(extended, key, line, reported, known, member >= 0, changed, hit_rate)


def _map_members_to_slots(state: StickyState, batch: MicroBatch) -> tuple[Ints, dict[str, Pace]]:
    """Return the slot that takes over from each member of the state, -1 for none; and the paces.

    A slot number beyond those that the executor has now falls to one that it has. A new executor
    begins with what is known of the pace of one that it takes over from.
    """
    index = {(e.id, e.host): i for i, e in enumerate(batch.executors)}
    before = {(r.executor, r.host) for r in state.readers}
    slots = np.array([r.slots for r in state.readers], np.int64)
    reader = np.repeat(np.arange(len(slots)), slots)
    number = np.arange(len(reader)) - (np.cumsum(slots) - slots)[reader]
    same = np.array([index.get((r.executor, r.host), -1) for r in state.readers], np.int64)[reader]
    heirs = np.where(same >= 0, batch.first_slot[same] + number % batch.executor_slots[same], -1)
    orphans: dict[str, list[int]] = defaultdict(list)
    for member in np.flatnonzero(same < 0).tolist():
        executor, host, _ = state.readers[reader[member]]
        if executor != ANONYMOUS:
            orphans[host].append(member)
    new: dict[str, list[int]] = defaultdict(list)
    for e, first in zip(batch.executors, batch.first_slot.tolist(), strict=True):
        if e.host in orphans and (e.id, e.host) not in before:
            new[e.host].extend(range(first, first + e.slots))
    for host, inheriting in new.items():
        shares = np.arange(len(orphans[host])) * len(inheriting) // len(orphans[host])
        heirs[orphans[host]] = np.array(inheriting)[shares]
    has = np.flatnonzero(heirs >= 0)[::-1]
    takes_over = np.full(len(batch.executors), -1)
    takes_over[batch.slot_executor[heirs[has]]] = reader[has]  # from several: from the first
    paces = {
        executor.id: state.paces[state.readers[r].executor]
        for executor, r in zip(batch.executors, takes_over.tolist(), strict=True)
        if r >= 0 and state.readers[r].executor in state.paces
    }
    return heirs, paces


def _apply_reports(owner: Ints, reported: Ints, batch: MicroBatch) -> tuple[Ints, float | None]:
    """Follow the reports: what another executor read is there. Return the share of hits as well.

    Of several reports of a partition (it was split) it is not known which piece each was: one
    counts only where nothing else is known.
    """
    seen = batch.observed
    row = np.flatnonzero(reported >= 0)
    index = {e.id: i for i, e in enumerate(batch.executors)}
    present = np.array([index.get(name, -1) for name in seen.executors], np.int64)
    row = row[present[seen.executor[row]] >= 0]
    if batch.anonymous or not len(row):
        return owner, None
    line, executor = reported[row], present[seen.executor[row]]
    before = owner[line]
    planned = np.where(before >= 0, batch.slot_executor[before], -1)
    single = np.bincount(reported[reported >= 0])[line] == 1
    hits = (planned == executor)[single & (before >= 0)]
    elsewhere = (planned != executor) & (single | (before < 0))
    line, executor, before = line[elsewhere], executor[elsewhere], before[elsewhere]
    number = np.where(before >= 0, batch.slot_number[before], line)
    slot = batch.first_slot[executor] + number % batch.executor_slots[executor]
    owner = owner.copy()
    owner[line[::-1]] = slot[::-1]  # the first of several is written last
    return owner, float(hits.mean()) if len(hits) else None

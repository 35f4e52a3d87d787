"""The partition table of a batch: one line per partition of the state and of the batch.

Partitions without data keep their line, because data may arrive again. Owners are expressed as
current slots. Spark reuses executor ids after a driver restart, so an executor is the same only if
both its id and its host match. If an executor left, its slots are spread over the slots of new
executors on its host, so that partitions stay on that host. Without a new executor there, its
partitions have no owner. If another executor than planned read a partition, one of its slots owns
the partition (see `_apply_reports`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from assignor_bridge.planner.batch import ANONYMOUS
from checkpoints.sticky_state import StickyState, StoredExecutor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assignor_bridge.planner.batch import Flags, Ints, MicroBatch
    from checkpoints.sticky_state import Pace


@dataclass(frozen=True, eq=False)
class PartitionTable:
    """The state plus the batch's partitions, minus dropped ones, with current slots as members."""

    state: StickyState
    #: Topic and partition of each line as one number, ascending.
    key: Ints
    #: Line of each range of the batch.
    line: Ints
    #: Line of each report; -1 if its partition has no line.
    report_line: Ints
    #: Whether each line was in the state, and was not dropped.
    was_known: Flags
    #: Whether each line's partition had a reader in the state.
    had_reader: Flags
    #: Whether members or partitions differ from the state's.
    changed: bool
    #: Share of the partitions with an owner and one report that the owner's executor read; None if
    #: there are none, or in local mode.
    hit_rate: float | None

    @property
    def owner(self) -> Ints:
        """Slot that read each line's partition last; -1 if none."""
        return self.state.member

    @cached_property
    def range_owner(self) -> Ints:
        """Slot that read each range's partition last; -1 if none."""
        return self.owner[self.line]


def load_table(
    state: StickyState, batch: MicroBatch, forget_after: int | None = None
) -> PartitionTable:
    """Extend the state by the batch's partitions, and map its members to current slots.

    Partitions are dropped if the query no longer reads them, or if they had no data for
    `forget_after` batches (None: the state's `hold`).
    """
    is_kept = state.seen > state.batches - (forget_after or state.hold)
    if batch.partitions is not None:
        counts = np.array([batch.partitions.get(name, 0) for name in state.topics], np.int64)
        is_kept &= state.partition < counts[state.topic]
    kept_lines = np.flatnonzero(is_kept)
    kept_topics = np.flatnonzero(np.bincount(state.topic[kept_lines])).tolist()
    topics = tuple(sorted({state.topics[t] for t in kept_topics}.union(batch.topics)))
    index_by_topic = {name: i for i, name in enumerate(topics)}

    def make_keys(names: tuple[str, ...], topic: Ints, partition: Ints) -> Ints:
        indices = np.array([index_by_topic.get(name, -1) for name in names], np.int64)
        return np.asarray((indices[topic] << 32) + partition)

    old_key = make_keys(state.topics, state.topic[kept_lines], state.partition[kept_lines])
    batch_key = make_keys(batch.topics, batch.topic, batch.partition)
    key = old_key if np.array_equal(old_key, batch_key) else np.union1d(old_key, batch_key)
    old_index = np.searchsorted(key, old_key)

    def align_to_keys(values: NDArray[Any], default: float = np.nan) -> NDArray[Any]:
        column = np.full(len(key), default, values.dtype)
        column[old_index] = values[kept_lines]
        return column

    reports = batch.reports
    report_key = make_keys(reports.topics, reports.topic, reports.partition)
    report_key[(reports.partition < 0) | (reports.partition >= 1 << 32)] = -1
    report_line = np.searchsorted(key, report_key)
    report_line[np.append(key, np.iinfo(np.int64).min)[report_line] != report_key] = -1
    slot_of_member, paces = _map_members(state, batch)
    member = align_to_keys(state.member, -1)
    in_tail = align_to_keys(state.in_tail, False)
    # The reader of a tail does not own its partition.
    owner_report_line = np.where(np.append(in_tail, False)[report_line], -1, report_line)
    mapped_owner = np.append(slot_of_member, -1)[member]
    owner, hit_rate = _apply_reports(mapped_owner, owner_report_line, batch)
    was_known = np.zeros(len(key), np.bool_)
    was_known[old_index] = True
    new_state = replace(
        state,
        readers=tuple(StoredExecutor(e.id, e.host, e.slots) for e in batch.executors),
        paces=paces,
        topics=topics,
        topic=key >> 32,
        partition=key & 0xFFFFFFFF,
        member=owner,
        position=align_to_keys(state.position, -1),
        seen=align_to_keys(state.seen, 0),
        cost=align_to_keys(state.cost),
        last_cost=align_to_keys(state.last_cost),
        evidence=align_to_keys(state.evidence),
        bytes=align_to_keys(state.bytes),
        density=align_to_keys(state.density),
        in_tail=in_tail,
    )
    old_layout = state.readers, state.topics, len(state.topic)
    changed = (new_state.readers, topics, len(key)) != old_layout or not bool(was_known.all())
    line = np.searchsorted(key, batch_key)
    return PartitionTable(
        new_state, key, line, report_line, was_known, member >= 0, changed, hit_rate
    )


def _map_members(state: StickyState, batch: MicroBatch) -> tuple[Ints, dict[str, Pace]]:
    """Return the current slot of each member of the state (-1: none), and the executors' paces.

    If an executor has fewer slots than before, members wrap around to its first slots. A new
    executor starts with the pace of an executor that it replaces.
    """
    index_by_executor = {(e.id, e.host): i for i, e in enumerate(batch.executors)}
    old_readers = {(r.executor, r.host) for r in state.readers}
    slot_counts = np.array([r.slots for r in state.readers], np.int64)
    reader = np.repeat(np.arange(len(slot_counts)), slot_counts)
    number = np.arange(len(reader)) - (np.cumsum(slot_counts) - slot_counts)[reader]
    indices = [index_by_executor.get((r.executor, r.host), -1) for r in state.readers]
    executor_index = np.array(indices, np.int64)[reader]
    kept_slot = batch.first_slot[executor_index] + number % batch.executor_slots[executor_index]
    slot_of_member = np.where(executor_index >= 0, kept_slot, -1)
    orphans_by_host: dict[str, list[int]] = defaultdict(list)
    for member in np.flatnonzero(executor_index < 0).tolist():
        executor, host, _ = state.readers[reader[member]]
        if executor != ANONYMOUS:
            orphans_by_host[host].append(member)
    new_slots_by_host: dict[str, list[int]] = defaultdict(list)
    for e, first in zip(batch.executors, batch.first_slot.tolist(), strict=True):
        if e.host in orphans_by_host and (e.id, e.host) not in old_readers:
            new_slots_by_host[e.host].extend(range(first, first + e.slots))
    for host, new_slots in new_slots_by_host.items():
        orphans = orphans_by_host[host]
        index_on_host = np.arange(len(orphans)) * len(new_slots) // len(orphans)
        slot_of_member[orphans] = np.array(new_slots)[index_on_host]
    mapped_members = np.flatnonzero(slot_of_member >= 0)[::-1]
    predecessor = np.full(len(batch.executors), -1)
    # The first member wins.
    predecessor[batch.slot_executor[slot_of_member[mapped_members]]] = reader[mapped_members]
    paces = {
        executor.id: state.paces[state.readers[r].executor]
        for executor, r in zip(batch.executors, predecessor.tolist(), strict=True)
        if r >= 0 and state.readers[r].executor in state.paces
    }
    return slot_of_member, paces


def _apply_reports(owner: Ints, report_line: Ints, batch: MicroBatch) -> tuple[Ints, float | None]:
    """Return the owners corrected by the reports, and the hit rate (see `PartitionTable`).

    If a partition has several reports (it was split), it is unknown which piece each report is
    about. Such reports are used only if the partition had no owner.
    """
    reports = batch.reports
    report = np.flatnonzero(report_line >= 0)
    index_by_id = {e.id: i for i, e in enumerate(batch.executors)}
    executor_index = np.array([index_by_id.get(id_, -1) for id_ in reports.executors], np.int64)
    report = report[executor_index[reports.executor[report]] >= 0]
    if batch.anonymous or not len(report):
        return owner, None
    line, executor = report_line[report], executor_index[reports.executor[report]]
    last_slot = owner[line]
    planned_executor = np.where(last_slot >= 0, batch.slot_executor[last_slot], -1)
    is_single = np.bincount(report_line[report_line >= 0])[line] == 1
    is_hit = (planned_executor == executor)[is_single & (last_slot >= 0)]
    is_moved = (planned_executor != executor) & (is_single | (last_slot < 0))
    line, executor, last_slot = line[is_moved], executor[is_moved], last_slot[is_moved]
    number = np.where(last_slot >= 0, batch.slot_number[last_slot], line)
    slot = batch.first_slot[executor] + number % batch.executor_slots[executor]
    owner = owner.copy()
    owner[line[::-1]] = slot[::-1]  # the first of several reports wins
    return owner, float(is_hit.mean()) if len(is_hit) else None

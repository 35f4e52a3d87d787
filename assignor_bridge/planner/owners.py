"""Who read each partition last, in terms of the slots that exist now.

Executors come and go, and after a restart of the driver all have new ids. A slot still there
keeps what it had. The slots of an executor that is gone are dealt evenly over the slots of new
executors on the same host, so that partitions return to the host that had them; where no new one is
there, what they had has no owner. What the readers report (a task that ran elsewhere than
planned) outranks what was planned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.batch import ANONYMOUS

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Batch, Ints
    from checkpoints.sticky_state import Member, StickyState


def keys_of(topics: tuple[str, ...], into: dict[str, int], topic: Ints, partition: Ints) -> Ints:
    """One number for each partition, over the topic numbers of `into`; negative if not in there."""
    translated = np.fromiter((into.get(name, -1) for name in topics), np.int64, len(topics))
    return np.asarray((translated[topic] << 32) + partition) if len(topic) else topic


def find(table: Ints, wanted: Ints) -> Ints:
    """Place of each wanted key in a sorted table, -1 where it is missing."""
    if not len(table):
        return np.full(len(wanted), -1, np.int64)
    place = np.minimum(np.searchsorted(table, wanted), len(table) - 1)
    return np.where(table[place] == wanted, place, -1)


def slots_of_members(members: tuple[Member, ...], batch: Batch) -> tuple[Ints, Ints]:
    """For each member of the state the slot that takes over from it, -1 for none.

    Returns
    -------
    tuple
        The slots, and for each member whether it is the very executor (1) or a replacement (0).
    """
    known = {e.id: i for i, e in enumerate(batch.executors)}
    first = batch.first_slot.tolist()
    slots = np.full(len(members), -1, np.int64)
    same = np.zeros(len(members), np.int64)
    gone: dict[str, list[int]] = {}
    for i, member in enumerate(members):
        executor = known.get(member.executor)
        if executor is None:
            if member.executor != ANONYMOUS:
                gone.setdefault(member.host, []).append(i)
        else:
            slots[i] = first[executor] + member.slot % batch.executors[executor].slots
            same[i] = 1
    if gone:
        before = {member.executor for member in members}
        for host, heirs in _new_slots(before, batch).items():
            orphans = gone.get(host, [])
            for place, i in enumerate(orphans):
                slots[i] = heirs[place * len(heirs) // len(orphans)]
    return slots, same


def _new_slots(before: set[str], batch: Batch) -> dict[str, list[int]]:
    """Slots of the executors that were not there before, by host, in order."""
    found: dict[str, list[int]] = {}
    first = batch.first_slot.tolist()
    for i, executor in enumerate(batch.executors):
        if executor.id not in before:
            found.setdefault(executor.host, []).extend(range(first[i], first[i] + executor.slots))
    return found


def owners(batch: Batch, state: StickyState) -> Ints:
    """Slot that read the partition of each range last, -1 for none."""
    code = {name: i for i, name in enumerate(state.topics)}
    table = (state.topic << 32) + state.partition
    mine = keys_of(batch.topics, code, batch.topic, batch.partition)
    place = find(table, mine)
    known = place >= 0
    slots, _ = slots_of_members(state.members, batch)
    owner = np.full(batch.ranges, -1, np.int64)
    member = np.where(known, state.member[np.maximum(place, 0)] if len(table) else -1, -1)
    has = member >= 0
    owner[has] = slots[member[has]]
    return _as_observed(batch, owner)


def _as_observed(batch: Batch, owner: Ints) -> Ints:
    """Follow the reports: a partition is where it was read."""
    seen = batch.observed
    if not len(seen.partition) or batch.anonymous:
        return owner
    executor = {e.id: i for i, e in enumerate(batch.executors)}
    where = np.fromiter((executor.get(e, -1) for e in seen.executor), np.int64, len(seen.executor))
    code = {name: i for i, name in enumerate(batch.topics)}
    topic = np.fromiter((code.get(t, -1) for t in seen.topic), np.int64, len(seen.topic))
    usable = np.flatnonzero((topic >= 0) & (where >= 0))
    if not len(usable):
        return owner
    key = (topic[usable] << 32) + seen.partition[usable]
    order = np.lexsort((where[usable], key))
    key, where = key[order], where[usable][order]
    mine = (batch.topic << 32) + batch.partition
    first = np.searchsorted(key, mine, "left")
    last = np.searchsorted(key, mine, "right")
    executor_of = np.where(owner >= 0, batch.slot_executor[np.maximum(owner, 0)], -1)
    once = np.flatnonzero(last - first >= 1)
    for row in once.tolist():
        readers = where[first[row] : last[row]].tolist()
        if int(executor_of[row]) in readers:
            continue
        if last[row] - first[row] == 1 or owner[row] < 0:
            target = readers[0]
            number = int(batch.slot_number[owner[row]]) if owner[row] >= 0 else row
            slots = batch.executors[target].slots
            owner[row] = batch.first_slot[target] + number % slots
    return owner

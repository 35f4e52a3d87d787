"""Who read each partition last, in terms of the slots that exist now.

Executors come and go, and after a restart of the driver ids begin anew: the same id may then be
another executor, on another host. So an executor is still there only if id and host are, and its
slots keep what they had. The slots of an executor that is gone are dealt evenly over the slots of
new executors on the same host, so that partitions return to the host that had them; where no new
one is there, what they had has no owner. What the readers report (a task that ran elsewhere than
planned) outranks what was planned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.batch import ANONYMOUS

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Batch, Flags, Ints
    from assignor_bridge.planner.ledger import Ledger
    from checkpoints.sticky_state import Reader


def heirs_of(readers: tuple[Reader, ...], batch: Batch) -> Ints:
    """For each member of the state the slot that takes over from it, -1 for none.

    A slot number beyond those that the executor has now falls to one that it has.
    """
    index = {(e.id, e.host): i for i, e in enumerate(batch.executors)}
    found = [index.get((r.executor, r.host), -1) for r in readers]
    slots = np.array([r.slots for r in readers], np.int64)
    first = np.cumsum(slots) - slots
    executor = np.repeat(np.array(found, np.int64), slots)
    number = np.arange(len(executor)) - np.repeat(first, slots)
    heir = batch.first_slot[executor] + number % batch.executor_slots[executor]
    heirs = np.where(executor >= 0, heir, -1)
    gone: dict[str, list[int]] = {}
    for reader, executor_now, member in zip(readers, found, first.tolist(), strict=True):
        if executor_now < 0 and reader.executor != ANONYMOUS:
            gone.setdefault(reader.host, []).extend(range(member, member + reader.slots))
    if gone:
        for host, slots_there in _new_slots({(r.executor, r.host) for r in readers}, batch).items():
            orphans = gone.get(host, [])
            for place, member in enumerate(orphans):
                heirs[member] = slots_there[place * len(slots_there) // len(orphans)]
    return heirs


def _new_slots(before: set[tuple[str, str]], batch: Batch) -> dict[str, list[int]]:
    """Slots of the executors that were not there before, by host, in order."""
    found: dict[str, list[int]] = {}
    first = batch.first_slot.tolist()
    for i, executor in enumerate(batch.executors):
        if (executor.id, executor.host) not in before:
            found.setdefault(executor.host, []).extend(range(first[i], first[i] + executor.slots))
    return found


def owners(ledger: Ledger) -> Ints:
    """Slot that read each partition of the ledger last, -1 for none."""
    heirs = np.append(heirs_of(ledger.before.readers, ledger.batch), -1)
    return _as_observed(ledger, heirs[ledger.member])


def hit_rate(ledger: Ledger) -> float | None:
    """Share of the reported partitions that were read where they were planned; None if unknown.

    Only partitions with one report count: of the others it is not known which piece it was.
    """
    line, executor, single = _reports(ledger)
    readers = ledger.before.readers
    number = {name: i for i, name in enumerate(ledger.batch.observed.executors)}
    codes = [number.get(r.executor, -1) for r in readers]
    of_member = np.append(np.repeat(np.array(codes, np.int64), [r.slots for r in readers]), -2)
    planned = of_member[ledger.member[line]]
    judged = single & (planned != -2)
    if not judged.any():
        return None
    return float((planned[judged] == executor[judged]).mean())


def _reports(ledger: Ledger) -> tuple[Ints, Ints, Flags]:
    """Line and executor of each report, and whether it is the partition's only one; by line."""
    seen = ledger.batch.observed
    line = ledger.reported
    good = line >= 0
    line, executor = line[good], seen.executor[good]
    if not len(line):
        return line, executor, good[:0]
    new = np.append(True, line[1:] != line[:-1])
    return line, executor, new & np.append(new[1:], True)


def _as_observed(ledger: Ledger, owner: Ints) -> Ints:
    """Follow the reports: a partition that another executor read is at that executor.

    Of several reports (a partition that was split) one counts only where nothing else is known.
    """
    batch = ledger.batch
    if batch.anonymous or not len(batch.observed):
        return owner
    line, executor, single = _reports(ledger)
    index = {e.id: i for i, e in enumerate(batch.executors)}
    names = batch.observed.executors
    where = np.fromiter((index.get(n, -1) for n in names), np.int64, len(names))[executor]
    before = owner[line]
    planned = np.where(before >= 0, batch.slot_executor[np.maximum(before, 0)], -1)
    elsewhere = (where >= 0) & (planned != where) & (single | (before < 0))
    if not elsewhere.any():
        return owner
    line, where, before = line[elsewhere], where[elsewhere], before[elsewhere]
    number = np.where(before >= 0, batch.slot_number[np.maximum(before, 0)], line)
    slot = batch.first_slot[where] + number % batch.executor_slots[where]
    owner[line[::-1]] = slot[::-1]  # the first of several is written last
    return owner

"""Who read each partition last, in terms of the slots that exist now.

Executors come and go, and after a restart of the driver all have new ids. A slot still there keeps
what it had. The slots of an executor that is gone are dealt evenly over the slots of new executors on
the same host, so that partitions return to the host that had them; where no new one is there, what
they had has no owner. What the readers report (a task that ran elsewhere than planned) outranks what
was planned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.batch import ANONYMOUS

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Batch, Ints
    from assignor_bridge.planner.ledger import Ledger
    from checkpoints.sticky_state import Reader


def heirs_of(readers: tuple[Reader, ...], batch: Batch) -> Ints:
    """For each member of the state the slot that takes over from it, -1 for none.

    A slot number beyond those that the executor has now falls to one that it has.
    """
    known = {e.id: i for i, e in enumerate(batch.executors)}
    heirs: list[int] = []
    gone: dict[str, list[int]] = {}
    for reader in readers:
        executor = known.get(reader.executor)
        if executor is not None:
            first, slots = int(batch.first_slot[executor]), batch.executors[executor].slots
            heirs += [first + slot % slots for slot in range(reader.slots)]
        else:
            if reader.executor != ANONYMOUS:
                gone.setdefault(reader.host, []).extend(
                    range(len(heirs), len(heirs) + reader.slots)
                )
            heirs += [-1] * reader.slots
    if gone:
        for host, slots_there in _new_slots({r.executor for r in readers}, batch).items():
            orphans = gone.get(host, [])
            for place, member in enumerate(orphans):
                heirs[member] = slots_there[place * len(slots_there) // len(orphans)]
    return np.array(heirs, np.int64)


def _new_slots(before: set[str], batch: Batch) -> dict[str, list[int]]:
    """Slots of the executors that were not there before, by host, in order."""
    found: dict[str, list[int]] = {}
    first = batch.first_slot.tolist()
    for i, executor in enumerate(batch.executors):
        if executor.id not in before:
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
    line, where, single = _reports(ledger)
    if not len(line):
        return None
    ids = [reader.executor for reader in ledger.before.readers for _ in range(reader.slots)]
    planned = ledger.member[line]
    judged = np.flatnonzero(single & (planned >= 0))
    if not len(judged):
        return None
    names = ledger.batch.observed.executor
    hits = sum(ids[planned[i]] == names[where[i]] for i in judged.tolist())
    return hits / len(judged)


def _reports(ledger: Ledger) -> tuple[Ints, Ints, Ints]:
    """Line, report and whether it is the partition's only one; sorted by line, then as given."""
    seen = ledger.batch.observed
    names = sorted(set(seen.topic))
    code = {name: i for i, name in enumerate(names)}
    topic = np.fromiter(map(code.__getitem__, seen.topic), np.int64, len(seen.topic))
    line = ledger.find(names, topic, seen.partition)
    report = np.flatnonzero(line >= 0)
    report = report[np.argsort(line[report], kind="stable")]
    line = line[report]
    if not len(line):
        return line, report, line
    new = np.append(True, line[1:] != line[:-1])
    single = new & np.append(new[1:], True)
    return line, report, single


def _as_observed(ledger: Ledger, owner: Ints) -> Ints:
    """Follow the reports: a partition that another executor read is at that executor."""
    batch = ledger.batch
    if batch.anonymous or not len(batch.observed.partition):
        return owner
    line, report, single = _reports(ledger)
    index = {e.id: i for i, e in enumerate(batch.executors)}
    names = batch.observed.executor
    where = np.fromiter((index.get(names[r], -1) for r in report.tolist()), np.int64, len(report))
    # Of several reports the least executor counts, and only where nothing else is known.
    before = owner[line]
    planned = np.where(before >= 0, batch.slot_executor[np.maximum(before, 0)], -1)
    elsewhere = np.flatnonzero(
        (where >= 0) & (planned != where) & (single.astype(bool) | (before < 0))
    )
    for i in elsewhere.tolist():
        executor, at = int(where[i]), int(line[i])
        if not single[i] and owner[at] >= 0 and batch.slot_executor[owner[at]] <= executor:
            continue
        number = int(batch.slot_number[before[i]]) if before[i] >= 0 else at
        owner[at] = batch.first_slot[executor] + number % batch.executors[executor].slots
    return owner

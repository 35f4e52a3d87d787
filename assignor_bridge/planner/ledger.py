"""The memory during one batch: the state's columns, extended by the partitions of the batch.

Made from the state at the start, filled by the steps (what was learned, who reads what now), and
made into the next state at the end. Partitions without data keep their line: they may come back.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from checkpoints.sticky_state import LEAST_HOLD, MOST_INT32, Reader, StickyState

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Batch, Floats, Ints
    from assignor_bridge.planner.pieces import Pieces
    from checkpoints.sticky_state import Pace

#: Batches without data after which a partition is forgotten, at most. Where an assignor plans
#: partitions without data too, they always hold their place for so long.
HOLD_PLACE_BATCHES = 10_000


class Ledger:
    """One line a partition, sorted by topic and partition; columns as in `StickyState`."""

    def __init__(self, state: StickyState, batch: Batch, forget_after: int | None = None) -> None:
        self.before = state
        self.batch = batch
        kept = state.seen > state.batches - (forget_after or state.hold)
        if kept.all():
            names = set(state.topics)
        else:
            names = {state.topics[t] for t in np.unique(state.topic[kept]).tolist()}
        self.topics = tuple(sorted(names | set(batch.topics)))
        self.code = {name: i for i, name in enumerate(self.topics)}
        old = self._keys(state.topics, state.topic[kept], state.partition[kept])
        asked = self._keys(batch.topics, batch.topic, batch.partition)
        if len(old) == len(asked) and (old == asked).all():
            self.key = old
        else:
            self.key = np.union1d(old, asked)
        #: Line of each range of the batch.
        self.line: Ints = np.searchsorted(self.key, asked)
        place = np.searchsorted(self.key, old)
        #: Whether the partition was known before this batch.
        self.known = np.zeros(len(self.key), np.bool_)
        self.known[place] = True

        def ints(column: Ints, default: int) -> Ints:
            values = np.full(len(self.key), default, np.int64)
            values[place] = column[kept]
            return values

        def floats(column: Floats) -> Floats:
            values = np.full(len(self.key), np.nan)
            values[place] = column[kept]
            return values

        #: Member of the *state* that read the partition last.
        self.member = ints(state.member, -1)
        self.position = ints(state.position, -1)
        self.seen = ints(state.seen, 0)
        self.cost = floats(state.cost)
        self.last_cost = floats(state.last_cost)
        self.bytes = floats(state.bytes)
        self.density = floats(state.density)
        self.evidence = floats(state.evidence)
        self._hold = self._hold_next()
        self.paces = _paces(state, batch)
        self.common = state.common
        #: Share of the reported time that the last plan expected elsewhere; None if unknown.
        self.prediction_error: float | None = None

    @property
    def topic(self) -> Ints:
        """Topic (index in `topics`) of each line."""
        return np.asarray(self.key >> 32)

    @property
    def partition(self) -> Ints:
        """Partition number of each line."""
        return np.asarray(self.key & 0xFFFFFFFF)

    def find(self, topics: tuple[str, ...], topic: Ints, partition: Ints) -> Ints:
        """Line of each partition, -1 for those that are not here."""
        if not len(self.key) or not len(topic):
            return np.full(len(topic), -1, np.int64)
        key = np.where(
            (partition >= 0) & (partition < 1 << 32), self._keys(topics, topic, partition), -1
        )
        place = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        return np.where(self.key[place] == key, place, -1)

    @cached_property
    def reported(self) -> Ints:
        """Line of each report of the batch, -1 for those of partitions that are not here."""
        seen = self.batch.observed
        return self.find(seen.topics, seen.topic, seen.partition)

    def _keys(self, topics: tuple[str, ...], topic: Ints, partition: Ints) -> Ints:
        code = np.fromiter((self.code.get(t, -1) for t in topics), np.int64, len(topics))
        return np.asarray((code[topic] << 32) + partition) if len(topic) else np.empty(0, np.int64)

    def close(self, pieces: Pieces, owner: Ints) -> StickyState:
        """Make the state to hand back with the next batch.

        Parameters
        ----------
        pieces
            What is read now, in the order of ranges and offsets.
        owner
            Slot of *this* batch that had each line's partition before, -1 for none.

        The generation rises when members or partitions changed.
        """
        batch, before = self.batch, self.before
        readers = tuple(Reader(e.id, e.host, e.slots) for e in batch.executors)
        member, position, seen = owner.copy(), self.position, self.seen
        if len(pieces):
            last = np.append(pieces.row[1:] != pieces.row[:-1], True)
            line = self.line[pieces.row[last]]
            member[line] = pieces.slot[last]
            position[line] = pieces.end[last]
            seen[line] = before.batches + 1
        changed = (
            readers != before.readers
            or len(self.key) != len(before.topic)
            or self.topics != before.topics
            or not bool(self.known.all())
        )
        return StickyState(
            generation=min(before.generation + int(changed), MOST_INT32),
            batches=min(before.batches + 1, MOST_INT32),
            readers=readers,
            paces={e: self.paces[e] for e in sorted(self.paces)},
            common=self.common,
            topics=self.topics,
            topic=self.topic,
            partition=self.partition,
            member=member,
            position=position,
            seen=seen,
            cost=self.cost,
            last_cost=self.last_cost,
            evidence=self.evidence,
            bytes=self.bytes,
            density=self.density,
            hold=self._hold,
        )

    def _hold_next(self) -> int:
        """Say for how many batches partitions without data will be remembered.

        Twice as long as any was away that came back of late, so that quiet ones find their reader
        again, and what is gone for good does not stay. One that was forgotten is known by its
        offset and by its number: it has been read from, and Kafka numbers a topic's partitions
        without gaps, so it was there when a higher one was.
        """
        state, new = self.before, ~self.known[self.line]
        away = state.batches + 1 - int(self.seen[self.line[~new]].min(initial=state.batches + 1))
        key, old = self.key[self.line[new & (self.batch.start > 0)]], self.key[self.known]
        if len(key) and len(old):
            higher = old[np.minimum(np.searchsorted(old, key), len(old) - 1)]
            if ((higher > key) & (higher >> 32 == key >> 32)).any():
                away = max(away, min(state.hold + 1, state.batches))
        return min(max(2 * away, state.hold - 1, LEAST_HOLD), HOLD_PLACE_BATCHES)


def _paces(state: StickyState, batch: Batch) -> dict[str, Pace]:
    """By executor of this batch; a new one begins with what is known of one that its host had.

    After a restart of the driver an id may be that of another executor, on another host.
    """
    now = {(e.id, e.host) for e in batch.executors}
    found: dict[str, Pace] = {}
    of_host: dict[str, Pace] = {}
    for reader in state.readers:
        pace = state.paces.get(reader.executor)
        if pace is None:
            continue
        if (reader.executor, reader.host) in now:
            found[reader.executor] = pace
        else:
            of_host.setdefault(reader.host, pace)
    if of_host:
        before = {(r.executor, r.host) for r in state.readers}
        for executor in batch.executors:
            if (executor.id, executor.host) not in before and executor.host in of_host:
                found[executor.id] = of_host[executor.host]
    return found

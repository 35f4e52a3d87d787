"""Positions beside the log: how far behind in records and seconds, and when records are lost."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from streaming.lag.first_unread import first_unread
from streaming.lag.positions import Position, unread_beside

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streaming.kafka.brokers import Brokers, Failure, Partition, Retention


#: What a partition's row says: not on the brokers; without a position; position or log unknown;
#: beyond the end of its log; records deleted unread; nothing unread; unread are only markers of
#: transactions; records unread.
State = Literal["gone", "never read", "unknown", "ahead", "lost", "read", "markers", "behind"]


@dataclass(frozen=True, slots=True)
class Row:
    """One partition; None for what is unknown."""

    position: Position
    log_begin: int | None = None
    log_end: int | None = None
    #: How long ago the first unread record was written; 0 when nothing is unread.
    seconds_behind: float | None = None
    retention: Retention | None = None
    #: Whether all that is unread are markers of transactions, and gaps: nothing that can be lost.
    only_markers: bool = False
    #: Whether the brokers have no such partition.
    gone: bool = False

    @property
    def state(self) -> State:
        """What is to be said of it, in a word."""
        if self.gone:
            return "gone"
        if self.lag is None:
            return "never read" if self.position.offset is None else "unknown"
        if self.lag < 0:
            return "ahead"
        if self.lost:
            return "lost"
        if self.lag == 0:
            return "read"
        return "markers" if self.only_markers else "behind"

    @property
    def lag(self) -> int | None:
        """Offsets from the position to the end of the log, as Kafka's tool counts."""
        if self.position.offset is None or self.log_end is None:
            return None
        return self.log_end - self.position.offset

    @property
    def lost(self) -> int | None:
        """Offsets that were deleted before they were read."""
        if self.position.offset is None or self.log_begin is None:
            return None
        return max(0, self.log_begin - self.position.offset)

    @property
    def at_risk(self) -> bool | None:
        """Whether retention will delete unread records, if they stay unread."""
        if self.lost:
            return True
        if self.lag is None or self.lag < 0:
            return None
        if self.lag == 0 or self.only_markers:
            return False
        if self.retention is None:
            return None
        limited = self.retention.time_s is not None or self.retention.size_bytes is not None
        return self.retention.deletes and limited

    @property
    def seconds_to_loss(self) -> float | None:
        """The least time until retention deletes the first unread record; 0 when it has begun.

        Unknown where a size limits the log: then it hangs on what is written.
        """
        if self.lost:
            return 0.0
        if not self.at_risk or self.retention is None or self.retention.size_bytes is not None:
            return None
        if self.retention.time_s is None or self.seconds_behind is None:
            return None
        return max(0.0, self.retention.time_s - self.seconds_behind)

    def as_json(self) -> dict[str, Any]:
        """As plain data; null for what is unknown or does not apply."""
        position = self.position
        return {
            "group": position.owner,
            "topic": position.topic,
            "partition": position.partition,
            "current_offset": position.offset,
            "consumer_id": position.consumer_id,
            "host": position.host,
            "client_id": position.client_id,
            "executor": position.executor,
            "log_begin_offset": self.log_begin,
            "log_end_offset": self.log_end,
            "lag": self.lag,
            "state": self.state,
            "lost": self.lost,
            "seconds_behind": _rounded(self.seconds_behind),
            "at_risk": self.at_risk,
            "seconds_to_loss": _rounded(self.seconds_to_loss),
        }


@dataclass(frozen=True, slots=True)
class Total:
    """All rows in one."""

    partitions: int
    with_lag: int
    #: Over the partitions whose lag is known.
    lag: int
    unknown_lag: int
    #: Partitions whose position is beyond the end of their log.
    ahead: int
    lost: int
    #: Of the partition that is furthest behind; None when none is known.
    seconds_behind: float | None
    seconds_to_loss: float | None


def look_up(
    positions: Sequence[Position],
    brokers: Brokers,
    *,
    seconds_limit_s: float,
    whole_topics: bool = False,
) -> list[Row]:
    """Ask the brokers about the partitions that were read.

    Parameters
    ----------
    positions
        Up to where they were read.
    brokers
        The cluster.
    seconds_limit_s
        How long reading the times of first unread records may take; 0 leaves them unknown.
    whole_topics
        Whether partitions of the same topics that were not read yet get a row, too.
    """
    there = brokers.partitions({position.topic for position in positions})
    if whole_topics:
        both = [*positions, *unread_beside(positions, there)]
        positions = sorted(both, key=lambda p: (p.owner, p.topic, p.partition))
    known = {
        (p.topic, p.partition) for p in positions if p.partition in there.get(p.topic, ())
    }  # fmt: skip
    retention = brokers.retention(there)
    begins, ends = brokers.log_ranges(known)
    deadline = time.monotonic() + seconds_limit_s
    rows = []
    failed: dict[str, Failure] = {}
    for _, own in groupby(positions, key=lambda position: position.owner):
        located = [
            (position, begins.get(where), ends.get(where))
            for position in own
            for where in [(position.topic, position.partition)]
        ]
        unread = _unread(located)
        times = first_unread(brokers.settings, unread, deadline - time.monotonic(), failed)
        now_s = time.time()
        for position, begin, end in located:
            where = position.topic, position.partition
            behind = 0.0 if end is not None and position.offset == end else None
            only_markers = False
            if where in times:
                written_s = times[where]
                only_markers = written_s is None
                behind = 0.0 if written_s is None else max(0.0, now_s - written_s)
            gone = position.topic in brokers.gone or (
                position.topic in there and position.partition not in there[position.topic]
            )
            rows.append(
                Row(
                    position, begin, end, behind, retention.get(position.topic),
                    only_markers=only_markers, gone=gone,
                )
            )  # fmt: skip
    brokers.note_all("seconds behind", failed, len(known), "Read")
    return rows


def select(
    rows: Sequence[Row], *, only_with_lag: bool = False, order: str = "partition"
) -> list[Row]:
    """Leave out rows that are read to the end (unknown lag stays) and sort."""
    chosen = [row for row in rows if not only_with_lag or row.lag != 0]
    if order == "lag":
        return sorted(chosen, key=lambda row: (row.lag is None, -(row.lag or 0)))
    if order == "seconds":
        return sorted(
            chosen, key=lambda row: (row.seconds_behind is None, -(row.seconds_behind or 0))
        )
    if order == "loss":
        return sorted(
            chosen, key=lambda row: (row.seconds_to_loss is None, row.seconds_to_loss or 0)
        )
    return chosen


def total(rows: Sequence[Row]) -> Total:
    """Sum up; figures that are unknown are left out of sums."""
    lags = [row.lag for row in rows if row.lag is not None]
    behind = [row.seconds_behind for row in rows if row.seconds_behind is not None]
    loss = [row.seconds_to_loss for row in rows if row.seconds_to_loss is not None]
    return Total(
        partitions=len(rows),
        with_lag=sum(lag > 0 for lag in lags),
        lag=sum(max(0, lag) for lag in lags),
        unknown_lag=len(rows) - len(lags),
        ahead=sum(lag < 0 for lag in lags),
        lost=sum(row.lost or 0 for row in rows),
        seconds_behind=_rounded(max(behind, default=None)),
        seconds_to_loss=_rounded(min(loss, default=None)),
    )


def _unread(
    located: Iterable[tuple[Position, int | None, int | None]],
) -> dict[Partition, int]:
    """Give the first unread offset that is still there, of each partition that has one."""
    found = {}
    for position, begin, end in located:
        if position.offset is not None and begin is not None and end is not None:
            first = max(position.offset, begin)
            if first < end:
                found[position.topic, position.partition] = first
    return found


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)

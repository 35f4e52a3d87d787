"""Compare positions with the log: offsets and seconds behind, and time until records are lost."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from streaming.lag.first_unread import find_first_unread
from streaming.lag.positions import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from streaming.kafka.brokers import Brokers, Failures, Retention

#: In this order: missing on the brokers; no position; log's end unknown; position beyond the log's
#: end; records deleted unread; nothing unread; only transaction markers unread; records unread.
State = Literal["gone", "never read", "unknown", "ahead", "lost", "read", "markers", "behind"]


@dataclass(frozen=True, slots=True)
class Row:
    """The lag of one partition; unknown values are None."""

    position: Position
    log_begin: int | None = None
    log_end: int | None = None
    #: Age of the first unread record; 0 if no record is unread.
    seconds_behind: float | None = None
    retention: Retention | None = None
    #: Whether only transaction markers or gaps are unread, so that no record can be lost.
    only_markers: bool = False
    #: Whether the partition is missing on the brokers.
    gone: bool = False

    @property
    def state(self) -> State:
        """The first state in the list of `State` whose condition holds."""
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
        """Number of offsets from the position to the log's end; negative beyond the end."""
        if self.position.offset is None or self.log_end is None:
            return None
        return self.log_end - self.position.offset

    @property
    def lost(self) -> int | None:
        """Number of offsets that were deleted before they were read; None if unknown."""
        if self.position.offset is None or self.log_begin is None:
            return None
        return max(0, self.log_begin - self.position.offset)

    @property
    def at_risk(self) -> bool | None:
        """Whether retention has deleted or may delete unread records; None if unknown."""
        if self.lost:
            return True
        if self.lag is None or self.lag < 0:
            return None
        if self.lag == 0 or self.only_markers:
            return False
        if self.retention is None:
            return None
        has_limit = self.retention.time_s is not None or self.retention.size_bytes is not None
        return self.retention.deletes and has_limit

    @property
    def seconds_to_loss(self) -> float | None:
        """Minimum time until retention deletes the first unread record; 0 if records were deleted.

        None if nothing is at risk, or unknown: with a size limit, it depends on future writes.
        """
        if self.lost:
            return 0.0
        if not self.at_risk or self.retention is None or self.retention.size_bytes is not None:
            return None
        if self.retention.time_s is None or self.seconds_behind is None:
            return None
        return max(0.0, self.retention.time_s - self.seconds_behind)

    def as_json(self) -> dict[str, Any]:
        """Return the row as plain data; values that are unknown or do not apply are None."""
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
            "seconds_behind": round_to_ms(self.seconds_behind),
            "at_risk": self.at_risk,
            "seconds_to_loss": round_to_ms(self.seconds_to_loss),
        }


def fetch_rows(
    positions: Sequence[Position], brokers: Brokers, *, read_limit_s: float, whole_topics: bool
) -> list[Row]:
    """Return one row per position, with offsets, times and retention from the brokers.

    Reading the times of first unread records takes at most about `read_limit_s`; with 0, none is
    read. With `whole_topics`, each owner also gets a row for every partition of its topics in which
    it has no position.
    """
    numbers_by_topic = brokers.list_partitions({position.topic for position in positions})
    if whole_topics:
        positions = _add_missing_positions(positions, numbers_by_topic)
    existing_tps = {p.tp for p in positions if p.partition in numbers_by_topic.get(p.topic, ())}
    retention_by_topic = brokers.fetch_retention(numbers_by_topic)
    begins, ends = brokers.fetch_log_ranges(existing_tps)
    deadline = time.monotonic() + read_limit_s
    rows = []
    failures: Failures = {}
    for _, owner_positions in groupby(positions, key=lambda position: position.owner):
        pairs = [(position, position.tp) for position in owner_positions]
        unread_offsets = {
            tp: offset
            for p, tp in pairs
            if (offset := _find_unread_offset(p.offset, begins.get(tp), ends.get(tp))) is not None
        }
        first_records = find_first_unread(
            brokers, unread_offsets, deadline - time.monotonic(), failures
        )
        now_s = time.time()
        for position, tp in pairs:
            begin, end, record = begins.get(tp), ends.get(tp), first_records.get(tp)
            written_s = record.time_s if record else None
            seconds_behind = None if written_s is None else max(0.0, now_s - written_s)
            only_markers = tp in first_records and written_s is None
            if only_markers or (end is not None and position.offset == end):
                seconds_behind = 0.0
            is_gone = position.topic in brokers.missing_topics or (
                position.topic in numbers_by_topic and tp not in existing_tps
            )
            topic_retention = retention_by_topic.get(position.topic)
            rows.append(
                Row(position, begin, end, seconds_behind, topic_retention, only_markers, is_gone)
            )
    brokers.note_failures("seconds behind", failures, len(existing_tps))
    return rows


def _add_missing_positions(
    positions: Sequence[Position], numbers_by_topic: Mapping[str, frozenset[int]]
) -> list[Position]:
    """Add a position without offset for each partition of an owner's topics that has none."""
    owner_partitions = {(position.owner, *position.tp) for position in positions}
    owner_topics = {(position.owner, position.topic) for position in positions}
    missing_positions = [
        Position(owner, topic, number)
        for owner, topic in owner_topics
        for number in numbers_by_topic.get(topic, ())
        if (owner, topic, number) not in owner_partitions
    ]
    return sorted([*positions, *missing_positions], key=lambda p: (p.owner, p.topic, p.partition))


def _find_unread_offset(offset: int | None, begin: int | None, end: int | None) -> int | None:
    """Return the first unread offset in the log; None if there is none or an argument is None."""
    if offset is None or begin is None or end is None:
        return None
    unread_offset = max(offset, begin)
    return unread_offset if unread_offset < end else None


def select_rows(rows: Sequence[Row], *, only_with_lag: bool = False, order: str = "") -> list[Row]:
    """Return rows by `order` (lag, seconds, loss), worst first, unknown last; else as they are.

    With `only_with_lag`, omit partitions that are read to the end.
    """
    selected_rows = [row for row in rows if not only_with_lag or row.lag != 0]
    figure_by_order: dict[str, Callable[[Row], float | None]] = {
        "lag": lambda row: row.lag,
        "seconds": lambda row: row.seconds_behind,
        "loss": lambda row: None if row.seconds_to_loss is None else -row.seconds_to_loss,
    }
    figure = figure_by_order.get(order)
    if figure is None:
        return selected_rows
    return sorted(selected_rows, key=lambda row: (figure(row) is None, -(figure(row) or 0)))


def round_to_ms(seconds: float | None) -> float | None:
    """Round seconds to milliseconds; None stays None."""
    return None if seconds is None else round(seconds, 3)

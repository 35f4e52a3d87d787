"""Format rows as JSON, and as a table that extends the one of kafka-consumer-groups.sh."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from assignor_bridge.errors import elide, escape_unprintable, pluralize
from streaming.lag.lag_records import round_to_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from streaming.lag.lag_records import Row

#: Columns, named by their JSON keys; the first nine are those of Kafka 4.1
#: (ConsumerGroupCommand.printOffsets).
_COLUMNS = (
    "group", "topic", "partition", "current_offset", "log_end_offset", "lag", "consumer_id",
    "host", "client_id", "executor", "seconds_behind",
)  # fmt: skip
#: Columns and their headers in a terminal that is too narrow for all columns.
_NARROW_HEADS = {"topic": "TOPIC", "partition": "PART", "current_offset": "OFFSET"}
_NARROW_HEADS |= {"log_end_offset": "END", "lag": "LAG"}
_NARROW_HEADS |= {"executor": "EXECUTOR", "seconds_behind": "SECONDS"}
_UNKNOWN = "-"
#: States that are printed instead of a time to loss.
_STATES_SHOWN_AS_LOSS = ("gone", "ahead", "lost", "markers")


@dataclass(frozen=True, slots=True)
class LagTotal:
    """Totals of all rows."""

    partitions: int
    #: Number of partitions whose lag is above 0.
    with_lag: int
    #: Sum of the known lags above 0, in offsets.
    lag: int
    #: Number of partitions whose lag is unknown.
    unknown_lag: int
    #: Number of partitions whose position is beyond the log's end.
    ahead: int
    #: Number of offsets deleted unread.
    lost: int
    #: Maximum known seconds behind, and minimum known seconds to loss; None if none is known.
    seconds_behind: float | None
    seconds_to_loss: float | None
    #: Number of partitions with lag whose seconds behind are unknown.
    unknown_seconds: int


def sum_up(rows: Sequence[Row]) -> LagTotal:
    """Return the totals of all rows; sums, maximum, and minimum omit unknown values."""
    lags = [row.lag for row in rows if row.lag is not None]
    seconds_behind = [row.seconds_behind for row in rows if row.seconds_behind is not None]
    seconds_to_loss = [row.seconds_to_loss for row in rows if row.seconds_to_loss is not None]
    return LagTotal(
        partitions=len(rows),
        with_lag=sum(lag > 0 for lag in lags),
        lag=sum(max(0, lag) for lag in lags),
        unknown_lag=len(rows) - len(lags),
        ahead=sum(lag < 0 for lag in lags),
        lost=sum(row.lost or 0 for row in rows),
        seconds_behind=round_to_ms(max(seconds_behind, default=None)),
        seconds_to_loss=round_to_ms(min(seconds_to_loss, default=None)),
        unknown_seconds=sum((row.lag or 0) > 0 and row.seconds_behind is None for row in rows),
    )


def format_table(rows: Sequence[Row], width: int | None = None) -> str:
    """Format a table, with `-` for unknown values, and a summary, which is wrapped to `width`.

    A table that is wider has only the columns in `_NARROW_HEADS` and the time to loss, with short
    heads. None means an unlimited width.
    """
    heads = {name: name.upper().replace("_", "-") for name in _COLUMNS}
    lines = _format_lines(rows, heads, "TIME-TO-LOSS")
    if width is not None and any(len(line) > width for line in lines):
        lines = _format_lines(rows, _NARROW_HEADS, "TO-LOSS")
    summary = format_summary(rows)
    return "\n".join([*lines, "", summary if width is None else textwrap.fill(summary, width)])


def _format_lines(rows: Sequence[Row], heads: Mapping[str, str], loss_head: str) -> list[str]:
    cells = [[*heads.values(), loss_head], *(_format_cells(row, heads) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    template = " ".join(f"%-{width}s" for width in widths)
    return [(template % tuple(line_cells)).rstrip() for line_cells in cells]


def to_json(rows: Sequence[Row]) -> dict[str, Any]:
    """Return rows and their totals as plain data, with None for unknown values."""
    return {"partitions": [row.as_json() for row in rows], "total": asdict(sum_up(rows))}


def format_summary(rows: Sequence[Row]) -> str:
    """Summarize rows in one line."""
    total = sum_up(rows)
    parts = [pluralize(total.partitions, "partition")]
    if not total.partitions or total.unknown_lag < total.partitions:
        parts.append(f"{total.with_lag} with lag: {pluralize(total.lag, 'offset')} behind")
    if total.seconds_behind is not None and total.unknown_seconds:
        unknown_text = f"unknown for {pluralize(total.unknown_seconds, 'partition')}"
        parts.append(f"{total.seconds_behind:.1f} s or more ({unknown_text})")
    elif total.seconds_behind is not None:
        parts.append(f"at most {total.seconds_behind:.1f} s")
    if total.unknown_lag:
        parts.append(f"lag of {pluralize(total.unknown_lag, 'partition')} unknown")
    if total.ahead:
        parts.append(f"{pluralize(total.ahead, 'partition')} beyond the log's end")
    if total.lost:
        parts.append(f"{pluralize(total.lost, 'offset')} deleted unread")
    if total.seconds_to_loss is not None and not total.lost:
        is_partial = any(
            (row.lag or 0) > 0 and row.at_risk is not False and row.seconds_to_loss is None
            for row in rows
        )
        known_note = " known" if is_partial else ""
        parts.append(f"first{known_note} loss in {format_duration(total.seconds_to_loss)}")
    return ", ".join(parts)


def find_alarms(rows: Sequence[Row], gone_topics: set[str]) -> list[str]:
    """Return the alarms: one line per kind of problem and one per missing topic."""

    def format_partitions(state: str, suffix: str = "") -> str:
        return elide(
            [
                f"{row.position.tp}{suffix.format(row.position.offset, row.log_begin, row.log_end)}"
                for row in rows
                if row.state == state and (state != "gone" or row.position.topic not in gone_topics)
            ]
        )

    lines = []
    if ahead_text := format_partitions("ahead", " at {0} (log ends at {2})"):
        lines.append(
            f"positions beyond the log's end: {ahead_text}; the topic was probably recreated, so "
            "its reader will fail, or continue at the log's start or end: set its offsets again"
        )
    if lost_text := format_partitions("lost", " at {0} (log begins at {1})"):
        lines.append(
            f"records were deleted unread: {lost_text}; raise the retention or read faster"
        )
    if gone_text := format_partitions("gone"):
        lines.append(f"missing partitions: {gone_text}; the topic was probably recreated")
    return lines + [f"topic {name!r} no longer exists" for name in sorted(gone_topics)]


def format_duration(seconds: float) -> str:
    """Format a time in its two largest units, without a space.

    >>> [format_duration(s) for s in (0, 59.9, 3600, 3661, 90_061, 86_401)]
    ['0s', '59s', '1h', '1h1m', '1d1h', '1d1s']
    """
    remaining = int(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, remaining = divmod(remaining, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def _format_cells(row: Row, columns: Iterable[str]) -> list[str]:
    values = row.as_json()
    cells = [_format_cell(values[name]) for name in columns]
    if values["state"] in _STATES_SHOWN_AS_LOSS:
        return [*cells, values["state"]]
    if values["at_risk"] is False:
        return [*cells, "none"]
    seconds = values["seconds_to_loss"]
    return [*cells, _UNKNOWN if seconds is None else format_duration(seconds)]


def _format_cell(value: str | float | None) -> str:
    if isinstance(value, float):
        return f"{value:.1f}"
    return _UNKNOWN if value in (None, "") else escape_unprintable(str(value))

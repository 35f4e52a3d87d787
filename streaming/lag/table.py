"""Rows as text, in the columns of kafka-consumer-groups.sh with ours behind them, and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from streaming.lag.rows import total

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.lag.rows import Row

#: The first nine as Kafka 4.1 has them (ConsumerGroupCommand.printOffsets).
HEAD = (
    "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID",
    "HOST", "CLIENT-ID", "EXECUTOR", "SECONDS-BEHIND", "TIME-TO-LOSS",
)  # fmt: skip
_UNKNOWN = "-"
_NOTHING_TO_LOSE = "none"
#: States that take the place of a time to loss.
_WORDS = ("gone", "ahead", "lost", "markers")


def as_text(rows: Sequence[Row]) -> str:
    """Write a table, unknown as `-`, and a line that sums it up."""
    cells = [HEAD, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    line = " ".join(f"%-{width}s" for width in widths)
    return "\n".join([*((line % row).rstrip() for row in cells), "", summary(rows)])


def as_json(rows: Sequence[Row]) -> dict[str, Any]:
    """Give plain data, unknown as null."""
    return {"partitions": [row.as_json() for row in rows], "total": asdict(total(rows))}


def summary(rows: Sequence[Row]) -> str:
    """Sum up in one line."""
    found = total(rows)
    said = [f"{_counted(found.partitions)}, {found.with_lag} with lag: {found.lag} records behind"]
    if found.seconds_behind is not None:
        said.append(f"at most {found.seconds_behind:.1f} s")
    if found.unknown_lag:
        said.append(f"lag of {_counted(found.unknown_lag)} unknown")
    if found.ahead:
        said.append(f"{_counted(found.ahead)} beyond the log's end")
    if found.lost:
        said.append(f"{found.lost} records were deleted unread")
    if found.seconds_to_loss is not None and not found.lost:
        said.append(f"first loss in {duration(found.seconds_to_loss)}")
    return ", ".join(said)


def duration(seconds: float) -> str:
    """Write a time in its two largest units, without a blank: `6d23h`, `59m3s`, `0s`."""
    left = int(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def _cells(row: Row) -> tuple[str, ...]:
    position = row.position
    behind = row.seconds_behind
    offset, end, lag = position.offset, row.log_end, row.lag
    return (
        position.owner,
        position.topic,
        str(position.partition),
        _UNKNOWN if offset is None else str(offset),
        _UNKNOWN if end is None else str(end),
        _UNKNOWN if lag is None else str(lag),
        position.consumer_id or _UNKNOWN,
        position.host or _UNKNOWN,
        position.client_id or _UNKNOWN,
        position.executor or _UNKNOWN,
        _UNKNOWN if behind is None else f"{behind:.1f}",
        _time_to_loss(row),
    )


def _time_to_loss(row: Row) -> str:
    if row.state in _WORDS:
        return row.state
    if row.at_risk is False:
        return _NOTHING_TO_LOSE
    return _UNKNOWN if row.seconds_to_loss is None else duration(row.seconds_to_loss)


def _counted(partitions: int) -> str:
    return f"{partitions} partition" + ("" if partitions == 1 else "s")

"""What of the rows a monitor must wake somebody for, a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.lag.rows import Row

_SHOWN = 3


def alarms(rows: Sequence[Row], gone_topics: set[str]) -> list[str]:
    """Tell of positions beyond their log, of records that were lost, of what is gone."""
    lines = []
    ahead = [row for row in rows if row.state == "ahead"]
    if ahead:
        where = _some([f"{_name(r)} at {r.position.offset}, its log ends at {r.log_end}"
                       for r in ahead])  # fmt: skip
        lines.append(
            f"beyond the log's end: {where}; was the topic made again? Its reader will fail or "
            "begin anew"
        )
    lost = [row for row in rows if row.state == "lost"]
    if lost:
        where = _some([f"{_name(r)} at {r.position.offset}, its log begins at {r.log_begin}"
                       for r in lost])  # fmt: skip
        lines.append(f"records were deleted unread: {where}; raise retention.ms or read faster")
    gone = [r for r in rows if r.state == "gone" and r.position.topic not in gone_topics]
    if gone:
        lines.append(
            f"not there: {_some([_name(r) for r in gone])}; was the topic made again with fewer "
            "partitions?"
        )
    return lines + [f"topic {name!r} is not there: was it deleted?" for name in sorted(gone_topics)]


def _name(row: Row) -> str:
    return f"{row.position.topic}-{row.position.partition}"


def _some(words: list[str]) -> str:
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more

"""How old the oldest unread record is, estimated from how the end of the log moved.

As kafka-lag-exporter does: remember when the log ended where, and look up when it ended at the
offset that was read last. No record is read for it, and clocks of producers do not matter.
"""

from __future__ import annotations

from collections import deque

#: Points that are kept of each partition.
_POINTS = 60


class LogEnds:
    """Where one partition's log ended, over time."""

    __slots__ = ("_points",)

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque(maxlen=_POINTS)

    def add(self, time_s: float, end: int) -> None:
        """Note where the log ends now; a log that is shorter than before was made anew."""
        points = self._points
        if points and (end < points[-1][1] or time_s <= points[-1][0]):
            if end >= points[-1][1]:
                return
            points.clear()
        if len(points) > 1 and points[-1][1] == points[-2][1] == end:
            points[-1] = (time_s, end)  # only the two ends of a standstill are kept
        else:
            points.append((time_s, end))

    def lag_s(self, offset: int) -> float | None:
        """Seconds since the log ended at `offset`; None while there is too little to tell.

        Offsets before the first point are estimated by the mean rate of all that is known.
        """
        if not self._points:
            return None
        now_s, end = self._points[-1]
        if offset >= end:
            return 0.0
        after = self._points[-1]
        for before in reversed(self._points):
            if before[1] <= offset:
                share = (offset - before[1]) / (after[1] - before[1])
                return now_s - (before[0] + share * (after[0] - before[0]))
            after = before
        first_s, first = self._points[0]
        if end == first:
            return None
        return now_s - first_s + (first - offset) * (now_s - first_s) / (end - first)

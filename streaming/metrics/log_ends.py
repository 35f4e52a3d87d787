"""Request log end offsets from Kafka through a session's JVM, and estimate lag from them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson
from py4j.java_gateway import JavaPackage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    #: Offset by topic and partition number, in the format of Spark's progress.
    TopicOffsets: TypeAlias = Mapping[str, Mapping[str, int]]
    #: Offsets by query ID and source index.
    QueryOffsets: TypeAlias = Mapping[str, Mapping[str, TopicOffsets]]

_BROKERS_TIMEOUT_MS = 2000
_MAX_LOG_ENDS_PER_PARTITION = 60
#: If the clock goes back by more than this, the stored log ends are dropped.
_MAX_CLOCK_STEP_S = 60.0


def request_log_ends(spark: SparkSession, query_id: str | None) -> QueryOffsets:
    """Return the log ends of the partitions that a query reads; None requests all queries.

    Waits up to 2 s for brokers, unless they answered in the last second or failed in the last 30 s.
    Omits sources without the assignor option, or without an answer in the last two minutes. Empty
    in a Spark Connect session or without the jar.
    """
    jvm: Any = getattr(spark, "_jvm", None)
    java_class = None if jvm is None else jvm.io.assignorbridge.kafka.LogEndOffsets
    if java_class is None or isinstance(java_class, JavaPackage):
        return {}
    log_ends: QueryOffsets = orjson.loads(java_class.request(query_id, _BROKERS_TIMEOUT_MS))
    return log_ends


class LogEnds:
    """Log ends of one partition over time, to estimate the age of its first unread record.

    As in kafka-lag-exporter, no records are read, and producers' clocks are irrelevant.
    """

    __slots__ = ("_points",)

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque(maxlen=_MAX_LOG_ENDS_PER_PARTITION)

    def add(self, time_s: float, end: int) -> None:
        """Add a log end; drop earlier ones if the log shrank or the clock went back too far."""
        points = self._points
        if points and (end < points[-1][1] or time_s < points[-1][0] - _MAX_CLOCK_STEP_S):
            points.clear()
        elif points and time_s <= points[-1][0]:
            points[-1] = (points[-1][0], end)  # keep the later time
            return
        if len(points) > 1 and points[-1][1] == points[-2][1] == end:
            points.pop()  # keep only the first and the last of equal ends
        points.append((time_s, end))

    def estimate_lag_s(self, offset: int) -> float | None:
        """Return the estimated seconds from when the log ended at `offset` to the last log end.

        An offset at or beyond the last end has a lag of 0. One below the first stored end is
        extrapolated at the mean rate of the stored ends. None without a rate or stored ends.
        """
        if not self._points:
            return None
        last_s, last_end = self._points[-1]
        if offset >= last_end:
            return 0.0
        next_s, next_end = self._points[-1]
        for time_s, log_end in reversed(self._points):
            if log_end <= offset:
                share = (offset - log_end) / (next_end - log_end)
                return last_s - (time_s + share * (next_s - time_s))
            next_s, next_end = time_s, log_end
        first_s, first_end = self._points[0]
        if last_end == first_end:
            return None
        return last_s - first_s + (first_end - offset) * (last_s - first_s) / (last_end - first_end)

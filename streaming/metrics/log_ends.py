"""Where logs end: requested through the streams of a session's JVM, and remembered over time."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson
from py4j.java_gateway import JavaPackage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    #: Offset by topic and number of a partition, as Spark's progress has offsets.
    TopicOffsets: TypeAlias = Mapping[str, Mapping[str, int]]
    #: By query id and number of the source.
    QueryOffsets: TypeAlias = Mapping[str, Mapping[str, TopicOffsets]]

_BROKERS_LIMIT_MS = 2000
#: Ends that are kept for each partition.
_POINTS = 60
#: If a clock goes back by more, the ends that are kept are dropped.
_BACK_S = 60.0


def request_log_ends(spark: SparkSession, query_id: str | None) -> QueryOffsets:
    """Return where the logs end that one query reads, or with None all queries.

    Waits for brokers unless their last answer is a second old at most. Queries without the option
    are missing, and all are in a session of Spark Connect or without our jar.
    """
    jvm: Any = getattr(spark, "_jvm", None)
    java = None if jvm is None else jvm.io.assignorbridge.kafka.LogEndOffsets
    if java is None or isinstance(java, JavaPackage):
        return {}
    answer: QueryOffsets = orjson.loads(java.request(query_id, _BROKERS_LIMIT_MS))
    return answer


class LogEnds:
    """Where one partition's log ended, over time: for how old the oldest unread record is.

    As kafka-lag-exporter does it: no record is read, and clocks of producers do not matter.
    """

    __slots__ = ("_points",)

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque(maxlen=_POINTS)

    def add(self, time_s: float, end: int) -> None:
        """Note where the log ends now; a log that is shorter than before was re-created."""
        points = self._points
        if points and (end < points[-1][1] or time_s < points[-1][0] - _BACK_S):
            points.clear()
        elif points and time_s <= points[-1][0]:
            points[-1] = (points[-1][0], end)
            return
        if len(points) > 1 and points[-1][1] == points[-2][1] == end:
            points.pop()  # only the two ends of a standstill are kept
        points.append((time_s, end))

    def lag_s(self, offset: int) -> float | None:
        """Return the seconds since the log ended at `offset`; None while that is not known.

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

"""Reads the lag that the streams of a session's JVM measure (`LagMeter` of our jar)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from py4j.java_gateway import JavaPackage

from assignor_bridge.model import Partition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from streaming.observe.query_progress import Offsets


_BROKERS_LIMIT_MS = 2000


@dataclass(frozen=True, slots=True)
class MeasuredLag:
    """How far one source is behind, by partition."""

    #: Where the logs end, and unread offsets.
    ends: Offsets
    lag: Offsets
    #: At most so long ago the first unread record was written; unknown are left out.
    seconds: Mapping[Partition, float]

    def ends_by_topic(self) -> dict[str, dict[str, int]]:
        """Return the ends as Spark's progress writes offsets."""
        topics: dict[str, dict[str, int]] = defaultdict(dict)
        for (topic, partition), end in self.ends.items():
            topics[topic][str(partition)] = end
        return topics


def measure_lag(spark: SparkSession, query_id: str | None) -> dict[str, dict[str, MeasuredLag]]:
    """Return the lag of one query's sources or of all, by query id and number of the source.

    Waits for brokers if their last answer is not a fresh one. Empty if the session is one of Spark
    Connect, or lacks our jar.
    """
    jvm: Any = getattr(spark, "_jvm", None)
    meter = None if jvm is None else jvm.io.assignorbridge.LagMeter
    if meter is None or isinstance(meter, JavaPackage):
        return {}
    return read_measured(meter.measure(query_id, _BROKERS_LIMIT_MS))


def read_measured(text: str) -> dict[str, dict[str, MeasuredLag]]:
    """Read what `LagMeter.measure` returns."""
    found: dict[str, dict[str, MeasuredLag]] = defaultdict(dict)
    for source in orjson.loads(text):
        figures = {
            Partition(topic, int(number)): values
            for topic, partitions in source["partitions"].items()
            for number, values in partitions.items()
        }
        if figures:
            found[source["query"]][source["source"]] = MeasuredLag(
                {tp: end for tp, (end, _, _) in figures.items()},
                {tp: lag for tp, (_, lag, _) in figures.items()},
                {tp: seconds for tp, (_, _, seconds) in figures.items() if seconds is not None},
            )
    return found

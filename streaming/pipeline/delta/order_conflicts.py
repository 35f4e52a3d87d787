"""Warn once a run of records that an upsert cannot order as Kafka would.

- A key comes from two partitions (or topics): their offsets do not say which record is newer.
- A record is older than the table's row by offset and newer by timestamp: offsets began again, in a
  topic that was created again or in another cluster.
- In a table that orders by timestamp, the timestamps of one key and partition contradict its
  offsets: a producer's clock stepped back.

The jar's `OrderConflicts` counts them while the merge reads the rows, without a job of its own.
With `sequence_by` the user's columns define the order, and nothing is counted.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaPackage

from assignor_bridge.errors import pluralize
from streaming.pipeline.delta.write_mode import BY_OFFSET, BY_TIMESTAMP, SEQUENCE
from streaming.pipeline.spark.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)
_NEW_TABLE = "give the sink a new table and the job a new checkpoint"
_MOVED = (
    "a key came from more than one partition for {count}, first at {example}; Kafka defines no "
    "order between partitions, so the higher offset stays: name columns that define it in "
    f"'sequence_by', and {_NEW_TABLE}"
)
_RESTARTED = (
    "{count}, first at {example}, are older by offset and newer by timestamp than the table's "
    f"rows, which stay: if the topic was created again or is another cluster's, {_NEW_TABLE}"
)
_STEPPED_BACK = (
    "the timestamps contradict the offsets for {count}, first at {example}; an earlier version "
    "created this table, which keeps the newest timestamp: to keep the highest offset, "
    f"{_NEW_TABLE}"
)
_SAME_PARTITION = f"s.{SEQUENCE}.partition = t.{SEQUENCE}.partition"
_SAME_TOPIC = f"s.{SEQUENCE}.topic = t.{SEQUENCE}.topic"
_OLDER, _NEWER = (
    f"s.{SEQUENCE}.offset {before} t.{SEQUENCE}.offset"
    f" AND s.{SEQUENCE}.timestamp {after} t.{SEQUENCE}.timestamp"
    for before, after in (("<", ">"), (">", "<"))
)
#: By the rule of a table: how rows `s` of a batch conflict with the row `t` of their key.
#: A null, of a row without a place in Kafka, is no conflict.
_CONFLICTS = {
    BY_OFFSET: {
        _MOVED: f"NOT ({_SAME_TOPIC} AND {_SAME_PARTITION})",
        _RESTARTED: f"{_SAME_TOPIC} AND {_SAME_PARTITION} AND {_OLDER}",
    },
    BY_TIMESTAMP: {_STEPPED_BACK: f"{_SAME_PARTITION} AND (({_OLDER}) OR ({_NEWER}))"},
}
#: Names of SQL functions, of which a session may have those of several sinks.
_NUMBERS = itertools.count()


class OrderConflicts:
    """The conflicts in the batches of one sink; `fields` are those of its table (`write_mode`)."""

    def __init__(
        self, spark: SparkSession, place: str, table: str, fields: tuple[str, ...]
    ) -> None:
        self._place = place
        self._table = table
        jvm: Any = spark._jvm
        counter = jvm.io.assignorbridge.records.OrderConflicts
        is_available = not isinstance(counter, JavaPackage)
        #: By the name of its SQL functions: the jar's counter, the message, and the condition.
        self._counters = {}
        for message, condition in (_CONFLICTS.get(fields, {}) if is_available else {}).items():
            name = f"__assignor_order_{next(_NUMBERS)}"
            java = counter(spark._jsparkSession, name, fields == BY_TIMESTAMP)
            self._counters[name] = java, message, condition
        self._reported: set[str] = set()

    def seen(self, keys: tuple[str, ...]) -> str:
        """Return a condition in SQL that is true and compares the rows of a batch by their keys.

        It is for rows whose `_sequence` has all of `BY_OFFSET`.
        """
        for name in self._counters:  # the first one compares within a batch
            hashed = ", ".join(map(quoted, keys))
            when = f"coalesce(unix_micros({SEQUENCE}.timestamp), 0)"
            call = (
                f"{name}_seen(xxhash64({hashed}), xxhash64({SEQUENCE}.topic), {_place()}, {when})"
            )
            return f"IF({SEQUENCE}.offset IS NULL, true, {call})"
        return "true"

    def found(self) -> str:
        """Return a condition in SQL that is true and counts the rows `s` that conflict with `t`."""
        calls = (
            f"IF({condition}, {name}_found({_place('s.')}), true)"
            for name, (_, _, condition) in self._counters.items()
        )
        return " AND ".join(calls) or "true"

    def forget(self) -> None:
        """Drop the counts of an attempt that failed."""
        for java, _, _ in self._counters.values():
            java.take()

    def report(self, batch: int) -> None:
        """Log the conflicts of a batch; of each kind only once a run."""
        for name, (java, message, _) in self._counters.items():
            example = java.example()
            count = java.take()
            if count and name not in self._reported:
                self._reported.add(name)
                records = pluralize(count, "record")
                _LOG.warning(
                    "%s: batch %d for the table %r: %s; not logged again in this run", self._place,
                    batch, self._table, message.format(count=records, example=example),
                )  # fmt: skip


def _place(of: str = "") -> str:
    """Return partition and offset in SQL, of the types that the jar's functions take."""
    parts = (("partition", "INT"), ("offset", "BIGINT"))
    return ", ".join(f"coalesce(CAST({of}{SEQUENCE}.{p} AS {kind}), -1)" for p, kind in parts)

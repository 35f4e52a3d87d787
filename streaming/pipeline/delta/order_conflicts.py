"""Warn once per run about records that an upsert cannot order reliably.

- A key comes from two partitions or topics, whose offsets cannot be compared.
- A record is older than the table's row by offset and newer by timestamp: the topic was recreated,
  or belongs to another cluster, so its offsets restarted.
- In a table that orders by timestamp, the timestamps of one key and partition contradict its
  offsets: a producer's clock was set back.

The jar's `OrderConflicts` counts them while the merge reads the rows, without an extra Spark job.
With `sequence_by` the user's columns define the order, and nothing is counted.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaPackage

from assignor_bridge.errors import pluralize
from streaming.pipeline.delta.write_mode import BY_OFFSET, BY_TIMESTAMP, SEQUENCE
from streaming.pipeline.spark.column_names import quote_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)
_NEW_TABLE = "give the sink a new table and the job a new checkpoint"
_KEY_MOVED = (
    "for {count}, first at {example}, a key came from more than one partition; Kafka defines no "
    "order between partitions, so the row with the higher offset is kept: set 'sequence_by' to "
    f"columns that define the order, and {_NEW_TABLE}"
)
_OFFSETS_RESTARTED = (
    "for {count}, first at {example}, the row in the table has a higher offset but an earlier "
    "timestamp, and is kept: if the topic was recreated or belongs to another cluster, "
    f"{_NEW_TABLE}"
)
_CLOCK_STEPPED_BACK = (
    "for {count}, first at {example}, timestamps contradict offsets; an earlier version "
    "created this table, which keeps the newest timestamp: to keep the highest offset, "
    f"{_NEW_TABLE}"
)
_SAME_PARTITION = f"s.{SEQUENCE}.partition = t.{SEQUENCE}.partition"
_SAME_TOPIC = f"s.{SEQUENCE}.topic = t.{SEQUENCE}.topic"
_LOWER_OFFSET_LATER_TIME, _HIGHER_OFFSET_EARLIER_TIME = (
    f"s.{SEQUENCE}.offset {offset_order} t.{SEQUENCE}.offset"
    f" AND s.{SEQUENCE}.timestamp {time_order} t.{SEQUENCE}.timestamp"
    for offset_order, time_order in (("<", ">"), (">", "<"))
)
_CONTRADICTION = f"(({_LOWER_OFFSET_LATER_TIME}) OR ({_HIGHER_OFFSET_EARLIER_TIME}))"
#: Conditions under which a batch's row `s` conflicts with the table's row `t` of the same key, by
#: the table's field order. A null, from a row without an offset, is not a conflict.
_CONFLICTS = {
    BY_OFFSET: {
        _KEY_MOVED: f"NOT ({_SAME_TOPIC} AND {_SAME_PARTITION})",
        _OFFSETS_RESTARTED: f"{_SAME_TOPIC} AND {_SAME_PARTITION} AND {_LOWER_OFFSET_LATER_TIME}",
    },
    BY_TIMESTAMP: {_CLOCK_STEPPED_BACK: f"{_SAME_PARTITION} AND {_CONTRADICTION}"},
}
#: Numbers in the names of SQL functions, because several sinks may share a session.
_FUNCTION_NUMBERS = itertools.count()


class OrderConflicts:
    """Counts one sink's conflicts; `kafka_fields` are its table's, or empty to count nothing."""

    def __init__(
        self, spark: SparkSession, label: str, title: str, kafka_fields: tuple[str, ...]
    ) -> None:
        self._label = label
        self._title = title
        jvm: Any = spark._jvm
        counter_class = jvm.io.assignorbridge.records.OrderConflicts
        is_available = not isinstance(counter_class, JavaPackage)
        #: The jar's counter, the message, and the condition, by prefix of the SQL functions.
        self._counters = {}
        condition_by_message = _CONFLICTS.get(kafka_fields, {}) if is_available else {}
        for message, condition in condition_by_message.items():
            name = f"__assignor_order_{next(_FUNCTION_NUMBERS)}"
            counter = counter_class(spark._jsparkSession, name, kafka_fields == BY_TIMESTAMP)
            self._counters[name] = counter, message, condition
        #: Names of the counters whose conflicts have been logged.
        self._logged_counters: set[str] = set()

    def build_batch_condition(self, keys: tuple[str, ...]) -> str:
        """Return an always-true SQL condition that counts conflicts between rows of a batch.

        The rows' `_sequence` must have all fields of `BY_OFFSET`.
        """
        for name in self._counters:  # only the first counter compares rows of a batch
            key_columns = ", ".join(map(quote_name, keys))
            timestamp = f"coalesce(unix_micros({SEQUENCE}.timestamp), 0)"
            topic = f"xxhash64({SEQUENCE}.topic)"
            call = f"{name}_seen(xxhash64({key_columns}), {topic}, {_position_sql()}, {timestamp})"
            return f"IF({SEQUENCE}.offset IS NULL, true, {call})"
        return "true"

    def build_merge_condition(self) -> str:
        """Return an always-true SQL condition that counts the rows `s` that conflict with `t`."""
        calls = (
            f"IF({condition}, {name}_found({_position_sql('s.')}), true)"
            for name, (_, _, condition) in self._counters.items()
        )
        return " AND ".join(calls) or "true"

    def discard_counts(self) -> None:
        """Reset the counts after a failed attempt."""
        for counter, _, _ in self._counters.values():
            counter.take()

    def log_conflicts(self, batch: int) -> None:
        """Log a batch's conflicts, each kind once per run, and reset the counts."""
        for name, (counter, message, _) in self._counters.items():
            example = counter.example()
            count = counter.take()
            if count and name not in self._logged_counters:
                self._logged_counters.add(name)
                conflict = message.format(count=pluralize(count, "record"), example=example)
                log_format = "%s: batch %d for the table %r: %s; not logged again in this run"
                _LOG.warning(log_format, self._label, batch, self._title, conflict)


def _position_sql(prefix: str = "") -> str:
    """Return SQL for partition and offset, with the types that the jar's functions take."""
    fields = (("partition", "INT"), ("offset", "BIGINT"))
    columns = ((f"{prefix}{SEQUENCE}.{name}", sql_type) for name, sql_type in fields)
    return ", ".join(f"coalesce(CAST({name} AS {sql_type}), -1)" for name, sql_type in columns)

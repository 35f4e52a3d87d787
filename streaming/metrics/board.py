"""Keep the last metrics of each query, and export them to Prometheus.

A collector is used instead of gauges, so that partitions, topics, and queries that no longer exist
disappear at the next scrape.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from streaming.metrics.log_ends import LogEnds
from streaming.metrics.names import ASSIGNOR, METRICS
from streaming.observe.query_progress import parse_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from assignor_bridge.model import Partition
    from streaming.metrics.log_ends import QueryOffsets, TopicOffsets
    from streaming.observe.query_progress import BatchProgress, SourceProgress

    #: Offset, lag in offsets, and lag in seconds, by partition; a lag is None if unknown.
    _Positions: TypeAlias = dict[Partition, tuple[int, int | None, float | None]]
    #: Metric name, label values, and value.
    _Sample = tuple[str, tuple[str, ...], float]
    _Family: TypeAlias = GaugeMetricFamily | CounterMetricFamily

#: Ages of the last batch's records; not exported while the query is idle.
_FRESHNESS_KEYS = ("freshnessSeconds", "freshnessSecondsMax")


@dataclass(slots=True)
class _QueryBoard:
    """Metrics of one query until its end event; after that, its next run starts with new ones."""

    last_progress: BatchProgress
    #: Number of batches with data.
    batches: int = 0
    rows: int = 0
    #: Unix time of the query's last idle event; 0 before the first one.
    idle_at_s: float = 0.0
    #: Number of the last batch with data, so that no batch is counted twice.
    last_counted_batch: int = -1
    #: Total of each counter, by metric and source.
    counters: dict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(float))
    #: Last counter values that the current run reported, by metric and source.
    run_counters: dict[tuple[str, int], float] = field(default_factory=dict)
    log_end_history: dict[tuple[int, Partition], LogEnds] = field(default_factory=dict)

    def update(self, progress: BatchProgress, measured_at_s: float | None) -> bool:
        """See `Board.update`."""
        if self.last_progress.run_id != progress.run_id:  # Spark may drop a run's end event
            self.run_counters.clear()
            self.last_counted_batch = -1
        self.last_progress = progress
        self._record_log_ends(progress.timestamp_s if measured_at_s is None else measured_at_s)
        for source in progress.sources:
            self._add_counters(source)
        if not progress.has_data or progress.batch <= self.last_counted_batch:
            return False
        self.last_counted_batch = progress.batch
        self.batches += 1
        self.rows += progress.rows
        for source in progress.sources:
            moved_partitions = source.get_number("movedPartitions")
            if moved_partitions is not None and source.has_data:
                self.counters["assignor_moved_partitions_total", source.index] += moved_partitions
        return True

    def _add_counters(self, source: SourceProgress) -> None:
        """Add the increase of the run's counters since its last progress event."""
        for metric in ASSIGNOR:
            if metric.kind == "counter" and metric.key:
                value = source.get_number(metric.key)
                if value is not None:
                    key = metric.name, source.index
                    self.counters[key] += max(0.0, value - self.run_counters.get(key, 0.0))
                    self.run_counters[key] = value

    def update_log_ends(self, ends_by_source: Mapping[str, TopicOffsets], time_s: float) -> None:
        """Replace the log ends, keyed by source index, which were measured at `time_s`."""
        self.last_progress = replace(
            self.last_progress,
            sources=tuple(
                replace(s, log_ends=parse_offsets(ends_by_source.get(str(s.index), {})) or {})
                for s in self.last_progress.sources
            ),
        )
        self._record_log_ends(time_s)

    def _record_log_ends(self, time_s: float) -> None:
        """Record log ends: at `time_s` if they were measured, else at the start of the trigger."""
        history = {}
        for source in self.last_progress.sources:
            measured_at_s = time_s if source.log_ends else self.last_progress.timestamp_s
            for tp, end in source.last_log_ends.items():
                key = source.index, tp
                history[key] = self.log_end_history.get(key) or LogEnds()
                history[key].add(measured_at_s, end)
        self.log_end_history = history

    def estimate_lags(self, source: SourceProgress) -> dict[Partition, tuple[int, float | None]]:
        """Return each partition's lag in unread offsets, and in seconds (None if unknown).

        Without measured log ends, this is the lag at the start of the last batch, or at its end if
        the query is idle. Partitions whose offset or log end is unknown are omitted.
        """
        is_idle = self.idle_at_s > self.last_progress.timestamp_s
        offsets = source.end if source.log_ends or is_idle else source.start
        history = self.log_end_history
        return {
            tp: (max(0, end - offset), history[source.index, tp].estimate_lag_s(offset))
            for tp, end in source.last_log_ends.items()
            if (offset := offsets.get(tp)) is not None
        }

    def collect_samples(self) -> Iterator[_Sample]:
        """Yield the samples of the Spark and assignor metrics."""
        progress = self.last_progress
        labels, end_s = (progress.label, progress.query_id), progress.timestamp_s + progress.seconds
        values = {
            "batch_id": progress.batch,
            "batches_total": self.batches,
            "input_rows_total": self.rows,
            "input_rate_rows_per_second": progress.input_rate,
            "processing_rate_rows_per_second": progress.processing_rate,
            "latency_seconds": progress.durations_s.get("triggerExecution"),
            "event_time_watermark_timestamp_seconds": progress.watermark_s,
            "states_rows": progress.state_rows,
            "states_used_bytes": progress.state_bytes,
            "last_progress_timestamp_seconds": max(end_s, self.idle_at_s),
        }
        for name, value in values.items():
            if value is not None:
                yield f"spark_streaming_{name}", labels, value
        for phase, seconds in progress.durations_s.items():
            yield "spark_streaming_duration_seconds", (*labels, phase), seconds
        ignored_keys = _FRESHNESS_KEYS if self.idle_at_s > progress.timestamp_s else ()
        for source in progress.sources:
            source_labels = (*labels, str(source.index))
            strategy = source.metrics.get("assignor.strategy")
            if strategy is not None:
                yield "assignor_info", (*source_labels, strategy), 1
            held_back_by = source.metrics.get("assignor.heldBackBy")
            if held_back_by is not None:
                yield "assignor_held_back_info", (*source_labels, held_back_by), 1
            for metric in ASSIGNOR:
                if metric.kind == "gauge" and metric.key and metric.key not in ignored_keys:
                    number = source.get_number(metric.key)
                    if number is not None:
                        yield metric.name, source_labels, number * metric.factor
            if source.latest:
                yield "assignor_held_back_records", source_labels, sum(source.held_back.values())
        for (name, index), total in self.counters.items():
            yield name, (*labels, str(index)), total


class Board(Collector):
    """Collect the metrics of a session's queries; `cluster_name` labels the Kafka metrics."""

    def __init__(self, cluster_name: str) -> None:
        self._cluster_name = cluster_name
        self._queries: dict[str, _QueryBoard] = {}
        self._lock = threading.Lock()

    def update_log_ends(self, ends: QueryOffsets, time_s: float) -> bool:
        """Replace each query's log ends (by none if not in `ends`); return whether any is in it."""
        with self._lock:
            for query_id, query in self._queries.items():
                query.update_log_ends(ends.get(query_id, {}), time_s)
            return not self._queries.keys().isdisjoint(ends)

    def update(self, progress: BatchProgress, measured_at_s: float | None = None) -> bool:
        """Update from a progress event; return whether it is the first for a batch with data.

        `measured_at_s` is the Unix time of the event's log ends; None for its trigger's start.
        """
        with self._lock:
            query = self._queries.setdefault(progress.query_id, _QueryBoard(progress))
            return query.update(progress, measured_at_s)

    def mark_idle(self, query_id: str, timestamp_s: float) -> bool:
        """Record that a query has nothing to read; return whether it has reported progress."""
        with self._lock:
            query = self._queries.get(query_id)
            if query:
                query.idle_at_s = timestamp_s
            return query is not None

    def remove(self, query_id: str) -> bool:
        """Remove a query that has ended; return whether other queries remain."""
        with self._lock:
            self._queries.pop(query_id, None)
            return bool(self._queries)

    def compute_max_lag_seconds(self, query_id: str) -> float | None:
        """Return the maximum estimated lag of a query's partitions in seconds; None if unknown."""
        with self._lock:
            query = self._queries[query_id]
            sources = query.last_progress.sources
            lags = [lag for source in sources for lag in query.estimate_lags(source).values()]
        return max((seconds for _, seconds in lags if seconds is not None), default=None)

    @property
    def is_empty(self) -> bool:
        """Whether no active query has reported progress."""
        return not self._queries

    def collect(self) -> Iterator[_Family]:
        """Return the metrics that have samples, in the order of `METRICS`."""
        families: dict[str, _Family] = {}
        for name, metric in METRICS.items():
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            families[name] = kind(name, metric.help, labels=metric.labels)
        with self._lock:
            for name, labels, value in self._collect_samples():
                families[name].add_metric(labels, value)
        return (family for family in families.values() if family.samples)

    def describe(self) -> Iterable[_Family]:
        """Return nothing, because no metric has a sample before the first batch."""
        return []

    def _collect_samples(self) -> Iterator[_Sample]:
        yield from self._collect_kafka_samples()
        for query in self._queries.values():
            yield from query.collect_samples()

    def _collect_kafka_samples(self) -> Iterator[_Sample]:
        """Yield the Kafka samples, from the lowest offset if a group reads a partition twice."""
        positions_by_group: dict[str, _Positions] = defaultdict(dict)
        log_ends: dict[Partition, int] = {}
        for query in self._queries.values():
            label = query.last_progress.label
            for source in query.last_progress.sources:
                group = source.metrics.get("assignor.commitGroup") or label
                positions, lags = positions_by_group[group], query.estimate_lags(source)
                for tp, offset in source.end.items():
                    if tp not in positions or offset < positions[tp][0]:
                        positions[tp] = offset, *lags.get(tp, (None, None))
                for tp, end in source.last_log_ends.items():
                    log_ends[tp] = max(end, log_ends.get(tp, 0))
        for group, positions in positions_by_group.items():
            yield from _collect_group_samples((self._cluster_name, group), positions)
        for (topic, partition), end in log_ends.items():
            yield "kafka_partition_latest_offset", (self._cluster_name, topic, str(partition)), end


def _collect_group_samples(labels: tuple[str, str], positions: _Positions) -> Iterator[_Sample]:
    prefix = "kafka_consumergroup_group_"
    lag_by_topic: dict[str, int] = defaultdict(int)
    for (topic, partition), (offset, lag, seconds) in positions.items():
        member_labels = (*labels, topic, str(partition), "", "", "")
        yield f"{prefix}offset", member_labels, offset
        if lag is not None:
            lag_by_topic[topic] += lag
            yield f"{prefix}lag", member_labels, lag
        if seconds is not None:
            yield f"{prefix}lag_seconds", member_labels, seconds
    lags = [lag for _, lag, _ in positions.values() if lag is not None]
    if lags:
        yield f"{prefix}max_lag", (*labels, "true"), max(lags)
        yield f"{prefix}sum_lag", labels, sum(lag_by_topic.values())
    lag_seconds = [seconds for _, _, seconds in positions.values() if seconds is not None]
    if lag_seconds:
        yield f"{prefix}max_lag_seconds", (*labels, "true"), max(lag_seconds)
    for topic, lag in sorted(lag_by_topic.items()):
        yield f"{prefix}topic_sum_lag", (*labels, topic), lag

"""The last figures of each query, and their exposition.

A collector, not a set of gauges: each scrape tells what is known now, so a partition, topic or
query that has gone is gone from the next scrape.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from streaming.metrics.lag_seconds import LogEnds
from streaming.metrics.names import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from streaming.observe.query_progress import BatchProgress, SourceProgress

    _Labels = tuple[str, ...]
    _Family: TypeAlias = GaugeMetricFamily | CounterMetricFamily

#: `assignor.*` keys of the progress that rise during a run, by the counter that they feed.
_RISING = {
    "fallbacks": "assignor_fallbacks_total",
    "readBytes": "assignor_reader_bytes_total",
    "commitFailures": "assignor_commit_failures_total",
}
#: Keys that tell of the last plan, by gauge, with the factor to base units.
_OF_PLAN = {
    "tasks": ("assignor_tasks", 1.0),
    "executors": ("assignor_executors", 1.0),
    "slots": ("assignor_slots", 1.0),
    "splitPartitions": ("assignor_split_partitions", 1.0),
    "generation": ("assignor_generation", 1.0),
    "imbalance": ("assignor_imbalance_ratio", 1.0),
    "movedOffsets": ("assignor_moved_offsets_ratio", 1.0),
    "predictionError": ("assignor_prediction_error_ratio", 1.0),
    "localityHitRate": ("assignor_locality_hit_ratio", 1.0),
    "planMillis": ("assignor_plan_seconds", 0.001),
}


@dataclass(slots=True)
class _Query:
    """What is known of one query; counters go on over its restarts in this process."""

    last: BatchProgress
    batches: int = 0
    rows: int = 0
    #: Number of the last batch with data, to count it once.
    counted: int = -1
    #: By metric and source.
    counters: dict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(float))
    #: By run, key and source: where the run's own counter stood.
    seen: dict[tuple[str, str, int], float] = field(default_factory=dict)
    ends: dict[tuple[int, str, int], LogEnds] = field(default_factory=dict)


class Board(Collector):
    """Keeps the figures of all queries of a session.

    Parameters
    ----------
    cluster_name
        Label `cluster_name` of Kafka's metrics.
    """

    def __init__(self, cluster_name: str) -> None:
        self._cluster_name = cluster_name
        self._queries: dict[str, _Query] = {}
        self._lock = threading.Lock()

    def update(self, progress: BatchProgress) -> bool:
        """Take in a progress; whether it tells of a batch with data for the first time."""
        with self._lock:
            query = self._queries.setdefault(progress.query_id, _Query(progress))
            if query.last.run_id != progress.run_id:
                query.seen.clear()
                query.counted = -1
            query.last = progress
            self._remember_ends(query, progress)
            for source in progress.sources:
                _rise(query, progress.run_id, source)
            if not progress.has_data or progress.batch <= query.counted:
                return False
            query.counted = progress.batch
            query.batches += 1
            query.rows += progress.rows
            for source in progress.sources:
                moved = source.number("movedPartitions")
                if moved is not None and source.has_data:
                    query.counters["assignor_moved_partitions_total", source.index] += moved
            return True

    def remove(self, query_id: str) -> bool:
        """Forget a query that has ended; whether others are left."""
        with self._lock:
            self._queries.pop(query_id, None)
            return bool(self._queries)

    def lag_seconds(self, query_id: str) -> dict[tuple[str, int], float | None]:
        """Estimate the lag of each partition of a query in seconds; None where it is unknown."""
        with self._lock:
            query = self._queries.get(query_id)
            return _lag_seconds(query) if query else {}

    def collect(self) -> Iterator[_Family]:
        """Give all series there are now."""
        with self._lock:
            samples = list(self._samples())
        families: dict[str, _Family] = {}
        for name, labels, value in samples:
            metric = METRICS[name]
            if name not in families:
                kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
                families[name] = kind(name, metric.help, labels=metric.labels)
            families[name].add_metric(labels, value)
        for name in METRICS:
            if name in families:
                yield families[name]

    def describe(self) -> Iterable[_Family]:
        """Nothing is known before the first batch."""
        return []

    @staticmethod
    def _remember_ends(query: _Query, progress: BatchProgress) -> None:
        ends = {}
        for source in progress.sources:
            for (topic, partition), end in source.latest.items():
                key = source.index, topic, partition
                ends[key] = query.ends.get(key) or LogEnds()
                ends[key].add(progress.timestamp_s, end)
        query.ends = ends

    def _samples(self) -> Iterator[tuple[str, _Labels, float]]:
        yield from self._kafka()
        for query in self._queries.values():
            yield from _spark(query)
            yield from _ours(query)

    def _kafka(self) -> Iterator[tuple[str, _Labels, float]]:
        """Kafka's view; what two sources read of one partition for one group is told once."""
        groups: dict[str, _Group] = defaultdict(_Group)
        latest: dict[tuple[str, int], int] = {}
        for query in self._queries.values():
            seconds = _lag_seconds(query)
            for source in query.last.sources:
                name = source.metrics.get("assignor.commitGroup") or query.last.label
                groups[name].add(source, seconds)
                for tp, end in source.latest.items():
                    latest[tp] = max(end, latest.get(tp, 0))
        prefix = "kafka_consumergroup_group_"
        for name, group in groups.items():
            mine = (self._cluster_name, name)
            for (topic, partition), offset in group.offset.items():
                member = (*mine, topic, str(partition), "", "", "")
                yield f"{prefix}offset", member, offset
                yield f"{prefix}lag", member, group.lag[topic, partition]
                seconds_behind = group.seconds.get((topic, partition))
                if seconds_behind is not None:
                    yield f"{prefix}lag_seconds", member, seconds_behind
            if group.lag:
                yield f"{prefix}max_lag", (*mine, "true"), max(group.lag.values())
                yield f"{prefix}sum_lag", mine, sum(group.lag.values())
            known = [s for s in group.seconds.values() if s is not None]
            if known:
                yield f"{prefix}max_lag_seconds", (*mine, "true"), max(known)
            for topic in sorted({topic for topic, _ in group.lag}):
                total = sum(lag for (t, _), lag in group.lag.items() if t == topic)
                yield f"{prefix}topic_sum_lag", (*mine, topic), total
        for (topic, partition), end in latest.items():
            labels = (self._cluster_name, topic, str(partition))
            yield "kafka_partition_latest_offset", labels, end


@dataclass(slots=True)
class _Group:
    """One consumer group's partitions; where several sources read one, the one furthest behind."""

    offset: dict[tuple[str, int], int] = field(default_factory=dict)
    lag: dict[tuple[str, int], int] = field(default_factory=dict)
    seconds: dict[tuple[str, int], float | None] = field(default_factory=dict)

    def add(self, source: SourceProgress, seconds: Mapping[tuple[str, int], float | None]) -> None:
        """Take in one source."""
        lag = source.lag
        for tp, offset in source.end.items():
            if tp not in self.offset or offset < self.offset[tp]:
                self.offset[tp], self.lag[tp] = offset, lag[tp]
                self.seconds[tp] = seconds.get(tp)


def _rise(query: _Query, run_id: str, source: SourceProgress) -> None:
    """Add what a run's own counters have risen by since the last progress."""
    for key, metric in _RISING.items():
        value = source.number(key)
        if value is not None:
            place = run_id, key, source.index
            query.counters[metric, source.index] += max(0.0, value - query.seen.get(place, 0.0))
            query.seen[place] = value


def _lag_seconds(query: _Query) -> dict[tuple[str, int], float | None]:
    found: dict[tuple[str, int], float | None] = {}
    for source in query.last.sources:
        for (topic, partition), offset in source.end.items():
            ends = query.ends.get((source.index, topic, partition))
            seconds = ends.lag_s(offset) if ends else None
            before = found.get((topic, partition))
            if before is None or (seconds is not None and seconds > before):
                found[topic, partition] = seconds
    return found


def _spark(query: _Query) -> Iterator[tuple[str, _Labels, float]]:
    last = query.last
    labels = (last.label, last.query_id)
    values = {
        "batch_id": last.batch,
        "batches_total": query.batches,
        "input_rows_total": query.rows,
        "input_rate_rows_per_second": last.input_rate,
        "processing_rate_rows_per_second": last.processing_rate,
        "latency_seconds": last.durations_s.get("triggerExecution"),
        "event_time_watermark_timestamp_seconds": last.watermark_s,
        "states_rows": last.state_rows,
        "states_used_bytes": last.state_bytes,
        "last_progress_timestamp_seconds": last.timestamp_s,
    }
    for name, value in values.items():
        if value is not None:
            yield f"spark_streaming_{name}", labels, value
    for phase, seconds in last.durations_s.items():
        yield "spark_streaming_duration_seconds", (*labels, phase), seconds


def _ours(query: _Query) -> Iterator[tuple[str, _Labels, float]]:
    last = query.last
    for source in last.sources:
        labels = (last.label, last.query_id, str(source.index))
        strategy = source.metrics.get("assignor.strategy")
        if strategy is not None:
            yield "assignor_info", (*labels, strategy), 1
        for key, (name, factor) in _OF_PLAN.items():
            value = source.number(key)
            if value is not None:
                yield name, labels, value * factor
    for (name, index), value in query.counters.items():
        yield name, (last.label, last.query_id, str(index)), value

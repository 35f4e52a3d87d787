"""The last figures of each query, and their exposition.

A collector, not a set of gauges: each scrape shows what is known now, so a partition, topic or
query that has gone is gone from the next scrape.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from streaming.metrics.log_ends import LogEnds
from streaming.metrics.names import METRICS, OURS
from streaming.observe.query_progress import read_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from assignor_bridge.model import Partition
    from streaming.metrics.log_ends import QueryOffsets, TopicOffsets
    from streaming.observe.query_progress import BatchProgress, SourceProgress

    #: Name, values of the labels, value.
    _Sample = tuple[str, tuple[str, ...], float]
    _Family: TypeAlias = GaugeMetricFamily | CounterMetricFamily

#: Of rows that a batch has just written: an idle query has none.
_FRESHNESS = ("freshnessSeconds", "freshnessSecondsMax")


@dataclass(slots=True)
class _Query:
    """The figures of one query until its end is heard of; its next run counts from 0 again."""

    last: BatchProgress
    batches: int = 0
    rows: int = 0
    #: When it was last heard of that there was nothing to do.
    idle_s: float = 0.0
    #: Number of the last batch with data, to count it once.
    counted: int = -1
    #: By metric and source.
    counters: dict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(float))
    #: Where the counters of the run itself stood, alike.
    of_run: dict[tuple[str, int], float] = field(default_factory=dict)
    ends: dict[tuple[int, Partition], LogEnds] = field(default_factory=dict)

    def update(self, progress: BatchProgress, measured_s: float | None) -> bool:
        """Take in a progress; whether it is of a batch with data for the first time."""
        if self.last.run_id != progress.run_id:  # Spark may drop the event of an end
            self.of_run.clear()
            self.counted = -1
        self.last = progress
        self._note_ends(progress.timestamp_s if measured_s is None else measured_s)
        for source in progress.sources:
            self._count(source)
        if not progress.has_data or progress.batch <= self.counted:
            return False
        self.counted = progress.batch
        self.batches += 1
        self.rows += progress.rows
        for source in progress.sources:
            moved = source.number("movedPartitions")
            if moved is not None and source.has_data:
                self.counters["assignor_moved_partitions_total", source.index] += moved
        return True

    def _count(self, source: SourceProgress) -> None:
        """Add what the run's own counters have risen by since the last progress."""
        for metric in OURS:
            if metric.kind == "counter" and metric.key:
                value = source.number(metric.key)
                if value is not None:
                    key = metric.name, source.index
                    self.counters[key] += max(0.0, value - self.of_run.get(key, 0.0))
                    self.of_run[key] = value

    def measure(self, sources: Mapping[str, TopicOffsets], time_s: float) -> None:
        """Take in where the logs end now."""
        self.last = replace(
            self.last,
            sources=tuple(
                replace(source, log_ends=read_offsets(sources.get(str(source.index), {})) or {})
                for source in self.last.sources
            ),
        )
        self._note_ends(time_s)

    def _note_ends(self, time_s: float) -> None:
        """Remember where logs end: at this time by the brokers, else when the batch was planned."""
        ends = {}
        for source in self.last.sources:
            for tp, end in source.ends.items():
                key = source.index, tp
                ends[key] = self.ends.get(key) or LogEnds()
                ends[key].add(time_s if source.log_ends else self.last.timestamp_s, end)
        self.ends = ends

    def lags(self, source: SourceProgress) -> dict[Partition, tuple[int, float | None]]:
        """Return the lag of each partition: unread offsets, and estimated seconds if known.

        Without an answer from the brokers, lag is that of the batch's begin. A query that is idle
        has read all that it may: then it is what limits held back.
        """
        is_idle = self.idle_s > self.last.timestamp_s
        offsets = source.end if source.log_ends or is_idle else source.begin
        return {
            tp: (max(0, end - offsets[tp]), self.ends[source.index, tp].lag_s(offsets[tp]))
            for tp, end in source.ends.items()
            if tp in offsets
        }

    def samples(self) -> Iterator[_Sample]:
        """Return Spark's figures, and ours."""
        last = self.last
        labels = (last.label, last.query_id)
        values = {
            "batch_id": last.batch,
            "batches_total": self.batches,
            "input_rows_total": self.rows,
            "input_rate_rows_per_second": last.input_rate,
            "processing_rate_rows_per_second": last.processing_rate,
            "latency_seconds": last.durations_s.get("triggerExecution"),
            "event_time_watermark_timestamp_seconds": last.watermark_s,
            "states_rows": last.state_rows,
            "states_used_bytes": last.state_bytes,
            "last_progress_timestamp_seconds": max(last.timestamp_s + last.seconds, self.idle_s),
        }
        for name, value in values.items():
            if value is not None:
                yield f"spark_streaming_{name}", labels, value
        for phase, seconds in last.durations_s.items():
            yield "spark_streaming_duration_seconds", (*labels, phase), seconds
        over = _FRESHNESS if self.idle_s > last.timestamp_s else ()
        for source in last.sources:
            of_source = (*labels, str(source.index))
            strategy = source.metrics.get("assignor.strategy")
            if strategy is not None:
                yield "assignor_info", (*of_source, strategy), 1
            held_by = source.metrics.get("assignor.heldBackBy")
            if held_by is not None:
                yield "assignor_held_back_info", (*of_source, held_by), 1
            for metric in OURS:
                if metric.kind == "gauge" and metric.key and metric.key not in over:
                    number = source.number(metric.key)
                    if number is not None:
                        yield metric.name, of_source, number * metric.factor
            if source.latest:
                held = sum(source.held_back.values())
                yield "assignor_held_back_records", of_source, held
        for (name, index), total in self.counters.items():
            yield name, (*labels, str(index)), total


class Board(Collector):
    """Keeps the figures of all queries of a session; `cluster_name` is a label of Kafka's."""

    def __init__(self, cluster_name: str) -> None:
        self._cluster_name = cluster_name
        self._queries: dict[str, _Query] = {}
        self._lock = threading.Lock()

    def measure(self, ends: QueryOffsets, time_s: float) -> bool:
        """Take in where the logs end now; whether they are those of a known query."""
        with self._lock:
            for query_id, query in self._queries.items():
                query.measure(ends.get(query_id, {}), time_s)
            return not self._queries.keys().isdisjoint(ends)

    def update(self, progress: BatchProgress, measured_s: float | None = None) -> bool:
        """Take in a progress; whether it is of a batch with data for the first time.

        `measured_s` is when its `log_ends` were measured, if they were.
        """
        with self._lock:
            query = self._queries.setdefault(progress.query_id, _Query(progress))
            return query.update(progress, measured_s)

    def idle(self, query_id: str, timestamp_s: float) -> bool:
        """Take in that a query has nothing to read; whether it has had a batch."""
        with self._lock:
            query = self._queries.get(query_id)
            if query:
                query.idle_s = timestamp_s
            return query is not None

    def remove(self, query_id: str) -> bool:
        """Forget a query that has ended; whether others are left."""
        with self._lock:
            self._queries.pop(query_id, None)
            return bool(self._queries)

    def max_lag_seconds(self, query_id: str) -> float | None:
        """Estimate the largest lag of a known query's partitions in seconds; None if unknown."""
        with self._lock:
            query = self._queries[query_id]
            lags = [lag for source in query.last.sources for lag in query.lags(source).values()]
        return max((seconds for _, seconds in lags if seconds is not None), default=None)

    @property
    def is_empty(self) -> bool:
        """Whether no query has ended a batch."""
        return not self._queries

    def collect(self) -> Iterator[_Family]:
        """Return all series, in the table's order."""
        families: dict[str, _Family] = {}
        for name, metric in METRICS.items():
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            families[name] = kind(name, metric.help, labels=metric.labels)
        with self._lock:
            for name, labels, value in self._samples():
                families[name].add_metric(labels, value)
        return (family for family in families.values() if family.samples)

    def describe(self) -> Iterable[_Family]:
        """Nothing is known before the first batch."""
        return []

    def _samples(self) -> Iterator[_Sample]:
        yield from self._kafka()
        for query in self._queries.values():
            yield from query.samples()

    def _kafka(self) -> Iterator[_Sample]:
        """Return Kafka's view; what several sources read for one group is in it once.

        Of a partition that several sources read the offset is that of the one furthest behind.
        """
        groups: dict[str, dict[Partition, _Place]] = defaultdict(dict)
        latest: dict[Partition, int] = {}
        for query in self._queries.values():
            for source in query.last.sources:
                group = groups[source.metrics.get("assignor.commitGroup") or query.last.label]
                lags = query.lags(source)
                for tp, offset in source.end.items():
                    if tp not in group or offset < group[tp][0]:
                        group[tp] = offset, *lags.get(tp, (None, None))
                for tp, end in source.ends.items():
                    latest[tp] = max(end, latest.get(tp, 0))
        for name, group in groups.items():
            yield from _of_group((self._cluster_name, name), group)
        for (topic, partition), end in latest.items():
            labels = (self._cluster_name, topic, str(partition))
            yield "kafka_partition_latest_offset", labels, end


#: Offset, lag and seconds behind of a partition; None when unknown.
_Place = tuple[int, "int | None", "float | None"]


def _of_group(labels: tuple[str, str], group: dict[Partition, _Place]) -> Iterator[_Sample]:
    """Return the samples of a group, from offset, lag and seconds behind of its partitions."""
    prefix = "kafka_consumergroup_group_"
    of_topics: dict[str, int] = defaultdict(int)
    for (topic, partition), (offset, lag, seconds) in group.items():
        member = (*labels, topic, str(partition), "", "", "")
        yield f"{prefix}offset", member, offset
        if lag is not None:
            of_topics[topic] += lag
            yield f"{prefix}lag", member, lag
        if seconds is not None:
            yield f"{prefix}lag_seconds", member, seconds
    lags = [lag for _, lag, _ in group.values() if lag is not None]
    if lags:
        yield f"{prefix}max_lag", (*labels, "true"), max(lags)
        yield f"{prefix}sum_lag", labels, sum(of_topics.values())
    known = [seconds for _, _, seconds in group.values() if seconds is not None]
    if known:
        yield f"{prefix}max_lag_seconds", (*labels, "true"), max(known)
    for topic, lag in sorted(of_topics.items()):
        yield f"{prefix}topic_sum_lag", (*labels, topic), lag

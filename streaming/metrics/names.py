"""The table of all metrics: name, kind, labels, meaning. `docs/metrics.md` is made from it.

    python -m streaming.metrics.names

Names and labels of the first group are kafka-lag-exporter's, so that its dashboards and alerts fit.
Those of the second follow Spark's `MetricsReporter`, in base units. Counters end in `_total`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_MEMBER = (
    "cluster_name", "group", "topic", "partition", "member_host", "consumer_id", "client_id",
)  # fmt: skip
_GROUP = ("cluster_name", "group")
_QUERY = ("query", "query_id")
_SOURCE = (*_QUERY, "source")


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table."""

    name: str
    kind: Literal["gauge", "counter"]
    labels: tuple[str, ...]
    help: str


def _gauge(name: str, labels: tuple[str, ...], help_: str) -> Metric:
    return Metric(name, "gauge", labels, help_)


def _counter(name: str, labels: tuple[str, ...], help_: str) -> Metric:
    return Metric(name, "counter", labels, help_)


KAFKA = (
    _gauge("kafka_consumergroup_group_offset", _MEMBER,
           "Offset up to which the last batch read the partition."),
    _gauge("kafka_consumergroup_group_lag", _MEMBER,
           "Offsets of the partition that were left after the last batch."),
    _gauge("kafka_consumergroup_group_lag_seconds", _MEMBER,
           "Seconds since the partition ended where the last batch ended, estimated."),
    _gauge("kafka_consumergroup_group_max_lag", (*_GROUP, "is_simple_consumer"),
           "Largest lag of a partition in offsets."),
    _gauge("kafka_consumergroup_group_max_lag_seconds", (*_GROUP, "is_simple_consumer"),
           "Largest lag of a partition in seconds."),
    _gauge("kafka_consumergroup_group_sum_lag", _GROUP, "Lag of all partitions in offsets."),
    _gauge("kafka_consumergroup_group_topic_sum_lag", (*_GROUP, "topic"),
           "Lag of all partitions of the topic in offsets."),
    _gauge("kafka_partition_latest_offset", ("cluster_name", "topic", "partition"),
           "Offset at which the partition ended when the last batch was planned."),
)  # fmt: skip

SPARK = (
    _gauge("spark_streaming_batch_id", _QUERY, "Number of the last batch."),
    _counter("spark_streaming_batches_total", _QUERY, "Batches with data."),
    _counter("spark_streaming_input_rows_total", _QUERY, "Rows read."),
    _gauge("spark_streaming_input_rate_rows_per_second", _QUERY,
           "Rows that arrived a second (Spark's inputRate-total)."),
    _gauge("spark_streaming_processing_rate_rows_per_second", _QUERY,
           "Rows processed a second (Spark's processingRate-total)."),
    _gauge("spark_streaming_latency_seconds", _QUERY,
           "Seconds of the last batch from trigger to commit (Spark's latency)."),
    _gauge("spark_streaming_duration_seconds", (*_QUERY, "phase"),
           "Seconds of a phase of the last batch, named as in the progress."),
    _gauge("spark_streaming_event_time_watermark_timestamp_seconds", _QUERY,
           "Watermark in seconds since 1970 (Spark's eventTime-watermark)."),
    _gauge("spark_streaming_states_rows", _QUERY,
           "Rows in the state stores (Spark's states-rowsTotal)."),
    _gauge("spark_streaming_states_used_bytes", _QUERY,
           "Memory of the state stores (Spark's states-usedBytes)."),
    _gauge("spark_streaming_last_progress_timestamp_seconds", _QUERY,
           "When the last trigger began, in seconds since 1970."),
)  # fmt: skip

OURS = (
    _gauge("assignor_info", (*_SOURCE, "strategy"),
           "1; the label tells the assignor of the last batch, spark when it fell back."),
    _gauge("assignor_tasks", _SOURCE, "Tasks of the last batch."),
    _gauge("assignor_executors", _SOURCE, "Executors that the last plan gave work to."),
    _gauge("assignor_slots", _SOURCE, "Task slots that the last plan could use."),
    _gauge("assignor_split_partitions", _SOURCE,
           "Partitions that several tasks read in the last batch."),
    _gauge("assignor_generation", _SOURCE, "Rises when executors or partitions change."),
    _gauge("assignor_imbalance_ratio", _SOURCE,
           "Predicted time of the busiest slot over the ideal, minus 1."),
    _gauge("assignor_prediction_error_ratio", _SOURCE,
           "Share of the time reported last that the plan before expected elsewhere."),
    _counter("assignor_moved_partitions_total", _SOURCE,
             "Partitions whose reading went on with another executor."),
    _gauge("assignor_moved_offsets_ratio", _SOURCE,
           "Share of the last batch's offsets that another executor read than the one before."),
    _gauge("assignor_locality_hit_ratio", _SOURCE,
           "Share of the last batch's tasks that ran where they were planned."),
    _gauge("assignor_plan_seconds", _SOURCE, "Seconds that the last plan took."),
    _counter("assignor_fallbacks_total", _SOURCE, "Batches that Spark's own mapping had to read."),
    _counter("assignor_reader_bytes_total", _SOURCE, "Bytes of keys and values that were read."),
    _counter("assignor_commit_failures_total", _SOURCE,
             "Commits to the consumer group that were refused."),
)  # fmt: skip

METRICS = {metric.name: metric for metric in (*KAFKA, *SPARK, *OURS)}


def markdown() -> str:
    """Write the table for the docs."""
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    rows += [
        f"| `{m.name}` | {m.kind} | {', '.join(m.labels)} | {m.help} |" for m in METRICS.values()
    ]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")

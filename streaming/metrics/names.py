"""The table of all metrics: name, kind, labels, meaning. `docs/metrics.md` has it, too.

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
    labels: tuple[str, ...]
    help: str
    #: Name among a source's `assignor.*` metrics; empty for what is taken from elsewhere.
    key: str = ""
    #: From that metric's unit to the base unit.
    factor: float = 1.0

    @property
    def kind(self) -> Literal["gauge", "counter"]:
        """Whether it only ever rises."""
        return "counter" if self.name.endswith("_total") else "gauge"


KAFKA = (
    Metric("kafka_consumergroup_group_offset", _MEMBER,
           "Offset up to which the last batch read the partition."),
    Metric("kafka_consumergroup_group_lag", _MEMBER,
           "Unread offsets of the partition."),
    Metric("kafka_consumergroup_group_lag_seconds", _MEMBER,
           "Estimated seconds since the partition's first unread record was written."),
    Metric("kafka_consumergroup_group_max_lag", (*_GROUP, "is_simple_consumer"),
           "Largest lag of a partition in offsets."),
    Metric("kafka_consumergroup_group_max_lag_seconds", (*_GROUP, "is_simple_consumer"),
           "Largest lag of a partition in seconds."),
    Metric("kafka_consumergroup_group_sum_lag", _GROUP, "Lag of all partitions in offsets."),
    Metric("kafka_consumergroup_group_topic_sum_lag", (*_GROUP, "topic"),
           "Lag of all partitions of the topic in offsets."),
    Metric("kafka_partition_latest_offset", ("cluster_name", "topic", "partition"),
           "Offset at which the partition ends."),
)  # fmt: skip

SPARK = (
    Metric("spark_streaming_batch_id", _QUERY, "Number of the last batch."),
    Metric("spark_streaming_batches_total", _QUERY, "Batches with data."),
    Metric("spark_streaming_input_rows_total", _QUERY, "Rows read."),
    Metric("spark_streaming_input_rate_rows_per_second", _QUERY,
           "Rows that arrived per second (Spark's inputRate-total)."),
    Metric("spark_streaming_processing_rate_rows_per_second", _QUERY,
           "Rows processed per second (Spark's processingRate-total)."),
    Metric("spark_streaming_latency_seconds", _QUERY,
           "Seconds of the last batch from trigger to commit (Spark's latency)."),
    Metric("spark_streaming_duration_seconds", (*_QUERY, "phase"),
           "Seconds of a phase of the last batch, named as in the progress."),
    Metric("spark_streaming_event_time_watermark_timestamp_seconds", _QUERY,
           "Watermark in seconds since 1970 (Spark's eventTime-watermark)."),
    Metric("spark_streaming_states_rows", _QUERY,
           "Rows in the state stores (Spark's states-rowsTotal)."),
    Metric("spark_streaming_states_used_bytes", _QUERY,
           "Memory of the state stores (Spark's states-usedBytes)."),
    Metric("spark_streaming_last_progress_timestamp_seconds", _QUERY,
           "When the query last ended a batch or had nothing to read, in seconds since 1970."),
)  # fmt: skip

OURS = (
    Metric("assignor_info", (*_SOURCE, "strategy"),
           "1; the label is the assignor of the last batch, spark when it fell back."),
    Metric("assignor_tasks", _SOURCE, "Tasks of the last batch.", "tasks"),
    Metric("assignor_executors", _SOURCE,
           "Executors that the last plan gave work to.", "executors"),
    Metric("assignor_slots", _SOURCE, "Task slots that the last plan could use.", "slots"),
    Metric("assignor_split_partitions", _SOURCE,
           "Partitions that several tasks read in the last batch.", "splitPartitions"),
    Metric("assignor_generation", _SOURCE,
           "Rises when executors or partitions change.", "generation"),
    Metric("assignor_imbalance_ratio", _SOURCE,
           "Predicted time of the busiest slot over the ideal, minus 1.", "imbalance"),
    Metric("assignor_prediction_error_ratio", _SOURCE,
           "Share of the reported read time that the last plan expected elsewhere.",
           "predictionError"),
    Metric("assignor_moved_partitions_total", _SOURCE,
           "Partitions that another executor than before began to read."),
    Metric("assignor_moved_offsets_ratio", _SOURCE,
           "Share of the last batch's offsets that another executor read than before.",
           "movedOffsets"),
    Metric("assignor_locality_hit_ratio", _SOURCE,
           "Share of the last batch's tasks that ran where they were planned.", "localityHitRate"),
    Metric("assignor_freshness_seconds", _SOURCE,
           "Age of the last batch's newest record at its completion; absent when idle.",
           "freshnessSeconds"),
    Metric("assignor_freshness_max_seconds", _SOURCE,
           "Age of the last batch's oldest record at its completion; absent when idle.",
           "freshnessSecondsMax"),
    Metric("assignor_admitted_records", _SOURCE,
           "Offsets that the last batch was limited to, where our options limit batches.",
           "admittedRecords"),
    Metric("assignor_held_back_records", _SOURCE,
           "Offsets that the last batch left for later ones because of a limit."),
    Metric("assignor_held_back_info", (*_SOURCE, "by"),
           "1; the label is what held them back (nothing: there were none; spark: a fallback)."),
    Metric("assignor_time_to_loss_seconds", _SOURCE,
           "Least seconds until retention may delete an unread record (fairness=deadline).",
           "secondsToLoss"),
    Metric("assignor_event_time_spread_seconds", _SOURCE,
           "Seconds between the slowest and the fastest partition, with alignment.",
           "eventTimeSpreadSeconds"),
    Metric("assignor_offsets_lost_total", _SOURCE,
           "Offsets that were deleted before they were read (failOnDataLoss=false).",
           "offsetsLost"),
    Metric("assignor_plan_seconds", _SOURCE,
           "Seconds that the last plan took.", "planMillis", 0.001),
    Metric("assignor_fallbacks_total", _SOURCE,
           "Batches for which Spark's own mapping, or its own limits, replaced a plan.",
           "fallbacks"),
    Metric("assignor_reader_bytes_total", _SOURCE,
           "Bytes of keys and values that were read.", "readBytes"),
    Metric("assignor_received_bytes_total", _SOURCE,
           "Bytes that readers with a known rack received from brokers.", "receivedBytes"),
    Metric("assignor_cross_zone_bytes_total", _SOURCE,
           "Those of them that came from brokers in other racks.", "crossZoneBytes"),
    Metric("assignor_cross_zone_ratio", _SOURCE,
           "Share of the last batch's received bytes that came from other racks.",
           "crossZoneShare"),
    Metric("assignor_commit_failures_total", _SOURCE,
           "Commits to the consumer group that were refused.", "commitFailures"),
)  # fmt: skip

METRICS = {metric.name: metric for metric in (*KAFKA, *SPARK, *OURS)}

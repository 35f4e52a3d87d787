"""Define the name, kind, labels, and meaning of all metrics; `docs/metrics.md` has the same table.

`KAFKA` has the names and labels of kafka-lag-exporter, so that its dashboards and alerts work.
`SPARK` follows Spark's `MetricsReporter`, in base units. `ASSIGNOR` describes plans and reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_GROUP = ("cluster_name", "group")
_MEMBER = (*_GROUP, "topic", "partition", "member_host", "consumer_id", "client_id")
_QUERY = ("query", "query_id")
_SOURCE = (*_QUERY, "source")


@dataclass(frozen=True, slots=True)
class Metric:
    """The definition of a metric."""

    name: str
    labels: tuple[str, ...]
    help: str
    #: Name in a source's `assignor.*` progress metrics; empty if the value has another origin.
    key: str = ""
    #: Factor that converts the progress metric's unit to the base unit.
    factor: float = 1.0

    @property
    def kind(self) -> Literal["gauge", "counter"]:
        """`counter` for a running total, whose name ends with `_total`, else `gauge`."""
        return "counter" if self.name.endswith("_total") else "gauge"


KAFKA = (
    Metric("kafka_consumergroup_group_offset", _MEMBER,
           "Offset at which the query's next batch starts to read the partition."),
    Metric("kafka_consumergroup_group_lag", _MEMBER, "Unread offsets of the partition."),
    Metric("kafka_consumergroup_group_lag_seconds", _MEMBER,
           "Estimated seconds since the partition's first unread record was written."),
    Metric("kafka_consumergroup_group_max_lag", (*_GROUP, "is_simple_consumer"),
           "Unread offsets of the partition with the largest lag."),
    Metric("kafka_consumergroup_group_max_lag_seconds", (*_GROUP, "is_simple_consumer"),
           "Estimated seconds since the oldest unread record of all partitions was written."),
    Metric("kafka_consumergroup_group_sum_lag", _GROUP, "Unread offsets of all partitions."),
    Metric("kafka_consumergroup_group_topic_sum_lag", (*_GROUP, "topic"),
           "Unread offsets of all partitions of the topic."),
    Metric("kafka_partition_latest_offset", ("cluster_name", "topic", "partition"),
           "Offset that the partition's next record will get."),
)  # fmt: skip

SPARK = (
    Metric("spark_streaming_batch_id", _QUERY, "ID of the query's last batch (Spark's batchId)."),
    Metric("spark_streaming_batches_total", _QUERY, "Batches with data."),
    Metric("spark_streaming_input_rows_total", _QUERY, "Rows that the query has read."),
    Metric("spark_streaming_input_rate_rows_per_second", _QUERY,
           "Rows that arrived per second (Spark's inputRate-total)."),
    Metric("spark_streaming_processing_rate_rows_per_second", _QUERY,
           "Rows processed per second (Spark's processingRate-total)."),
    Metric("spark_streaming_latency_seconds", _QUERY,
           "Duration of the last batch from trigger to commit (Spark's latency)."),
    Metric("spark_streaming_duration_seconds", (*_QUERY, "phase"),
           "Duration of one phase of the last batch; phases have the names in Spark's progress."),
    Metric("spark_streaming_event_time_watermark_timestamp_seconds", _QUERY,
           "Event-time watermark in seconds since 1970 (Spark's eventTime-watermark)."),
    Metric("spark_streaming_states_rows", _QUERY,
           "Rows in the query's state stores (Spark's states-rowsTotal)."),
    Metric("spark_streaming_states_used_bytes", _QUERY,
           "Memory used by the query's state stores (Spark's states-usedBytes)."),
    Metric("spark_streaming_last_progress_timestamp_seconds", _QUERY,
           "When the query last completed a batch or had nothing to read, in seconds since 1970."),
)  # fmt: skip

ASSIGNOR = (
    Metric("assignor_info", (*_SOURCE, "strategy"),
           "Always 1; strategy is the assignor of the last batch, or spark for Spark's default."),
    Metric("assignor_tasks", _SOURCE, "Tasks that read the last batch.", "tasks"),
    Metric("assignor_executors", _SOURCE,
           "Executors to which the last plan assigned tasks.", "executors"),
    Metric("assignor_slots", _SOURCE, "Task slots that the last plan could use.", "slots"),
    Metric("assignor_split_partitions", _SOURCE,
           "Partitions that several tasks read in the last batch.", "splitPartitions"),
    Metric("assignor_generation", _SOURCE,
           "Number that increases whenever executors or partitions change.", "generation"),
    Metric("assignor_imbalance_ratio", _SOURCE,
           "Predicted time of the busiest task slot over the ideal time, minus 1.", "imbalance"),
    Metric("assignor_prediction_error_ratio", _SOURCE,
           "Differences between predicted and reported read times, over the total read time.",
           "predictionError"),
    Metric("assignor_tail_ratio", _SOURCE,
           "Share of the last batch's predicted work in tasks that any free slot takes.",
           "tailShare"),
    Metric("assignor_tail_tasks", _SOURCE,
           "Tasks of the last batch that any free slot takes.", "tailTasks"),
    Metric("assignor_unpredictability_ratio", _SOURCE,
           "Standard deviation of log(read time / prediction) over tasks, median of five batches.",
           "unpredictability"),
    Metric("assignor_moved_partitions_total", _SOURCE,
           "Partition moves from one executor to another."),
    Metric("assignor_moved_offsets_ratio", _SOURCE,
           "Share of the last batch's offsets read by a different executor than before.",
           "movedOffsets"),
    Metric("assignor_locality_hit_ratio", _SOURCE,
           "Share of the last batch's tasks that ran where they were planned.", "localityHitRate"),
    Metric("assignor_freshness_seconds", _SOURCE,
           "Age of the last batch's newest record when the batch completed; absent while idle.",
           "freshnessSeconds"),
    Metric("assignor_freshness_max_seconds", _SOURCE,
           "Age of the last batch's oldest record when the batch completed; absent while idle.",
           "freshnessSecondsMax"),
    Metric("assignor_admitted_records", _SOURCE,
           "Offsets that the assignor's limits allowed in the last batch; absent without limits.",
           "admittedRecords"),
    Metric("assignor_held_back_records", _SOURCE,
           "Offsets that the last batch left for later batches because of a limit."),
    Metric("assignor_held_back_info", (*_SOURCE, "by"),
           "Always 1; by is what held offsets back: a limit, nothing, or spark after a fallback."),
    Metric("assignor_time_to_loss_seconds", _SOURCE,
           "Seconds until retention may delete the first unread record (fairness=deadline).",
           "secondsToLoss"),
    Metric("assignor_event_time_spread_seconds", _SOURCE,
           "Event-time difference between the slowest and fastest partition (alignEventTime).",
           "eventTimeSpreadSeconds"),
    Metric("assignor_offsets_lost_total", _SOURCE,
           "Offsets that were deleted before the query read them (failOnDataLoss=false).",
           "offsetsLost"),
    Metric("assignor_plan_seconds", _SOURCE,
           "Time spent planning the last batch.", "planMillis", 0.001),
    Metric("assignor_fallbacks_total", _SOURCE,
           "Batches that used Spark's default assignment or limits because planning failed.",
           "fallbacks"),
    Metric("assignor_reader_bytes_total", _SOURCE,
           "Bytes of keys and values that the shared readers have read.", "readBytes"),
    Metric("assignor_received_bytes_total", _SOURCE,
           "Bytes that readers with a known rack have received from brokers.", "receivedBytes"),
    Metric("assignor_cross_zone_bytes_total", _SOURCE,
           "Bytes that readers have received from brokers in other racks.", "crossZoneBytes"),
    Metric("assignor_cross_zone_ratio", _SOURCE,
           "Share of the last batch's received bytes that came from other racks.",
           "crossZoneShare"),
    Metric("assignor_commit_failures_total", _SOURCE,
           "Offset commits to the consumer group that the broker refused.", "commitFailures"),
)  # fmt: skip

METRICS = {metric.name: metric for metric in (*KAFKA, *SPARK, *ASSIGNOR)}

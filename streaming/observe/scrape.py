"""Parse the metrics that an endpoint serves, for `assignor report --live`."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Partition
from streaming.observe.which_query import choose_query_id

_LAG_METRIC = "kafka_consumergroup_group_lag"
_BATCH_METRIC = "spark_streaming_batch_id"


@dataclass(slots=True)
class QueryMetrics:
    """The latest metrics of one query."""

    query_id: str
    label: str
    #: Values of the query's metrics, by metric name.
    values: dict[str, float] = field(default_factory=dict)
    #: Values of the planner's metrics, by source and metric name.
    values_by_source: dict[str, dict[str, float]] = field(default_factory=dict)
    #: The assignor of the last batch, by source.
    strategies: dict[str, str] = field(default_factory=dict)
    #: What held offsets back, by source: a limit, `nothing`, or `spark` after a fallback.
    held_back_by: dict[str, str] = field(default_factory=dict)
    #: Unread offsets, by partition.
    lag: dict[Partition, int] = field(default_factory=dict)
    #: Age of the first unread record in seconds, by partition, if known.
    lag_seconds: dict[Partition, float] = field(default_factory=dict)


def parse_query_metrics(text: str, query: str | None, location: object) -> QueryMetrics | None:
    """Parse the metrics of the query with the name or ID `query`, or of the only query if None.

    Returns None if no running query has finished a batch. Raises OptionError if the text does not
    have Prometheus metrics, or unless exactly one query matches.
    """
    try:
        return _select_metrics(text, query, location)
    except OptionError:
        raise
    except (ValueError, LookupError, ArithmeticError) as error:
        reason = f"{location} serves no metrics: give the address of metrics.port"
        raise OptionError(reason) from error


def _select_metrics(text: str, query: str | None, location: object) -> QueryMetrics | None:
    samples = [s for f in text_string_to_metric_families(text) for s in f.samples]
    batch_labels = [s.labels for s in samples if s.name == _BATCH_METRIC]
    label_by_id = {labels["query_id"]: labels["query"] for labels in batch_labels}
    if not label_by_id:
        return None
    query_id = choose_query_id(label_by_id, query, str(location))
    metrics = QueryMetrics(query_id, label_by_id[query_id])
    # The query's consumer group has the query's name, or is the only group without a query's name.
    groups = {s.labels["group"] for s in samples if s.name == _LAG_METRIC}
    custom_groups = groups - set(label_by_id.values())
    has_custom_group = metrics.label not in groups and len(custom_groups) == 1
    group = custom_groups.pop() if has_custom_group else metrics.label
    for sample in samples:
        labels = sample.labels
        if labels.get("query_id") == metrics.query_id:
            if "strategy" in labels:
                metrics.strategies[labels["source"]] = labels["strategy"]
            elif "by" in labels:
                metrics.held_back_by[labels["source"]] = labels["by"]
            elif "source" in labels:
                source_values = metrics.values_by_source.setdefault(labels["source"], {})
                source_values[sample.name] = sample.value
            elif "phase" not in labels:
                metrics.values[sample.name] = sample.value
        elif labels.get("group") == group and "partition" in labels:
            tp = Partition(labels["topic"], int(labels["partition"]))
            if sample.name == _LAG_METRIC:
                metrics.lag[tp] = _parse_offset_count(sample.value)
            elif sample.name == f"{_LAG_METRIC}_seconds":
                metrics.lag_seconds[tp] = sample.value
    return metrics


def _parse_offset_count(value: float) -> int:
    if abs(value) > 2**63:  # Kafka's largest offset as a float
        raise ValueError(f"{value:g} offsets exceed Kafka's range")
    return int(value)

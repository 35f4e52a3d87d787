"""Reads back the metrics endpoint, for `assignor report --live`."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Partition
from streaming.observe.which_query import choose_query_id

_LAG = "kafka_consumergroup_group_lag"
_BATCH = "spark_streaming_batch_id"


@dataclass(slots=True)
class QueryMetrics:
    """The last figures of one query."""

    query_id: str
    label: str
    #: By metric.
    values: dict[str, float] = field(default_factory=dict)
    #: Our planner's, by source and metric.
    sources: dict[str, dict[str, float]] = field(default_factory=dict)
    #: The assignor of the last batch, by source.
    strategies: dict[str, str] = field(default_factory=dict)
    #: What held the last batch back, by source; only where our options limit batches.
    held_by: dict[str, str] = field(default_factory=dict)
    #: Offsets and seconds behind, by topic and partition; seconds only where they are known.
    lag: dict[Partition, int] = field(default_factory=dict)
    lag_seconds: dict[Partition, float] = field(default_factory=dict)


def read_endpoint(text: str, query: str | None, where: object) -> QueryMetrics | None:
    """Read the figures of one query, by its name or id; None where there is one.

    Returns None as long as no query has finished a batch. Raises OptionError when the text is not
    an exposition of metrics, or the choice is not clear.
    """
    try:
        return _read(text, query, where)
    except OptionError:
        raise
    except (ValueError, LookupError, ArithmeticError) as error:
        raise OptionError(f"{where} serves no metrics: metrics.port is expected") from error


def _read(text: str, query: str | None, where: object) -> QueryMetrics | None:
    samples = [s for f in text_string_to_metric_families(text) for s in f.samples]
    queries = {s.labels["query_id"]: s.labels["query"] for s in samples if s.name == _BATCH}
    if not queries:
        return None
    chosen = choose_query_id(queries, query, str(where))
    metrics = QueryMetrics(chosen, queries[chosen])
    # The query's group is named after it, or else is the one that is not another query's.
    groups = {s.labels["group"] for s in samples if s.name == _LAG}
    others = groups - set(queries.values())
    group = others.pop() if metrics.label not in groups and len(others) == 1 else metrics.label
    for sample in samples:
        labels = sample.labels
        if labels.get("query_id") == metrics.query_id:
            if "strategy" in labels:
                metrics.strategies[labels["source"]] = labels["strategy"]
            elif "by" in labels:
                metrics.held_by[labels["source"]] = labels["by"]
            elif "source" in labels:
                metrics.sources.setdefault(labels["source"], {})[sample.name] = sample.value
            elif "phase" not in labels:
                metrics.values[sample.name] = sample.value
        elif labels.get("group") == group and "partition" in labels:
            key = Partition(labels["topic"], int(labels["partition"]))
            if sample.name == _LAG:
                metrics.lag[key] = _offsets(sample.value)
            elif sample.name == f"{_LAG}_seconds":
                metrics.lag_seconds[key] = sample.value
    return metrics


def _offsets(value: float) -> int:
    if abs(value) > 2**63:  # as a float, Kafka's largest offset is this
        raise ValueError(f"{value:g} offsets are more than Kafka has")
    return int(value)

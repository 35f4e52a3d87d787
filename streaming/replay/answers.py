"""Describe the results of a replay as sentences, with their assumptions, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge.errors import pluralize
from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.observe.words import format_seconds
from streaming.replay.bill import bill_to_json, describe_bill, list_bill_assumptions
from streaming.replay.replayed import ITSELF, SPARK, Replay
from streaming.simulator.play import SPARK_MAPPINGS

if TYPE_CHECKING:
    from streaming.replay.cluster import Cluster
    from streaming.simulator.results import MappingResult

#: Regret below this is a rounding error.
_ROUNDING_S = 1e-9
#: A difference below this share of Spark's time is reported as no gain.
MIN_GAIN = 0.05


def replay_to_json(replay: Replay) -> dict[str, object]:
    """Return a replay as JSON values for `--json`."""
    spark = replay.find_result(SPARK)
    spark_seconds = spark.seconds if spark else 0.0
    return {
        "title": replay.title,
        "verdict": write_verdict(replay),
        "answer": write_summary(replay),
        "batches": len(replay.batches),
        "partitions": replay.partition_count,
        "records": replay.offset_count,
        "executors": len(replay.cluster.executors),
        "slots": replay.cluster.slots,
        "costSeconds": replay.cluster.cost_s,
        "unusualCosts": {
            str(tp): cost for tp, cost in sorted(replay.cluster.unusual_costs.items())
        },
        "slowness": dict(sorted(replay.cluster.slowness.items())),
        "unpredictability": replay.cluster.unpredictability,
        "localityWaitSeconds": replay.cluster.locality_wait_s,
        "assumptions": list(list_assumptions(replay)),
        "mappings": [_result_to_json(result, spark_seconds) for result in replay.mappings],
        **({"zones": bill} if (bill := bill_to_json(replay)) else {}),
    }


def _result_to_json(result: MappingResult, spark_seconds: float) -> dict[str, object]:
    """Return a result or its error as JSON values; `timeRatio` is relative to Spark's default."""
    if result.error is not None:
        return {"name": result.name, "error": result.error}
    return {
        "name": result.name,
        "timesIdeal": round(result.times_ideal, 6),
        "regret": round(result.times_ideal - 1, 6),
        "regretSeconds": round(result.mean_regret_seconds, 9),
        "worstTimesIdeal": round(1 + result.worst_regret_share, 6),
        "tasks": round(result.mean_tasks, 2),
        "movedPartitions": round(result.mean_moved_partitions, 3),
        "movedShare": round(result.moved_share, 6),
        "timeRatio": round(result.seconds / spark_seconds, 6) if spark_seconds else None,
    }


def write_verdict(replay: Replay) -> str:
    """Return a verdict of at most 20 words on whether the assignor would have helped."""
    spark, assignor = replay.find_result(SPARK), replay.find_result(LAG_AWARE_STICKY)
    if not replay.batches:
        return "Nothing to compare: no batch in the log has data"
    if spark is None or assignor is None or not spark.seconds:
        return f"{pluralize(len(replay.batches), 'batch', 'batches')} replayed"
    ratio = assignor.seconds / spark.seconds
    if ratio > 1 - MIN_GAIN:
        verdict = "Keep Spark's default" if ratio > 1 + MIN_GAIN else "Nothing to gain"
        return f"{verdict}: {LAG_AWARE_STICKY} would take {ratio:.0%} of Spark's reading time"
    saving = format_seconds((spark.seconds - assignor.seconds) / len(replay.batches))
    qualifier = "at most " * replay.cluster.origins.get("cost", "").startswith("at most")
    share_text = f"{1 - ratio:.0%} of the reading time"
    return f"{LAG_AWARE_STICKY} would save {qualifier}{saving} a batch, {share_text}"


def write_summary(replay: Replay) -> str:
    """Return a few sentences on whether the assignor would have helped."""
    spark, assignor = replay.find_result(SPARK), replay.find_result(LAG_AWARE_STICKY)
    if not replay.batches:
        return "No batch in the log has data, so there is nothing to compare"
    time_text = _describe_time(replay, spark, assignor)
    sentences = [time_text, describe_regret(replay), describe_bill(replay)]
    return ". ".join(filter(None, sentences))


def describe_regret(replay: Replay) -> str:
    """Describe the regret (time above the best in hindsight) and its predicted share; or ""."""
    result = replay.find_result(ITSELF) or replay.find_result(LAG_AWARE_STICKY)
    if result is None or result.mean_regret_seconds < _ROUNDING_S:
        return ""
    worst_batch = max(result.batches, key=lambda p: p.regret_share)
    predicted_s = sum((p.planned_imbalance or 0.0) * p.bound_seconds for p in result.batches)
    total_regret_s = result.mean_regret_seconds * len(result.batches)
    prediction_clause = ""
    if result.name != ITSELF:
        share_text = f"{min(1.0, predicted_s / total_regret_s):.0%}"
        texts = {"100%": "predicted all of it", "0%": "predicted none of it"}
        prediction_clause = f"; the plans {texts.get(share_text, f'predicted {share_text} of it')}"
    return (
        f"Regret of {result.name}: {format_seconds(result.mean_regret_seconds)} a batch "
        f"({result.times_ideal - 1:.1%}) above the best time in hindsight, at most "
        f"{worst_batch.regret_share:.1%} (batch {worst_batch.batch}){prediction_clause}"
    )


def _describe_time(
    replay: Replay, spark: MappingResult | None, assignor: MappingResult | None
) -> str:
    batches_text = pluralize(len(replay.batches), "batch", "batches")
    if spark is None or assignor is None:
        return f"{batches_text} replayed; a comparison needs {SPARK!r} and {LAG_AWARE_STICKY!r}"
    ratio = assignor.seconds / spark.seconds if spark.seconds else 1.0
    facts = (
        f"Over {batches_text}, Spark's default would take {spark.times_ideal:.2f} times the ideal "
        f"reading time, and {LAG_AWARE_STICKY} {assignor.times_ideal:.2f} times"
    )
    if ratio > 1 - MIN_GAIN:
        if ratio > 1 + MIN_GAIN:
            return f"{facts}, which is {ratio - 1:.0%} slower. Keep Spark's default"
        why = f"{LAG_AWARE_STICKY} is hardly better balanced"
        if spark.times_ideal < 1 + 2 * MIN_GAIN:
            why = "Spark's default is balanced enough"
        return f"{facts}: less than {MIN_GAIN:.0%} would be saved, because {why}"
    return (
        f"{facts}: reading a batch would take {ratio:.0%} of the time, with "
        f"{_describe_moves(assignor)} (Spark's default: {spark.moved_share:.0%})"
        f"{_describe_alternative(replay, assignor)}"
    )


def _describe_alternative(replay: Replay, assignor: MappingResult) -> str:
    """Describe Spark's fastest other mapping if it is about as fast as the assignor; else ""."""
    other_results = [m for n in SPARK_MAPPINGS[1:] if (m := replay.find_result(n)) is not None]
    alternatives = [m for m in other_results if m.seconds <= assignor.seconds * (1 + MIN_GAIN)]
    if not alternatives:
        return ""
    fastest = min(alternatives, key=lambda m: m.seconds)
    return (
        f". Spark's own {fastest.name} would take {fastest.times_ideal:.2f} times the ideal, with "
        f"{fastest.mean_tasks:.0f} tasks per batch and {_describe_moves(fastest)}"
    )


def _describe_moves(mapping: MappingResult) -> str:
    return f"{mapping.moved_share:.0%} of partitions changing executor per batch"


def list_assumptions(replay: Replay) -> tuple[str, ...]:
    """Return the assumptions behind the figures, as one text each."""
    cluster = replay.cluster
    executor_origin, cost_origin = (
        f" ({cluster.origins[name]})" if name in cluster.origins else ""
        for name in ("executors", "cost")
    )
    executors_text = pluralize(len(cluster.executors), "executor")
    slot_counts = sorted({e.slots for e in cluster.executors})
    slots_text = "1 slot" if slot_counts == [1] else f"{'/'.join(map(str, slot_counts))} slots"
    when = "the same in every batch"
    if any(e != cluster.executors for e in cluster.executors_by_batch.values()):
        when = "in the last batch; earlier batches use the executors they had"
    return (
        f"{executors_text} with {slots_text}, {when}{executor_origin}",
        f"{_describe_costs(cluster)}{format_seconds(cluster.cost_s)}{cost_origin}; starting a "
        f"task or a consumer, and work after the read, cost nothing{_describe_noise(cluster)}",
        "each batch reads its own offsets and has all slots to itself; a task waits up to "
        f"{cluster.locality_wait_s:g} s for its executor (spark.locality.wait)",
        "without =N, minPartitions is 4 tasks per slot, but at least 2 per partition, and "
        "maxRecordsPerPartition is a quarter of a slot's even share",
        *list_bill_assumptions(replay),
    )


def _describe_noise(cluster: Cluster) -> str:
    if not cluster.unpredictability:
        return ""
    return f"; a partition's time deviates unpredictably by {cluster.unpredictability:.1%}"


def _describe_costs(cluster: Cluster) -> str:
    if not cluster.unusual_costs and not cluster.slowness:
        return "each record costs the same, "
    partitions_text = pluralize(len(cluster.unusual_costs), "partition")
    executors_text = pluralize(len(cluster.slowness), "executor")
    return (
        f"costs are learned by the planner, with {partitions_text} and {executors_text} that "
        "differ; a usual record costs "
    )

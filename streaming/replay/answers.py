"""What a replay answers: sentences, what they rest on, and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge.errors import counted
from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.observe.words import seconds_text
from streaming.replay.bill import bill_answer, bill_assumptions, bill_json
from streaming.replay.replayed import ITSELF, SPARK, Replay
from streaming.simulator.play import SPARK_MAPPINGS

if TYPE_CHECKING:
    from streaming.replay.cluster import Cluster
    from streaming.simulator.play import MappingResult

#: Less is not regret but rounding.
_NO_TIME = 1e-9
#: A gain below this share of Spark's time is called none.
WORTH_IT = 0.05


def replay_json(replayed: Replay) -> dict[str, object]:
    """Return a replay as JSON values, for `--json`."""
    spark = replayed.find(SPARK)
    seconds = spark.seconds if spark else 0.0
    return {
        "title": replayed.title,
        "verdict": verdict(replayed),
        "answer": answer(replayed),
        "batches": len(replayed.batches),
        "partitions": replayed.partitions,
        "records": replayed.records,
        "executors": len(replayed.cluster.executors),
        "slots": replayed.cluster.slots,
        "costSeconds": replayed.cluster.cost_s,
        "unusualCosts": {str(tp): cost for tp, cost in sorted(replayed.cluster.unusual.items())},
        "slowness": dict(sorted(replayed.cluster.slowness.items())),
        "localityWaitSeconds": replayed.cluster.locality_wait_s,
        "assumptions": list(assumptions(replayed)),
        "mappings": [_as_json(result, seconds) for result in replayed.mappings],
        **({"zones": bill} if (bill := bill_json(replayed)) else {}),
    }


def _as_json(result: MappingResult, spark_seconds: float) -> dict[str, object]:
    """Return JSON values; `timeRatio` is over Spark's mapping."""
    if result.error is not None:
        return {"name": result.name, "error": result.error}
    return {
        "name": result.name,
        "timesIdeal": round(result.times_ideal, 6),
        "regret": round(result.times_ideal - 1, 6),
        "regretSeconds": round(result.regret_seconds, 9),
        "worstTimesIdeal": round(1 + result.worst_over, 6),
        "tasks": round(result.tasks, 2),
        "movedPartitions": round(result.moved, 3),
        "movedShare": round(result.moved_share, 6),
        "timeRatio": round(result.seconds / spark_seconds, 6) if spark_seconds else None,
    }


def verdict(replayed: Replay) -> str:
    """Answer in at most 20 words whether the option would have helped."""
    spark, ours = replayed.find(SPARK), replayed.find(LAG_AWARE_STICKY)
    if not replayed.batches:
        return "Nothing to compare: no batch of the log read anything"
    if spark is None or ours is None or not spark.seconds:
        return f"{counted(len(replayed.batches), 'batch', 'batches')} replayed"
    ratio = ours.seconds / spark.seconds
    if ratio > 1 + WORTH_IT:
        return f"Keep Spark's mapping: {LAG_AWARE_STICKY} would take {ratio:.0%} of its time"
    if ratio > 1 - WORTH_IT:
        return f"Nothing to gain: {LAG_AWARE_STICKY} would take {ratio:.0%} of the time of Spark's"
    saved = seconds_text((spark.seconds - ours.seconds) / len(replayed.batches))
    most = "at most " * replayed.cluster.origins.get("cost", "").startswith("at most")
    share = f"{1 - ratio:.0%} of the reading time"
    return f"{LAG_AWARE_STICKY} would save {most}{saved} a batch, {share}"


def answer(replayed: Replay) -> str:
    """Answer in a sentence or two whether the option would have helped."""
    spark, ours = replayed.find(SPARK), replayed.find(LAG_AWARE_STICKY)
    count = counted(len(replayed.batches), "batch", "batches")
    if not replayed.batches:
        return "No batch of the log read anything: there is nothing to compare"
    parts = [
        _time_answer(replayed, spark, ours, count), regret_answer(replayed), bill_answer(replayed)
    ]  # fmt: skip
    return ". ".join(part for part in parts if part)


def regret_answer(replayed: Replay) -> str:
    """Say how far plans were from the best that hindsight allows, and whose share that is."""
    itself = replayed.find(ITSELF) or replayed.find(LAG_AWARE_STICKY)
    if itself is None or itself.regret_seconds < _NO_TIME:
        return ""
    worst = max(itself.played, key=lambda p: p.over)
    chosen = sum((p.planned_over or 0.0) * p.bound_seconds for p in itself.played)
    lost = itself.regret_seconds * len(itself.played)
    split = ""
    if itself.name != ITSELF:
        share = f"{min(1.0, chosen / lost):.0%}"
        foreseen = {"100%": "all of it", "0%": "none of it"}.get(share, f"{share} of it")
        split = (
            f"; the plans accepted {foreseen}" + (share != "100%") * ", the rest came unforeseen"
        )
    return (
        f"Regret of {itself.name}: {seconds_text(itself.regret_seconds)} a batch "
        f"({itself.times_ideal - 1:.1%}) beyond what hindsight allows, at most {worst.over:.1%}, "
        f"in batch {worst.batch}{split}"
    )


def _time_answer(
    replayed: Replay, spark: MappingResult | None, ours: MappingResult | None, count: str
) -> str:
    if spark is None or ours is None:
        return f"{count} replayed; name {SPARK!r} and {LAG_AWARE_STICKY!r} to have them compared"
    ratio = ours.seconds / spark.seconds if spark.seconds else 1.0
    facts = (
        f"Over {count}, Spark's mapping would take {spark.times_ideal:.2f} times the ideal reading "
        f"time, {LAG_AWARE_STICKY} {ours.times_ideal:.2f} times"
    )
    if ratio > 1 - WORTH_IT:
        if ratio > 1 + WORTH_IT:
            return f"{facts}: it would lose {ratio - 1:.0%} here. Keep Spark's mapping"
        close = spark.times_ideal < 1 + 2 * WORTH_IT
        why = "Spark's mapping is even enough" if close else "the batches leave it no room"
        return f"{facts}: no time would be gained here, because {why}"
    return (
        f"{facts}: reading a batch would take {ratio:.0%} of the time, with "
        f"{_moves(ours)} (Spark's mapping: {spark.moved_share:.0%}){_alternative(replayed, ours)}"
    )


def _alternative(replayed: Replay, ours: MappingResult) -> str:
    """Return the built-in setting of Spark that does as well, if there is one, and its price."""
    others = [m for n in SPARK_MAPPINGS[1:] if (m := replayed.find(n)) is not None]
    good = [m for m in others if m.seconds <= ours.seconds * (1 + WORTH_IT)]
    if not good:
        return ""
    best = min(good, key=lambda m: m.seconds)
    return (
        f". Spark's own {best.name} would reach {best.times_ideal:.2f} times with "
        f"{best.tasks:.0f} tasks per batch and {_moves(best)}"
    )


def _moves(mapping: MappingResult) -> str:
    return f"{mapping.moved_share:.0%} of partitions changing executor per batch"


def assumptions(replayed: Replay) -> tuple[str, ...]:
    """Return what the figures rest on."""
    cluster = replayed.cluster
    executors, cost = (
        f" ({cluster.origins[name]})" if name in cluster.origins else ""
        for name in ("executors", "cost")
    )
    count = counted(len(cluster.executors), "executor")
    shapes = sorted({e.slots for e in cluster.executors})
    slots = "1 slot" if shapes == [1] else f"{'/'.join(map(str, shapes))} slots"
    changed = any(each != cluster.executors for each in cluster.by_batch.values())
    where = "the same in every batch"
    if changed:
        where = "in the last batch, in each batch those that it had"
    return (
        f"{count} with {slots}, {where}{executors}",
        f"{_costs(cluster)}{seconds_text(cluster.cost_s)}{cost}, and only records count: starting "
        "a task or a consumer, and what follows the reading, do not",
        "each batch has its own offsets and all slots to itself; a task waits up to "
        f"{cluster.locality_wait_s:g} s for its executor (spark.locality.wait)",
        "minPartitions is 4 tasks per slot, at least 2 per partition; maxRecordsPerPartition a "
        "quarter of a slot's even share",
        *bill_assumptions(replayed),
    )


def _costs(cluster: Cluster) -> str:
    if not cluster.unusual and not cluster.slowness:
        return "each record costs the same, "
    differ = [
        counted(len(cluster.unusual), "partition"),
        counted(len(cluster.slowness), "executor"),
    ]
    return (
        f"costs are those learned, with {' and '.join(differ)} that differ; a usual record costs "
    )

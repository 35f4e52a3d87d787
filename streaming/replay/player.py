"""What an assignor would have done for a query that ran without one: its offset log, played again.

The log says which offsets each batch read. Each batch's ranges go through the planner and through
Spark's three mappings on the same executors, and Spark's delay scheduling says when the last task
would have ended. Nothing is read from Kafka and nothing is started.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.registry import ASSIGNORS, lookup
from assignor_bridge.errors import AssignorError
from assignor_bridge.options import LAG_AWARE_STICKY
from assignor_bridge.simulator.play import SPARK_MAPPINGS, Player, Result, is_sparks
from assignor_bridge.simulator.scenario import Scenario, Step
from streaming.observe.words import counted, seconds_text
from streaming.replay.bill import bill_answer, bill_assumptions, bill_json
from streaming.replay.traffic import PRICE_PER_GB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.simulator.mappings import Placed
    from streaming.replay.cluster import Cluster
    from streaming.replay.log import ReplayBatch
    from streaming.replay.racks import Racks
    from streaming.replay.traffic import Traffic

#: The mapping that all others are compared with.
SPARK = SPARK_MAPPINGS[0]
#: What is compared when nothing is named.
EVERYTHING = (*SPARK_MAPPINGS, LAG_AWARE_STICKY, *sorted(set(ASSIGNORS) - {LAG_AWARE_STICKY}))
#: The query's own plans, from a plan log.
ITSELF = "this query"
#: Only records count: what tasks and cold consumers cost in addition is not in the log.
PLAIN = Scenario(service_noise=0, task_seconds=0, cold_seconds=0)
#: Less is not regret but rounding.
_NO_TIME = 1e-9
#: A gain below this share of Spark's time is called none.
WORTH_IT = 0.05


@dataclass(frozen=True, slots=True)
class Replay:
    """All mappings over the batches of one source."""

    #: What was replayed, for people: the checkpoint and the number of the source.
    title: str
    cluster: Cluster
    batches: Sequence[ReplayBatch]
    mappings: Sequence[Result]
    #: Where replicas are, and what reading elsewhere costs; None where nobody says.
    racks: Racks | None = None
    traffic: Traffic | None = None
    #: Our planner, as if there were no zones.
    without_zones: Result | None = None

    def find(self, name: str) -> Result | None:
        """Return one mapping's result, None when it was not played."""
        return next((m for m in self.mappings if m.name == name and m.error is None), None)

    @property
    def records(self) -> int:
        """Offsets over all batches."""
        return sum(batch.records for batch in self.batches)

    @property
    def partitions(self) -> int:
        """Partitions that had data in some batch."""
        return len({r.tp for batch in self.batches for r in batch.ranges})

    @property
    def partitions_without_rack(self) -> int:
        """Of these, those of whose leader no rack is known."""
        if self.racks is None:
            return self.partitions
        known = self.racks.knows
        return len({r.tp for batch in self.batches for r in batch.ranges if not known(r.tp)})

    @property
    def knows_racks(self) -> bool:
        """Whether the rack of some partition's leader is known."""
        racks = self.racks
        return racks is not None and any(
            racks.knows(r.tp) for batch in self.batches for r in batch.ranges
        )

    def cross_zone(self, result: Result) -> float | None:
        """Return the share of all bytes that are known to cross zones; None where nothing is."""
        if self.traffic is None or not self.knows_racks:
            return None
        sizes = [_bytes(batch, self.traffic) for batch in self.batches]
        crossed = (n * (p.cross_zone or 0.0) for n, p in zip(sizes, result.played, strict=True))
        return sum(crossed) / (sum(sizes) or 1.0)

    def as_json(self) -> dict[str, object]:
        """As JSON values, for `--json`."""
        spark = self.find(SPARK)
        seconds = spark.seconds if spark else 0.0
        return {
            "title": self.title,
            "answer": answer(self),
            "batches": len(self.batches),
            "partitions": self.partitions,
            "records": self.records,
            "executors": len(self.cluster.executors),
            "slots": self.cluster.slots,
            "costSeconds": self.cluster.cost_s,
            "unusualCosts": {str(tp): cost for tp, cost in sorted(self.cluster.unusual.items())},
            "slowness": dict(sorted(self.cluster.slowness.items())),
            "localityWaitSeconds": self.cluster.locality_wait_s,
            "assumptions": list(assumptions(self)),
            "mappings": [_as_json(result, seconds) for result in self.mappings],
            **({"zones": bill} if (bill := bill_json(self)) else {}),
        }


def _as_json(result: Result, spark_seconds: float) -> dict[str, object]:
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


def replay(
    title: str,
    batches: Iterable[ReplayBatch],
    cluster: Cluster,
    names: Sequence[str] = EVERYTHING,
    *,
    options: Mapping[str, str] | None = None,
    find: Callable[[str], Assignor] = lookup,
    racks: Racks | None = None,
    traffic: Traffic | None = None,
    logged: Mapping[int, Sequence[Placed]] | None = None,
) -> Replay:
    """Play the batches that read something through each mapping or assignor.

    An assignor that refuses (its preconditions do not hold, its option is missing) is reported
    with its reason; the others are played all the same. With `racks`, `traffic` is expected, too.
    `logged` are the tasks that the query itself had, by batch: batches without are left out.
    """
    full = [b for b in batches if b.records and (logged is None or b.batch in logged)]
    steps = [_step(batch, cluster, racks, traffic) for batch in full]
    of_spark = steps
    if racks is not None:
        of_spark = [_step(batch, cluster, racks, traffic, leaders=True) for batch in full]

    def played(name: str, **more: float) -> Result:
        given = {**(options or {}), **{f"assignor.{key}": str(n) for key, n in more.items()}}
        player = Player(name, PLAIN, given, find, cluster.locality_wait_s)
        return _play(player, of_spark if is_sparks(name) else steps)

    itself = []
    if logged is not None:
        then = AsLogged(ITSELF, PLAIN, locality_wait=cluster.locality_wait_s, logged=logged)
        itself = [_play(then, steps)]
    if traffic is None:
        return Replay(title, cluster, full, [*itself, *(played(name) for name in names)])
    price = traffic.price_per_gb
    # Where only shares are asked for, at no price, zones count all the same.
    mappings = [played(name, zonePricePerGb=price or PRICE_PER_GB) for name in names]
    without = played(LAG_AWARE_STICKY, zonePricePerGb=0) if LAG_AWARE_STICKY in names else None
    return Replay(title, cluster, full, [*itself, *mappings], racks, traffic, without)


@dataclass
class AsLogged(Player):
    """Has tasks that are given, by batch: those that the query itself had."""

    logged: Mapping[int, Sequence[Placed]] = field(default_factory=dict)

    def plan(self, step: Step) -> list[Placed]:
        """Return them."""
        return [*self.logged[step.number]]


def played_until(batches: Sequence[ReplayBatch], cluster: Cluster) -> Player:
    """Return the default assignor's player after these batches, with what it has learned."""
    player = Player(LAG_AWARE_STICKY, PLAIN, locality_wait=cluster.locality_wait_s)
    for batch in batches:
        player.play(_step(batch, cluster, None, None))
    return player


def _bytes(batch: ReplayBatch, traffic: Traffic) -> float:
    return float(traffic.bytes_of([r.tp for r in batch.ranges]) @ [r.size for r in batch.ranges])


def _play(player: Player, steps: Sequence[Step]) -> Result:
    played, reasons = [], []
    try:
        for step in steps:
            played.append(player.play(step))
            reasons.append(player.reasons)
    except AssignorError as error:
        return Result(player.name, error=str(error))
    return Result(player.name, played, reasons)


def _step(
    batch: ReplayBatch,
    cluster: Cluster,
    racks: Racks | None,
    traffic: Traffic | None,
    *,
    leaders: bool = False,
) -> Step:
    ranges = [r for r in batch.ranges if r.size > 0]
    partitions = [r.tp for r in ranges]
    return Step(
        batch.batch,
        cluster.executors_of(batch.batch),
        partitions,
        np.array([r.start for r in ranges], np.int64),
        np.array([r.size for r in ranges], np.int64),
        np.array([cluster.unusual.get(tp, cluster.cost_s) for tp in partitions]),
        cluster.slowness,
        None if racks is None else racks.replicas(partitions, leaders=leaders),
        None if traffic is None else traffic.bytes_of(partitions),
    )


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


def _time_answer(replayed: Replay, spark: Result | None, ours: Result | None, count: str) -> str:
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


def _alternative(replayed: Replay, ours: Result) -> str:
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


def _moves(mapping: Result) -> str:
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
        f"{_costs(cluster)}{_micros(cluster.cost_s)}{cost}, and only records count: starting a "
        "task or a consumer, and what follows the reading, do not",
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


def _micros(seconds: float) -> str:
    micros = seconds * 1e6
    return f"{micros:,.0f} µs" if micros >= 10 else f"{micros:.2g} µs"

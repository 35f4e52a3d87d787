"""How far a query's slots are from the divisible ideal: as measured, and as predicted."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.observe.words import seconds_text
from streaming.replay.replayed import ITSELF, SPARK
from streaming.report.diagnosis import LEAST_COST, Cause

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streaming.observe.figures import RunFigures
    from streaming.replay.replayed import Replay
    from streaming.report.source_facts import SourceFacts
    from streaming.simulator.play import MappingResult

#: A smaller share of the ideal is no gain.
_LEAST_SAVED = 0.01
#: Causes that explain why slots are uneven.
_EXPLAINED = {"hot key", "few partitions", "slow executor"}


@dataclass(frozen=True, slots=True)
class Gap:
    """How much longer than the ideal the busiest slot takes."""

    #: Over the ideal, in which all slots end at once; over all batches.
    times: float
    origin: Literal["measured", "predicted"]
    #: Seconds of a batch beyond the ideal; None if no input has times.
    seconds: float | None
    #: Seconds of a batch from trigger to commit, if they are known.
    batch_s: float | None
    #: What the figure assumes.
    assumed: str = ""

    @property
    def cost(self) -> float:
        """Share of a batch that would be saved; of its reading if nothing else is known."""
        share = 1 - 1 / self.times
        if self.seconds is None or not self.batch_s:
            return share
        return min(share, self.seconds / self.batch_s)

    def __str__(self) -> str:
        return f"{self.times:.2f} times the ideal, {self.origin}{self.assumed}"


def gaps_of(source: SourceFacts, replay: Replay | None, ui: RunFigures | None) -> list[Gap]:
    """Return the gaps that are known, the costliest first; `ui` is used if no source has times."""
    of_ui = ui.batches if ui is not None else ()
    seconds = [b.seconds for b in source.batches if b.seconds] or [b.seconds for b in of_ui]
    batch_s = median(seconds) if seconds else None
    loads = [b.slot_seconds for b in source.batches if b.slot_seconds]
    loads = loads or [batch.slot_seconds() for batch in of_ui if batch.tasks]
    gaps = [_measure(loads, batch_s), _predict(source, replay, batch_s)]
    return sorted((gap for gap in gaps if gap is not None), key=lambda gap: -gap.cost)


def with_uneven_slots(
    found: Sequence[Cause], gaps: Sequence[Gap], source: SourceFacts
) -> list[Cause]:
    """Add the largest gap to the causes, the costliest first, unless one of them explains it."""
    if not gaps or gaps[0].cost < LEAST_COST or any(f.kind in _EXPLAINED for f in found):
        return list(found)
    why = f"the busiest slot takes {', or '.join(map(str, gaps))}"
    remedy = "see which tasks ran late or elsewhere: Load per executor slot"
    if source.split is False:
        remedy = "let partitions be cut: without assignor.split=false, if order allows"
    elif source.assignor in {None, SPARK}:
        remedy = "let partitions be cut: assignor=lag-aware-sticky, or Spark's minPartitions"
    uneven = Cause("uneven slots", "", why, remedy, gaps[0].cost)
    return sorted([*found, uneven], key=lambda finding: -finding.cost)


def describe_gain(
    source: SourceFacts, replay: Replay | None, gaps: Sequence[Gap]
) -> tuple[str, str, str]:
    """Return what the option saves compared with Spark's mapping: title, amount, and unit."""
    sparks = replay.find(SPARK) if replay is not None else None
    own = next((gap for gap in gaps if gap.origin == "predicted"), None)
    if source.assignor == SPARK:
        return "Gained", "Nothing yet", "the option is not in use"
    if replay is None or sparks is None or own is None or source.assignor is None:
        return "Gained", "Unknown", "the checkpoint has it"
    ideal_s = _ideal_s(sparks, own.times, own.batch_s)
    saved = (sparks.times_ideal - own.times) * ideal_s
    if abs(saved) < _LEAST_SAVED * ideal_s:
        return "Gained", "Nothing", "against Spark's mapping, predicted"
    title = "Gained" if saved > 0 else "Lost"
    return title, seconds_text(abs(saved)), "a batch against Spark's mapping, predicted"


def _measure(loads: Sequence[Mapping[str, float]], batch_s: float | None) -> Gap | None:
    busy = [list(load.values()) for load in loads if any(load.values())]
    if not busy:
        return None
    longest, even = sum(map(max, busy)), sum(map(fmean, busy))
    return Gap(longest / even, "measured", (longest - even) / len(busy), batch_s)


def _predict(source: SourceFacts, replay: Replay | None, batch_s: float | None) -> Gap | None:
    """Return the gap of the query's own plans: of its plan log, its metrics, or its replay."""
    imbalances = [b.imbalance for b in source.batches if b.imbalance is not None]
    own = replay.find(ITSELF) if replay is not None else None
    if own is None and imbalances:
        sparks, times = replay.find(SPARK) if replay is not None else None, 1 + fmean(imbalances)
        seconds = None if sparks is None else (times - 1) * _ideal_s(sparks, times, batch_s)
        return Gap(times, "predicted", seconds, batch_s)
    if own is None and replay is not None and source.assignor in {SPARK, LAG_AWARE_STICKY}:
        own = replay.find(source.assignor)
    if own is None or replay is None or not own.played:
        return None
    assumed = ""
    if replay.cluster.origins.get("executors", "").startswith("assumed"):
        assumed = f" on {replay.cluster.slots} slots (assumed)"
    times = own.times_ideal
    seconds = (times - 1) * _ideal_s(own, times, batch_s)
    return Gap(times, "predicted", seconds, batch_s, assumed)


def _ideal_s(played: MappingResult, times: float, batch_s: float | None) -> float:
    """Return the ideal seconds of a batch that took `times` as long.

    Costs may be an upper bound: reading does not take longer than the whole batch.
    """
    ideal = fmean(batch.bound_seconds for batch in played.played) if played.played else 0.0
    return min(ideal, batch_s / times) if batch_s else ideal

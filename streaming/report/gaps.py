"""Compare a query's busiest slot with the ideal, as measured and as predicted."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

from assignor_bridge.errors import pluralize
from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.observe.words import format_seconds
from streaming.replay.replayed import ITSELF, SPARK
from streaming.report.diagnosis import MIN_COST, Cause

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streaming.observe.figures import RunFigures
    from streaming.replay.replayed import Replay
    from streaming.report.source_facts import SourceFacts
    from streaming.simulator.results import MappingResult

#: A saving or loss below this share of the ideal time is reported as none.
_MIN_SAVED_SHARE = 0.01
#: Causes that explain an uneven slot load.
_EXPLAINING_CAUSES = {"hot key", "few partitions", "slow executor"}


@dataclass(frozen=True, slots=True)
class Gap:
    """How much longer than the ideal the busiest slot takes."""

    #: Busiest slot's time divided by the ideal time (all slots end at once), over all batches.
    times_ideal: float
    origin: Literal["measured", "predicted"]
    #: Mean seconds per batch beyond the ideal; None if no input has times.
    excess_s: float | None
    #: Median duration of a batch (see `SourceBatch.seconds`); None if unknown.
    batch_s: float | None
    #: Assumption behind the figure, such as " on 8 slots (assumed)".
    assumption_text: str = ""

    @property
    def cost(self) -> float:
        """Share of batch time that the ideal saves (of reading time if either is unknown)."""
        share = 1 - 1 / self.times_ideal
        if self.excess_s is None or not self.batch_s:
            return share
        return min(share, self.excess_s / self.batch_s)

    def __str__(self) -> str:
        return f"{self.times_ideal:.2f} times the ideal, {self.origin}{self.assumption_text}"


def compute_gaps(source: SourceFacts, replay: Replay | None, run: RunFigures | None) -> list[Gap]:
    """Return the known gaps, the costliest first; `run` is used if the source has no times."""
    ui_batches = run.batches if run is not None else ()
    batch_times = [b.seconds for b in source.batches if b.seconds]
    batch_times = batch_times or [b.seconds for b in ui_batches]
    batch_s = median(batch_times) if batch_times else None
    slot_seconds = [b.slot_seconds for b in source.batches if b.slot_seconds]
    slot_seconds = slot_seconds or [b.sum_seconds_by_slot() for b in ui_batches if b.tasks]
    gaps = [_measure_gap(slot_seconds, batch_s), _predict_gap(source, replay, batch_s)]
    return sorted((gap for gap in gaps if gap is not None), key=lambda gap: -gap.cost)


def add_uneven_slots(
    causes: Sequence[Cause], gaps: Sequence[Gap], source: SourceFacts
) -> list[Cause]:
    """Return the causes, the costliest first; a large gap that no cause explains adds one."""
    if not gaps or gaps[0].cost < MIN_COST or any(c.kind in _EXPLAINING_CAUSES for c in causes):
        return list(causes)
    why = f"the busiest slot takes {', or '.join(map(str, gaps))}"
    remedy = "see the section Load per executor slot for tasks that ran late or elsewhere"
    if source.split is False:
        remedy = "split partitions: remove assignor.split=false, if row order may change"
    elif source.assignor in {None, SPARK}:
        remedy = "split partitions: set assignor=lag-aware-sticky, or Spark's minPartitions"
    uneven_slots = Cause("uneven slots", "", why, remedy, gaps[0].cost)
    return sorted([*causes, uneven_slots], key=lambda cause: -cause.cost)


def describe_gain(
    source: SourceFacts, replay: Replay | None, gaps: Sequence[Gap]
) -> tuple[str, str, str]:
    """Return the gain over Spark's default as title, amount, and explanation."""
    spark = replay.find_result(SPARK) if replay is not None else None
    predicted_gap = next((gap for gap in gaps if gap.origin == "predicted"), None)
    if source.assignor == SPARK:
        return "Gain", "None yet", "the query does not use an assignor"
    if replay is None or spark is None or predicted_gap is None or source.assignor is None:
        reason = "give the checkpoint to estimate it" if replay is None else "cannot be predicted"
        return "Gain", "Unknown", reason
    ideal_s = _compute_ideal_s(spark, predicted_gap.times_ideal, predicted_gap.batch_s)
    saved_s = (spark.times_ideal - predicted_gap.times_ideal) * ideal_s
    if abs(saved_s) < _MIN_SAVED_SHARE * ideal_s:
        return "Gain", "None", "compared with Spark's default, predicted"
    title = "Gain" if saved_s > 0 else "Loss"
    return title, format_seconds(abs(saved_s)), "a batch compared with Spark's default, predicted"


def _measure_gap(slot_seconds: Sequence[Mapping[str, float]], batch_s: float | None) -> Gap | None:
    seconds_by_batch = [list(s.values()) for s in slot_seconds if any(s.values())]
    if not seconds_by_batch:
        return None
    longest_s, mean_s = sum(map(max, seconds_by_batch)), sum(map(fmean, seconds_by_batch))
    return Gap(
        longest_s / mean_s, "measured", (longest_s - mean_s) / len(seconds_by_batch), batch_s
    )


def _predict_gap(source: SourceFacts, replay: Replay | None, batch_s: float | None) -> Gap | None:
    """Return the gap of the logged plans, else of the metrics, else of a replay; else None."""
    imbalances = [b.imbalance for b in source.batches if b.imbalance is not None]
    own_result = replay.find_result(ITSELF) if replay is not None else None
    if own_result is None and imbalances:
        spark, times_ideal = replay.find_result(SPARK) if replay else None, 1 + fmean(imbalances)
        ideal_s = None if spark is None else _compute_ideal_s(spark, times_ideal, batch_s)
        excess_s = None if ideal_s is None else (times_ideal - 1) * ideal_s
        return Gap(times_ideal, "predicted", excess_s, batch_s)
    if own_result is None and replay is not None and source.assignor in {SPARK, LAG_AWARE_STICKY}:
        own_result = replay.find_result(source.assignor)
    if own_result is None or replay is None or not own_result.batches:
        return None
    assumption_text = ""
    if replay.cluster.origins.get("executors", "").startswith("assumed"):
        assumption_text = f" on {pluralize(replay.cluster.slots, 'slot')} (assumed)"
    times_ideal = own_result.times_ideal
    excess_s = (times_ideal - 1) * _compute_ideal_s(own_result, times_ideal, batch_s)
    return Gap(times_ideal, "predicted", excess_s, batch_s, assumption_text)


def _compute_ideal_s(result: MappingResult, times_ideal: float, batch_s: float | None) -> float:
    """Return the ideal seconds of a batch whose busiest slot takes `times_ideal` times as long.

    The replay's costs may be too high, so the reading time is limited to the batch duration.
    """
    ideal_s = fmean(batch.bound_seconds for batch in result.batches) if result.batches else 0.0
    return min(ideal_s, batch_s / times_ideal) if batch_s else ideal_s

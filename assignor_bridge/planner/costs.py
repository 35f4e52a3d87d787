"""Predict how long reading each range takes, from costs that are learned from read reports.

    seconds = (fixed + records x cost(partition)) x slowness(executor)

- `fixed` is the intercept of a line through partitions' seconds by their records, if significant.
- The log of a cost is a running mean of log(seconds per record), without the fixed seconds. It is
  shrunk towards its topic's median: by one standard error if most partitions differ, else by 3.5.
- The log of a slowness is a running mean of an executor's median error, log(seconds / expected
  seconds), compared with other executors on the same partitions. It is shrunk towards 0.

Logarithms make 1:50 and 50:1 equally far from 1. A change that all reports share changes only the
common cost `level`. A new partition has its topic's cost. Until seconds are reported, a range's
work is its records, weighted by their bytes if those are known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from assignor_bridge.planner.averages import (
    MIN_POSITIVE,
    SIGMAS,
    compute_medians,
    shrink_towards_zero,
)
from checkpoints.sticky_state import Pace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assignor_bridge.planner.batch import Floats, Ints, MicroBatch
    from checkpoints.sticky_state import StickyState

Basis = Literal["records", "bytes", "seconds"]
_SECONDS: Basis = "seconds"
#: A smaller slowness is ignored. Without it, ranges move for differences that costs absorb.
_MIN_LOG_SLOWNESS = math.log(1.15)
#: Lower bound of records per offset. Without it, dense offsets after sparse ones overload a slot.
MIN_DENSITY = 0.01


@dataclass(frozen=True, eq=False)
class Weights:
    """Predicted work of each range, and slowness of each executor."""

    #: Work of each range, on an executor of usual speed.
    work: Floats
    #: Quantity that `work` is predicted from.
    basis: Basis
    #: Seconds that each executor needs for one second of a usual executor's work.
    slowness: Floats
    #: Part of each range's work that is repeated for each additional piece.
    fixed_work: Floats
    #: Description of the basis, for the plan's reasons.
    description: str
    #: Predicted bytes of each range; None if no racks or no bytes are known.
    bytes: Floats | None = None

    @property
    def unit(self) -> str:
        """Unit of `work`, to append to a number."""
        units = {"seconds": "s", "records": " records", "bytes": " records of mean bytes"}
        return units[self.basis]


def predict(state: StickyState, line: Ints, batch: MicroBatch) -> Weights:
    """Predict the work of each range; `line` is its partition's line in the partition table."""
    density = np.clip(fill_from_topic(state.density, state.topic, 1.0)[line], MIN_DENSITY, 1.0)
    records = np.asarray(batch.size * density, np.float64)
    log_factors = compute_log_factors(state)
    if math.isfinite(state.common.level):
        work, basis = _predict_s(state, log_factors, line, records), _SECONDS
    else:
        work, basis = weigh_records(state, line, records)
    range_bytes = None
    if batch.replicas is not None and not np.isnan(state.bytes).all():
        range_bytes = records * np.exp(fill_from_topic(state.bytes, state.topic, 0.0)[line])
    work = np.maximum(work, MIN_POSITIVE * records)  # per record, so that cuts stay even
    fixed_work = np.minimum(work, state.common.fixed if basis == "seconds" else 0.0)
    slowness = np.exp(compute_log_slowness(get_paces(state, (e.id for e in batch.executors))))
    description = "weights: all records equal, no costs reported yet"
    if basis == "bytes":
        ranges_with_bytes = np.count_nonzero(~np.isnan(state.bytes[line]))
        description = (
            f"weights: bytes of {ranges_with_bytes} of {len(line)} partitions, no seconds reported"
        )
    elif basis == "seconds":
        fixed_text = f"{state.common.fixed:.2g} s per range and " if state.common.fixed else ""
        unusual_ranges = np.count_nonzero(log_factors[line])
        description = (
            f"weights: seconds, {fixed_text}{math.exp(state.common.level):.2g} s per record; "
            f"{unusual_ranges} of {len(line)} partitions have a different cost"
        )
    return Weights(work, basis, slowness, fixed_work, description, range_bytes)


def _predict_s(state: StickyState, log_factors: Floats, line: Ints, records: Floats) -> Floats:
    """Predict a usual executor's seconds for `records` of the partitions at these table lines."""
    return np.asarray(state.common.fixed + records * np.exp(state.common.level + log_factors)[line])


def weigh_records(state: StickyState, line: Ints, records: Floats) -> tuple[Floats, Basis]:
    """Return the records, weighted by their bytes if any are known, and the basis."""
    if not np.isnan(state.bytes).all():
        log_bytes = fill_from_topic(state.bytes - np.nanmean(state.bytes), state.topic, 0.0)
        return records * np.exp(log_bytes[line]), "bytes"
    return records, "records"


def predict_reports(state: StickyState, line: Ints, batch: MicroBatch) -> Floats | None:
    """Predict the seconds of each report from a state that has not learned from them.

    `line`: each report's line in the partition table. Without one (-1), the prediction is
    meaningless. Returns None if the state has learned no seconds, or if there are no reports.
    """
    reports = batch.reports
    if not math.isfinite(state.common.level) or not len(line):
        return None
    log_slowness = compute_log_slowness(get_paces(state, reports.executors))
    records = np.clip(reports.records, 1.0, 2.0**63)
    usual_s = _predict_s(state, compute_log_factors(state), line, records)
    return np.asarray(usual_s * np.exp(log_slowness)[reports.executor])


def get_paces(state: StickyState, executors: Iterable[str]) -> Floats:
    """Return executors' paces (one row each, columns as in `Pace`); 0 for unknown ones."""
    return np.array([state.paces.get(name, Pace()) for name in executors]).reshape(-1, 3)


def compute_log_slowness(paces: Floats) -> Floats:
    """Return the logarithm of each executor's slowness, shrunk by its error; 0 if unknown."""
    with np.errstate(divide="ignore"):
        max_noise = SIGMAS / np.sqrt(paces[:, 2])
    return shrink_towards_zero(paces[:, 0], np.maximum(_MIN_LOG_SLOWNESS, max_noise))


def compute_log_factors(state: StickyState) -> Floats:
    """Return the logarithm of each partition's cost over the common cost, shrunk by its error.

    1. Shrink each topic's median. 2. Shrink each partition's deviation from it: by one standard
    error if most partitions deviate more than noise explains, else by several. All are 0 until the
    noise has been measured.
    """
    common, topic_count = state.common, int(state.topic.max(initial=0)) + 1
    lines = np.flatnonzero(state.evidence > 0)
    log_factors = np.zeros(len(state.topic))
    if not common.noise_batches or not len(lines):
        return log_factors
    # 1. Topics.
    topic, cost, evidence = state.topic[lines], state.cost[lines], state.evidence[lines]
    median, total = compute_medians(topic, cost, evidence, topic_count)
    topic_error = common.noise / np.sqrt(np.maximum(total, MIN_POSITIVE))
    log_factors = shrink_towards_zero(median, SIGMAS * topic_error)[state.topic]
    # 2. Partitions.
    deviation, error = cost - median[topic], common.noise / np.sqrt(evidence)
    # With normal noise, the median of |deviation / error| is 0.67, +- 0.79 / sqrt(partitions).
    max_median = 0.67 + SIGMAS * 0.79 / math.sqrt(len(lines))
    most_differ = float(np.median(np.abs(deviation) / error)) > max_median
    log_factors[lines] += shrink_towards_zero(deviation, error * (1.0 if most_differ else SIGMAS))
    return log_factors


def fill_from_topic(column: Floats, topic: Ints, default: float) -> Floats:
    """Replace NaN by the mean of the line's topic, else of all lines, else by `default`."""
    lines = np.flatnonzero(~np.isnan(column))
    if not len(lines):
        return np.full(len(column), default)
    counts = np.bincount(topic[lines], minlength=int(topic.max()) + 1)
    sums = np.bincount(topic[lines], column[lines], len(counts))
    mean = np.where(counts > 0, sums / np.maximum(counts, 1), np.mean(column[lines]))
    return np.where(np.isnan(column), mean[topic], column)

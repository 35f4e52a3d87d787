"""Predict how long reading each range will take, from the costs learned so far.

`learn` estimates the parts of this model from read reports:

    seconds = (fixed + records) x cost x (the partition's factor) x (the executor's slowness)

A factor is shrunk by the part that may be noise: by one standard error if costs per partition
predicted the reports better than one common cost, else by several. A partition without reports has
its topic's mean factor, or else the overall mean. An executor's slowness is shrunk in the same way.

The model is used only while it predicts reports better than records alone. Otherwise its total
seconds are shared by records. Until seconds are reported, a range's work is its bytes or records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from checkpoints.sticky_state import Pace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assignor_bridge.planner.batch import Floats, Ints, MicroBatch
    from checkpoints.sticky_state import StickyState

_SIGMAS = 3.5  # number of standard errors that are treated as noise
_SIGMAS_IF_OWN_COSTS = 1.0  # the same for partitions, if costs per partition are used
#: An executor has usual speed if its logarithmic slowness deviates by at most this much.
_MAX_USUAL_SLOWNESS = math.log(1.15)
#: Lower bound on records per offset, because a partition's next offsets may hold more records.
MIN_DENSITY = 0.01
GOOD_NOISE = 0.1  # standard deviation of a good report's logarithmic error
_MIN_WORK = 1e-12  # lower bound on work, so that divisions are safe

Basis = Literal["records", "bytes", "seconds"]


@dataclass(frozen=True, eq=False)
class Weights:
    """Predicted work of each range, on an executor of usual speed."""

    work: Floats
    #: Quantity that `work` is predicted from.
    basis: Basis
    #: Seconds that each executor needs for one second of a usual executor's work.
    slowness: Floats
    #: Part of each range's work that is repeated for each additional piece.
    fixed: Floats
    #: Description of the basis, for the plan's reasons.
    description: str
    #: Predicted bytes of each range; None without racks, or if no bytes were reported.
    bytes: Floats | None = None

    @property
    def unit(self) -> str:
        """Unit of `work`, to append to a number."""
        units = {"seconds": "s", "records": " records", "bytes": " records of mean bytes"}
        return units[self.basis]


def predict(state: StickyState, line: Ints, batch: MicroBatch) -> Weights:
    """Predict the work of each range; `line` is its partition's line in the partition table."""
    density = fill_from_topic(state.density, state.topic, 1.0)[line]
    records = np.asarray(batch.size * np.clip(density, MIN_DENSITY, 1.0), np.float64)
    work, basis = predict_work(state, line, records)
    description = _describe_weights(state, line, basis)
    range_bytes = _predict_bytes(state, line, records) if batch.replicas is not None else None
    if basis == "seconds" and not state.common.relied_on:  # divide the same total by records
        work = np.maximum(records * (work.sum() / max(records.sum(), 1.0)), _MIN_WORK)
        usual_slowness, no_fixed = np.ones(len(batch.executors)), np.zeros(batch.ranges)
        return Weights(work, basis, usual_slowness, no_fixed, description, range_bytes)
    fixed = state.common.fixed if basis == "seconds" else 0.0
    work = np.maximum(work, _MIN_WORK)
    slowness = np.exp(compute_log_slowness(read_paces(state, (e.id for e in batch.executors))))
    return Weights(
        work, basis, slowness, work * (fixed / (fixed + records)), description, range_bytes
    )


def predict_work(state: StickyState, line: Ints, records: Floats) -> tuple[Floats, Basis]:
    """Predict the work of reading `records` from the partitions at these table lines."""
    common = state.common
    if math.isfinite(common.level):
        cost = np.exp(common.level + compute_factors(state)[line])
        return cost * (common.fixed + records), "seconds"
    if not np.isnan(state.bytes).all():
        log_bytes = fill_from_topic(state.bytes - np.nanmean(state.bytes), state.topic, 0.0)
        return records * np.exp(log_bytes[line]), "bytes"
    return records, "records"


def predict_reports(state: StickyState, line: Ints, batch: MicroBatch) -> Floats | None:
    """Return the seconds that the state before the batch predicted for each report.

    `line`: each report's line in the partition table; reports without one (-1) are meaningless.
    Times are relative if costs are not used. Returns None if no seconds were predicted.
    """
    reports = batch.observed
    if not math.isfinite(state.common.level) or not len(line) or not len(state.topic):
        return None
    records = np.clip(reports.records, 1.0, 2.0**63)
    if not state.common.relied_on:
        return records * math.exp(state.common.level)
    log_slowness = compute_log_slowness(read_paces(state, reports.executors))
    work, _ = predict_work(state, line, records)
    return np.asarray(work * np.exp(log_slowness)[reports.executor])


def _predict_bytes(state: StickyState, line: Ints, records: Floats) -> Floats | None:
    if np.isnan(state.bytes).all():
        return None
    return np.asarray(records * np.exp(fill_from_topic(state.bytes, state.topic, 0.0)[line]))


def compute_factors(state: StickyState) -> Floats:
    """Return the logarithm of each partition's cost over the common cost, shrunk by its error."""
    sigmas = _SIGMAS_IF_OWN_COSTS if state.common.own else _SIGMAS
    with np.errstate(divide="ignore", invalid="ignore"):
        error = sigmas * state.common.noise / np.sqrt(state.evidence)
    factor = shrink_towards_zero(state.cost, error)
    return fill_from_topic(np.where(np.isnan(state.cost), np.nan, factor), state.topic, 0.0)


def read_paces(state: StickyState, executors: Iterable[str]) -> Floats:
    """Return the learned pace of each executor (one row each, columns as in `Pace`)."""
    return np.array([state.paces.get(name, Pace()) for name in executors]).reshape(-1, 3)


def compute_log_slowness(paces: Floats) -> Floats:
    """Return the logarithm of each executor's slowness, shrunk by its error."""
    with np.errstate(divide="ignore"):
        error = _SIGMAS * GOOD_NOISE / np.sqrt(paces[:, 2])
    return shrink_towards_zero(paces[:, 0], np.maximum(_MAX_USUAL_SLOWNESS, error))


def shrink_towards_zero(deviation: Floats, error: Floats | float) -> Floats:
    """Return deviations without the part that may be due to `error`.

    The result is 0 up to `error`, half the deviation at 1.4 times `error`, and more above that.

    >>> shrink_towards_zero(np.array([-0.5, 1.0, -4.0]), 1.0).tolist()
    [0.0, 0.0, -3.75]
    """
    size = np.abs(deviation)
    with np.errstate(invalid="ignore"):
        shrunk = deviation * (1 - (error / np.maximum(size, error)) ** 2)
    return np.where(size > error, shrunk, 0.0)


def fill_from_topic(column: Floats, topic: Ints, default: float) -> Floats:
    """Replace missing values by their topic's mean, else the overall mean, else `default`."""
    is_missing = np.isnan(column)
    if not is_missing.any():
        return column
    present_rows = np.flatnonzero(~is_missing)
    if not len(present_rows):
        return np.full(len(column), default)
    counts = np.bincount(topic[present_rows], minlength=int(topic.max()) + 1)
    sums = np.bincount(topic[present_rows], column[present_rows], len(counts))
    mean = np.where(counts > 0, sums / np.maximum(counts, 1), np.mean(column[present_rows]))
    return np.where(is_missing, mean[topic], column)


def _describe_weights(state: StickyState, line: Ints, basis: Basis) -> str:
    if basis == "records":
        return "weights: all records equal, no costs reported yet"
    if basis == "bytes":
        count = np.count_nonzero(~np.isnan(state.bytes[line]))
        return f"weights: bytes of {count} of {len(line)} partitions, no seconds reported yet"
    if not state.common.relied_on:
        return "weights: all records equal, because learned costs did not predict times better"
    cost = math.exp(state.common.level)
    fixed = f"{state.common.fixed * cost:.2g} s per range and " if state.common.fixed else ""
    count = np.count_nonzero(compute_factors(state)[line])
    return (
        f"weights: seconds, {fixed}{cost:.2g} s per record; {count} of {len(line)} partitions have "
        "a different cost"
    )

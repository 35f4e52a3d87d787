"""Predict how long reading each range takes, from costs that are learned from read reports.

    seconds = (fixed + records x cost(partition)) x slowness(executor)

Assumptions: errors are logarithmic, so that 1:50 and 50:1 are equally far from 1. Pieces of a
partition in one batch share an error, an executor's reports share another.

- `fixed` is the intercept of a line through each partition's seconds by its records, fitted with
  relative errors. It is replaced only by a significantly different one.
- A cost is a running mean of log(seconds per record), without the fixed seconds. It is shrunk
  towards its topic's median by its standard error, or by several if most partitions may be equal.
- A slowness is a running mean of an executor's median error, compared with other executors on the
  same partitions, and shrunk towards 1 by several standard errors.

A common change of all reports changes the common cost `level` and no partition's. Until seconds are
reported, a range's work is its bytes or records. A new partition has its topic's cost.

>>> shrink_towards_zero(np.array([-0.5, 1.0, -4.0]), 1.0).tolist()
[0.0, 0.0, -3.984375]
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import starmap
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from assignor_bridge.planner.slots import share_slots
from assignor_bridge.planner.table import load_table
from checkpoints.sticky_state import Pace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assignor_bridge.planner.batch import Floats, Ints, MicroBatch
    from assignor_bridge.planner.table import PartitionTable
    from checkpoints.sticky_state import Common, StickyState

Basis = Literal["records", "bytes", "seconds"]
#: Standard errors that are treated as noise. With less, noise of 20% moves partitions.
_SIGMAS = 3.5
#: Errors beyond this are outliers; with more, a partition whose cost changed is found late.
_OUTLIER_SIGMAS = 3.0
#: Batches in a running mean. With more, drifting costs are followed late; with fewer, noise is.
_MAX_BATCHES = 8.0
#: Smaller differences between executors are ignored, because partitions' costs absorb them.
_MIN_LOG_SLOWNESS = math.log(1.15)
#: A report of this duration has half weight. Without it, waits for a poll are taken for costs.
_HALF_TRUST_S = 0.1
#: Lower bound of a report's noise; without it, two equal reports are never contradicted.
_MIN_NOISE = 0.02
#: Reports that half of a common change needs. Without it, a lone report never changes a cost.
_HALF_COMMON_REPORTS = 4.0
#: Partitions that may lie on a line by chance; without it, few costs look like a fixed cost.
_FREE_PARTITIONS = 4
#: Lower bound of records per offset, because the next offsets may hold more records.
_MIN_DENSITY = 0.01
#: Records that move an average of bytes or density by half of the maximum, which is the second.
_HALF_RECORDS, _MAX_GAIN = 5.0, 0.6
#: Smaller deviations are no outliers. Without it, a low estimate of the noise rejects all reports.
_MIN_OUTLIER = 0.25
#: Reports that show an executor's spread. With fewer, it seems to have none.
_MIN_REPORTS = 2
#: Rounds in which executors are compared. With one, readers of a slow one's partitions look fast.
_ROUNDS = 6
#: Maximum logarithm of a slowness; without it, a stalled executor gets nothing for many batches.
_MAX_LOG_SLOWNESS = math.log(20)
#: Maximum logarithm of seconds, so that absurd reports do not overflow.
_MAX_LOG = 45.0
_MIN_WORK = 1e-12  # lower bound of work, so that divisions are safe
#: Seconds per record until seconds are reported, for admission.
ASSUMED_RECORD_S = 1e-5


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


class Forecast(NamedTuple):
    """Predicted cost of each range for admission (one element per range)."""

    #: Slot seconds per offset.
    seconds_per_offset: Floats
    #: Fixed slot seconds per range.
    seconds_per_range: Floats
    #: Bytes per offset; NaN if no bytes are reported yet.
    bytes_per_offset: Floats
    #: Number of slots, weighted by executor speed.
    slots: float


class _TimedReports(NamedTuple):
    """Columns of the reports with records and seconds; `line` is the partition's table line."""

    line: Ints
    executor: Ints
    records: Floats
    log_seconds: Floats


def predict(state: StickyState, line: Ints, batch: MicroBatch) -> Weights:
    """Predict the work of each range; `line` is its partition's line in the partition table."""
    density = np.clip(fill_from_topic(state.density, state.topic, 1.0)[line], _MIN_DENSITY, 1.0)
    records, range_bytes = np.asarray(batch.size * density, np.float64), None
    work, basis = predict_work(state, line, records)
    if batch.replicas is not None and not np.isnan(state.bytes).all():
        range_bytes = records * np.exp(fill_from_topic(state.bytes, state.topic, 0.0)[line])
    work = np.maximum(work, _MIN_WORK)
    fixed = np.minimum(work, state.common.fixed if basis == "seconds" else 0.0)
    slowness = np.exp(compute_log_slowness(read_paces(state, (e.id for e in batch.executors))))
    description = "weights: all records equal, no costs reported yet"
    if basis == "bytes":
        count = np.count_nonzero(~np.isnan(state.bytes[line]))
        description = f"weights: bytes of {count} of {len(line)} partitions, no seconds reported"
    elif basis == "seconds":
        text = f"{state.common.fixed:.2g} s per range and " if state.common.fixed else ""
        count = np.count_nonzero(compute_factors(state)[line])
        description = (
            f"weights: seconds, {text}{math.exp(state.common.level):.2g} s per record; {count} of "
            f"{len(line)} partitions have a different cost"
        )
    return Weights(work, basis, slowness, fixed, description, range_bytes)


def predict_work(state: StickyState, line: Ints, records: Floats) -> tuple[Floats, Basis]:
    """Predict the work of reading `records` from the partitions at these table lines."""
    common = state.common
    if math.isfinite(common.level):
        return common.fixed + records * np.exp(common.level + compute_factors(state))[line], "seconds"
    if not np.isnan(state.bytes).all():
        log_bytes = fill_from_topic(state.bytes - np.nanmean(state.bytes), state.topic, 0.0)
        return records * np.exp(log_bytes[line]), "bytes"
    return records, "records"


def forecast(batch: MicroBatch, state: StickyState) -> Forecast:
    """Return the predicted cost of each range, before the batch is planned."""
    batch = share_slots(batch, state)
    table = load_table(state, batch)
    learned, _ = learn(table, batch)
    weights = predict(learned, table.line, batch)
    log_bytes = fill_from_topic(learned.bytes, learned.topic, np.nan)
    density = np.clip(fill_from_topic(learned.density, learned.topic, 1.0), _MIN_DENSITY, 1.0)
    has_seconds = weights.basis == "seconds"
    seconds_per_offset = (weights.work - weights.fixed) / batch.size
    return Forecast(
        seconds_per_offset if has_seconds else np.full(batch.ranges, ASSUMED_RECORD_S),
        weights.fixed,
        (np.exp(log_bytes) * density)[table.line],
        float((batch.executor_slots / weights.slowness).sum()),
    )


def read_paces(state: StickyState, executors: Iterable[str]) -> Floats:
    """Return the learned pace of each executor (one row each, columns as in `Pace`)."""
    return np.array([state.paces.get(name, Pace()) for name in executors]).reshape(-1, 3)


def compute_log_slowness(paces: Floats) -> Floats:
    """Return the logarithm of each executor's slowness, shrunk by its error."""
    with np.errstate(divide="ignore"):
        error = _SIGMAS / np.sqrt(paces[:, 2])
    return shrink_towards_zero(paces[:, 0], np.maximum(_MIN_LOG_SLOWNESS, error))


def compute_factors(state: StickyState) -> Floats:
    """Return the logarithm of each partition's cost over the common cost, shrunk by its error.

    1. Shrink each topic's median. 2. Shrink each partition's deviation from it: by one standard
    error if most partitions deviate more than noise explains, else by several.
    """
    common, count = state.common, int(state.topic.max(initial=0)) + 1
    lines = np.flatnonzero(state.evidence > 0)
    factors = np.zeros(len(state.topic))
    if not common.noise_batches or not len(lines):
        return factors
    # 1. Topics.
    topic, cost, evidence = state.topic[lines], state.cost[lines], state.evidence[lines]
    median, total = compute_medians(topic, cost, evidence, count)
    error = common.noise / np.sqrt(np.maximum(total, _MIN_WORK))
    factors = shrink_towards_zero(median, _SIGMAS * error)[state.topic]
    # 2. Partitions.
    deviation, error = cost - median[topic], common.noise / np.sqrt(evidence)
    # Of normal noise, the median of |z| is 0.67, and its standard error 0.79 / sqrt(count).
    max_median = 0.67 + _SIGMAS * 0.79 / math.sqrt(len(lines))
    differ = float(np.median(np.abs(deviation) / error)) > max_median
    factors[lines] += shrink_towards_zero(deviation, error * (1.0 if differ else _SIGMAS))
    return factors


def shrink_towards_zero(deviation: Floats, error: Floats | float) -> Floats:
    """Return deviations without the part that may be due to `error`: 0 up to `error`."""
    size = np.abs(deviation)
    with np.errstate(invalid="ignore"):
        shrunk = deviation * (1 - (error / np.maximum(size, error)) ** 4)
    return np.where(size > error, shrunk, 0.0)


def fill_from_topic(column: Floats, topic: Ints, default: float) -> Floats:
    """Replace missing values by their topic's mean, else the overall mean, else `default`."""
    rows = np.flatnonzero(~np.isnan(column))
    if not len(rows):
        return np.full(len(column), default)
    counts = np.bincount(topic[rows], minlength=int(topic.max()) + 1)
    sums = np.bincount(topic[rows], column[rows], len(counts))
    mean = np.where(counts > 0, sums / np.maximum(counts, 1), np.mean(column[rows]))
    return np.where(np.isnan(column), mean[topic], column)


def compute_medians(
    group: Ints, values: Floats, weight: Floats, groups: int
) -> tuple[Floats, Floats]:
    """Return each group's weighted median (0 if it is empty), and its total weight."""
    order = np.lexsort((values, group))
    total, median = np.bincount(group, weight, groups).astype(np.float64), np.zeros(groups)
    used = np.flatnonzero(total > 0)
    reached = np.cumsum(weight[order])
    half = np.cumsum(total)[used] - total[used] / 2
    lower, upper = (np.searchsorted(reached, half * (1 + e)) for e in (-1e-9, 1e-9))
    last = np.cumsum(np.bincount(group, minlength=groups))[used] - 1
    ranked = values[order]
    median[used] = (ranked[np.minimum(lower, last)] + ranked[np.minimum(upper, last)]) / 2
    return median, total


def learn(table: PartitionTable, batch: MicroBatch) -> tuple[StickyState, float | None]:
    """Return the state after the reports of a batch, and the prediction error of these reports.

    The prediction error is the sum of differences between predicted and reported seconds, after
    scaling to equal totals, over the total.
    """
    state, raw, line = table.state, batch.observed, table.report_line
    is_count = (raw.records == 0) | (raw.records >= 1)  # values between 0 and 1 overflow quotients
    usable = (line >= 0) & is_count & (raw.records < 2**63)
    rows = np.flatnonzero(usable)
    offsets = np.where((raw.offsets > 0) & np.isfinite(raw.offsets), raw.offsets, 0.0)[rows]
    density = np.clip(raw.records[rows] / np.maximum(offsets, 1.0), _MIN_DENSITY, 1.0)
    sized = np.flatnonzero(usable & (raw.records > 0) & (raw.bytes > 0) & (raw.bytes < 2**63))
    log_bytes, records = np.log(raw.bytes[sized] / raw.records[sized]), raw.records[sized]
    state = replace(
        state,
        density=_update_averages(state.density, line[rows], density, offsets),
        bytes=_update_averages(state.bytes, line[sized], log_bytes, records),
    )
    rows = np.flatnonzero(
        usable & (raw.records > 0) & (raw.seconds > 0) & np.isfinite(raw.seconds)
    )
    if not len(rows):
        return state, None
    log_seconds = np.clip(np.log(raw.seconds[rows]), -_MAX_LOG, _MAX_LOG)
    reports = _TimedReports(line[rows], raw.executor[rows], raw.records[rows], log_seconds)
    paces, error = read_paces(state, raw.executors), None
    if state.batches and len(rows) > 1:
        work, _ = predict_work(state, reports.line, reports.records)
        work *= np.exp(compute_log_slowness(paces))[reports.executor]
        expected, seconds = work / work.sum(), np.exp(log_seconds)
        error = float(np.abs(expected - seconds / seconds.sum()).sum())
    state, paces = _update_costs(state, reports, paces)
    updated = dict(zip(raw.executors, starmap(Pace, paces.tolist()), strict=True))
    return replace(state, paces={**state.paces, **updated}), error


def _update_averages(column: Floats, line: Ints, values: Floats, weight: Floats) -> Floats:
    """Move averages towards the weighted mean of the reported values of their line, if any."""
    total = np.bincount(line, weight, len(column)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(line, weight * values, len(column)) / total
    gain = _MAX_GAIN * total / (total + _HALF_RECORDS)
    updated = np.where(np.isnan(column), mean, column + gain * (mean - column))
    return np.where(total > 0, updated, column)


def _update_costs(
    state: StickyState, reports: _TimedReports, paces: Floats
) -> tuple[StickyState, Floats]:
    """Divide each report's error between the fixed and common cost, its executor, and partition.

    1. Update the fixed cost; another one resets the costs, which were learned with the old one.
    2. Compute each report's error, and move what all have in common to the common cost.
    3. Update the executors, then the partitions without their executors' slowness.
    4. Update the noise from the partitions' deviations from their means, and center the costs.
    """
    line, executor, records, log_seconds = reports
    count, log_slowness = len(state.topic), compute_log_slowness(paces)
    columns = np.nan_to_num(np.array([state.cost, state.last_cost, state.evidence]))
    # 1. Fixed cost.
    seconds = np.exp(log_seconds - log_slowness[executor])
    common = _update_fixed(state.common, line, records, seconds)
    if common.fixed > 2 * state.common.fixed or state.common.fixed > 2 * common.fixed:
        columns[:] = 0.0
    # 2. Errors.
    level = common.level
    if not math.isfinite(level):
        level = float(np.median(np.log(seconds / records)))
    factors = compute_factors(replace(state, common=common, cost=columns[0], evidence=columns[2]))
    expected = common.fixed + records * np.exp(level + factors[line])
    error = np.log(seconds / expected)
    shift = float(np.median(error)) * len(line) / (len(line) + _HALF_COMMON_REPORTS)
    trusted_s = np.minimum(seconds, expected)  # a stall inflates a report, but not its weight
    trust = trusted_s / (trusted_s + _HALF_TRUST_S)
    # 3. Executors and partitions.
    paces = _update_paces(paces, log_slowness, reports, error - shift, trust, common)
    seconds = np.exp(log_seconds - compute_log_slowness(paces)[executor] - shift)
    share = np.maximum(1 - common.fixed / expected, _MIN_WORK)  # of the records in the seconds
    weight = trust * share**2
    excess = np.log(np.maximum(seconds - common.fixed, _MIN_WORK) / (expected * share))
    log_cost = factors[line] + np.where(seconds > expected, excess, np.log(seconds / expected) / share)
    total = np.bincount(line, weight, count).astype(np.float64)
    lines = np.flatnonzero(total)
    sample = np.bincount(line, weight * log_cost, count)[lines] / total[lines]
    before, total = columns[:, lines], total[lines]
    columns[:, lines] = _update_means(before, sample, total, common.noise)
    # 4. Noise and center.
    known = before[2] > 0
    if known.any():
        deviation = np.abs(sample - before[0])[known]
        deviation /= np.sqrt(1 / total[known] + 1 / before[2][known])
        common = _update_noise(common, deviation, total[known])
    is_missing = columns[2] <= 0
    columns[:, is_missing] = np.nan
    known_costs = columns[:, ~is_missing]
    (center,), _ = compute_medians(
        np.zeros(known_costs.shape[1], np.int64), known_costs[0], known_costs[2], 1
    )
    columns[:2] -= center
    level = float(np.clip(level + shift + center, -_MAX_LOG, _MAX_LOG))
    common = common._replace(level=level)
    state = replace(
        state, common=common, cost=columns[0], last_cost=columns[1], evidence=columns[2]
    )
    return state, paces


def _update_noise(common: Common, deviation: Floats, weight: Floats) -> Common:
    """Move the noise towards the mean absolute deviation, which is 0.8 times a normal one's."""
    noise = max(1.25 * float(np.average(deviation, weights=weight)), _MIN_NOISE)
    gain = max(1 / _MAX_BATCHES, 1 / (common.noise_batches + 1)) * len(weight) / (len(weight) + 1)
    variance = common.noise**2 + gain * (noise**2 - common.noise**2)
    batches = min(common.noise_batches + 1, _MAX_BATCHES)
    return common._replace(noise=math.sqrt(variance), noise_batches=batches)


def _update_fixed(common: Common, line: Ints, records: Floats, seconds: Floats) -> Common:
    """Fit seconds = fixed + slope x records over partitions and batches.

    `common.fit` has the running means of the products of (1, records, seconds), each divided by the
    expected seconds. Pieces are added up, because a costly partition has more, which would look
    like fixed costs.
    """
    rows = np.flatnonzero(np.bincount(line))
    sums = [np.bincount(line, column)[rows] for column in (records, seconds)]
    columns = np.array([np.ones(len(rows)), *sums])
    fixed, slope = common.fixed, float(np.median(columns[2] / columns[1]))
    gain, count = max(1 / _MAX_BATCHES, 1 / (common.fit_batches + 1)), len(rows)
    error = math.inf
    for _ in range(3):
        scaled = columns / (fixed + slope * columns[1])
        products = scaled @ scaled.T / count
        if common.fit:
            old = np.array(common.fit).reshape(3, 3)
            products = old + gain * (products - old)
        fixed, slope, error = _solve(products, count)
    common = common._replace(
        fit=tuple(products.ravel().tolist()),
        fit_batches=min(common.fit_batches + 1, _MAX_BATCHES),
    )
    # An uncertain fit replaces only a fixed cost that it contradicts.
    is_used = max(fixed, abs(fixed - common.fixed)) > _SIGMAS * error
    return common._replace(fixed=fixed) if is_used else common


def _solve(products: Floats, count: int) -> tuple[float, float, float]:
    """Return the fixed cost, the slope, and the standard error of the fixed cost."""
    (kk, kx, kt), (_, xx, xt), (_, _, tt) = products.tolist()
    determinant = kk * xx - kx * kx
    if determinant <= 1e-6 * kk * xx or count <= _FREE_PARTITIONS:
        return 0.0, xt / xx, math.inf  # equally many records, or too few partitions
    fixed = (kt * xx - xt * kx) / determinant
    slope = (xt * kk - kt * kx) / determinant
    if fixed <= 0:
        fixed, slope = 0.0, xt / xx
    elif slope <= 0:
        fixed, slope = kt / kk, 0.0
    variance = max(tt - fixed * kt - slope * xt, 0.0) / (count - _FREE_PARTITIONS)
    return fixed, slope, math.sqrt(variance * xx / determinant)


def _update_paces(
    paces: Floats,
    log_slowness: Floats,
    reports: _TimedReports,
    error: Floats,
    trust: Floats,
    common: Common,
) -> Floats:
    """Return the executors' paces, updated with the reports of a batch.

    `error`: logarithm of each report's seconds over those expected of its executor. Each report is
    compared with what other executors reported about its partition; the expectation counts as one
    of them. An executor's slowness is the median of its reports, relative to the usual executor.
    """
    line, executor, executors = reports.line, reports.executor, len(paces)
    counts = np.bincount(executor, minlength=executors)
    if np.count_nonzero(counts) < 2:  # no other executor to compare with
        return paces
    # 1. Executors whose reports changed.
    median, weight = compute_medians(executor, error, trust, executors)
    center = float(np.median(median[counts > 0]))
    independent = weight**2 / np.maximum(np.bincount(executor, trust**2, executors), _MIN_WORK)
    has_spread = independent >= _MIN_REPORTS
    deviation = np.abs(error - np.where(has_spread, median, center)[executor]) * np.sqrt(trust)
    deviation *= np.where(has_spread, independent / np.maximum(independent - 1, 1), 1.0)[executor]
    variance = max(common.noise, 1.25 * float(np.average(deviation, weights=trust))) ** 2
    variance *= math.pi / 2  # of a median
    changed = np.abs(median - center) * np.sqrt(weight) > _SIGMAS * math.sqrt(variance)
    changed |= not common.noise_batches
    # 2. Comparison with other executors.
    _, pair = np.unique(line * executors + executor, return_inverse=True)
    others = np.bincount(line, trust)[line] - np.bincount(pair, trust)[pair]
    weights = trust * np.where(changed[executor], 1.0, others / (trust + others))
    error, slowness = error + log_slowness[executor] - center, log_slowness
    for _ in range(_ROUNDS):
        excess = trust * (error - slowness[executor])
        excess = np.bincount(line, excess)[line] - np.bincount(pair, excess)[pair]
        excess = error - excess / np.maximum(others, _MIN_WORK)
        median, weight = compute_medians(executor, excess, weights, executors)
        slowness = np.where(weight > 0, (slowness + median) / 2, log_slowness)
    slowness = np.where(weight > 0, median, log_slowness)
    independent = weight**2 / np.maximum(np.bincount(executor, weights**2, executors), _MIN_WORK)
    weight *= np.where(changed, independent / (1 + independent), 1.0) / variance
    rows, updated = np.flatnonzero(weight), paces.copy()
    slowness = np.clip(slowness, -_MAX_LOG_SLOWNESS, _MAX_LOG_SLOWNESS)
    if common.noise_batches < 2:  # unknown costs distort both batches alike
        updated[log_slowness == 0] = 0.0
    updated[rows] = _update_means(updated[rows].T, slowness[rows], weight[rows], 1.0).T
    updated[:, :2] -= np.median(updated[:, 0])
    return updated


def _update_means(columns: Floats, sample: Floats, weight: Floats, noise: float) -> Floats:
    """Move running means towards samples, each worth `weight` reports with this noise.

    An outlier does not move the mean. But if the previous sample was an outlier on the same side,
    the mean restarts as the average of both. The rows of `columns` and of the result are the mean,
    the previous sample, and the evidence: the number of reports.

    >>> columns, sample = np.array([[0.0], [0.0], [4.0]]), np.array([1.0])
    >>> for _ in range(2):
    ...     columns = _update_means(columns, sample, np.ones(1), 0.1)
    ...     print("mean", columns[0, 0])
    mean 0.0
    mean 1.0
    """
    mean, last_sample, evidence = columns
    with np.errstate(divide="ignore"):
        sigmas = _OUTLIER_SIGMAS * noise * np.sqrt(1 / weight + 1 / evidence)
    max_distance = np.maximum(_MIN_OUTLIER, sigmas)
    distance, last_distance = sample - mean, last_sample - mean
    is_outlier = (evidence > 0) & (np.abs(distance) > max_distance)
    changed = is_outlier & (np.abs(last_distance) > max_distance) & (distance * last_distance > 0)
    total = evidence * (1 - 1 / _MAX_BATCHES) + weight
    moved_mean = mean + distance * np.minimum(1.0, weight / total)
    mean = np.where(changed, (sample + last_sample) / 2, np.where(is_outlier, mean, moved_mean))
    evidence = np.where(changed, 2 * weight, np.where(is_outlier, evidence, total))
    return np.array([mean, sample, evidence])

"""Predict how long reading each range takes, from costs that are learned from read reports.

    seconds = (fixed + records x cost(partition)) x slowness(executor)

- `fixed` is the intercept of a line through partitions' seconds by their records, if significant.
- A cost is a running mean of log(seconds per record), without the fixed seconds. It is shrunk
  towards its topic's median: by one standard error if most partitions differ, else by several.
- A slowness is a running mean of an executor's median log(error), compared with other executors on
  the same partitions, and shrunk towards 1 by several standard errors.

Errors are logarithms, so that 1:50 and 50:1 are equally far from 1. A change that all reports share
changes only the common cost `level`. A new partition has its topic's cost. Until seconds are
reported, a range's work is its bytes or records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import starmap
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from assignor_bridge.planner.slots import share_slots
from assignor_bridge.planner.table import load_table
from checkpoints.sorting import stable_order
from checkpoints.sticky_state import Pace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assignor_bridge.planner.batch import Flags, Floats, Ints, MicroBatch
    from assignor_bridge.planner.table import PartitionTable
    from checkpoints.sticky_state import Common, StickyState

Basis = Literal["records", "bytes", "seconds"]
_SECONDS: Basis = "seconds"
#: Standard errors that are treated as noise. With less, noise of 20% moves partitions.
_SIGMAS = 3.5
#: Batches in a running mean. With more, drifting costs are followed late; with fewer, noise is.
_MAX_BATCHES = 8.0
#: The same for executors. With fewer, one of two executors is never found to be slow.
_MAX_BATCHES_OF_PACE = 16.0
#: Smaller deviations are no outliers. Without it, a low estimate of the noise rejects all reports.
_MIN_OUTLIER = 0.25
#: A report of this duration has half weight. Without it, waits for a poll are taken for costs.
_HALF_TRUST_S = 0.1
#: Lower bound of the noise. Without it, two equal reports are never contradicted.
_MIN_NOISE = 0.02
#: With as many reports, half of their common change is applied. Without it, a lone report never
#: changes its partition's cost.
_HALF_COMMON_REPORTS = 4.0
#: Partitions that may lie on a line by chance. Without it, few costs look like a fixed cost.
_FREE_PARTITIONS = 4
#: Smaller differences of executors are ignored. Without it, pieces move for what costs absorb.
_MIN_LOG_SLOWNESS = math.log(1.15)
#: Upper bound of a slowness. Without it, one stall leaves an executor without work for long.
_MAX_LOG_SLOWNESS = math.log(20)
#: Efficiency of a median compared with a mean if noise is normal.
_MEDIAN_EFFICIENCY = 2 / math.pi
#: Rounds in which executors are compared. With one, readers of a slow one's partitions look fast.
_ROUNDS = 6
#: Lower bound of records per offset. Without it, dense offsets after sparse ones overload a slot.
_MIN_DENSITY = 0.01
#: Maximum weight of a batch in an average of bytes or density. With 1, averages are not smoothed.
_MAX_GAIN = 0.6
#: This many records have half of that weight. Without it, one record counts like thousands.
_HALF_RECORDS = 5.0
_MAX_LOG = 45.0  # of seconds; without it, absurd reports overflow
_MIN_WORK = 1e-12  # without it, divisions by work fail
#: Seconds per record until seconds are reported; without it, admission has no unit.
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


class LearningResult(NamedTuple):
    """The state after the reports of a batch, and how well the state before predicted them."""

    state: StickyState
    #: Sum of differences between predicted and reported seconds, after scaling to equal totals,
    #: over the total; None if nothing was predicted.
    error: float | None
    #: Seconds predicted for each report, meaningless for reports without a line in the table; None
    #: if no seconds were predicted.
    predicted_s: Floats | None


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
    factors = compute_factors(state)
    if math.isfinite(state.common.level):
        work, basis = _predict_seconds(state, factors, line, records), _SECONDS
    else:
        work, basis = _predict_without_seconds(state, line, records)
    if batch.replicas is not None and not np.isnan(state.bytes).all():
        range_bytes = records * np.exp(fill_from_topic(state.bytes, state.topic, 0.0)[line])
    work = np.maximum(work, _MIN_WORK * records)  # equal for all records, so that cuts stay even
    fixed = np.minimum(work, state.common.fixed if basis == "seconds" else 0.0)
    slowness = np.exp(compute_log_slowness(read_paces(state, (e.id for e in batch.executors))))
    description = "weights: all records equal, no costs reported yet"
    if basis == "bytes":
        count = np.count_nonzero(~np.isnan(state.bytes[line]))
        description = f"weights: bytes of {count} of {len(line)} partitions, no seconds reported"
    elif basis == "seconds":
        text = f"{state.common.fixed:.2g} s per range and " if state.common.fixed else ""
        count = np.count_nonzero(factors[line])
        description = (
            f"weights: seconds, {text}{math.exp(state.common.level):.2g} s per record; {count} of "
            f"{len(line)} partitions have a different cost"
        )
    return Weights(work, basis, slowness, fixed, description, range_bytes)


def _predict_seconds(state: StickyState, factors: Floats, line: Ints, records: Floats) -> Floats:
    """Predict the seconds of reading `records` from the partitions at these table lines."""
    return np.asarray(state.common.fixed + records * np.exp(state.common.level + factors)[line])


def _predict_without_seconds(
    state: StickyState, line: Ints, records: Floats
) -> tuple[Floats, Basis]:
    """Predict the work of reading `records` until seconds are reported: bytes, or records."""
    if not np.isnan(state.bytes).all():
        log_bytes = fill_from_topic(state.bytes - np.nanmean(state.bytes), state.topic, 0.0)
        return records * np.exp(log_bytes[line]), "bytes"
    return records, "records"


def forecast(batch: MicroBatch, state: StickyState) -> Forecast:
    """Return the predicted cost of each range, before the batch is planned."""
    batch = share_slots(batch, state)
    table = load_table(state, batch)
    learned = learn(table, batch).state
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


def _predict_reports(state: StickyState, line: Ints, batch: MicroBatch) -> Floats | None:
    """Return the seconds that the state before the batch predicted for each report.

    `line`: each report's line in the partition table; reports without one (-1) are meaningless.
    Returns None if no seconds were predicted.
    """
    reports = batch.observed
    if not math.isfinite(state.common.level) or not len(line):
        return None
    log_slowness = compute_log_slowness(read_paces(state, reports.executors))
    records = np.clip(reports.records, 1.0, 2.0**63)
    work = _predict_seconds(state, compute_factors(state), line, records)
    return np.asarray(work * np.exp(log_slowness)[reports.executor])


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
    """Return deviations without the part that may be due to `error`: 0 up to `error`.

    With a lower power than 8, a slowness that has just been found is applied by half.

    >>> shrink_towards_zero(np.array([-0.5, 1.0, -2.0]), 1.0).tolist()
    [0.0, 0.0, -1.9921875]
    """
    size = np.abs(deviation)
    with np.errstate(invalid="ignore"):
        shrunk = deviation * (1 - (error / np.maximum(size, error)) ** 8)
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
    order = np.argsort(values)
    order = order[stable_order(group[order])]
    total, median = np.bincount(group, weight, groups).astype(np.float64), np.zeros(groups)
    used = np.flatnonzero(total > 0)
    reached = np.cumsum(weight[order])
    half = np.cumsum(total)[used] - total[used] / 2
    lower, upper = (np.searchsorted(reached, half * (1 + e)) for e in (-1e-9, 1e-9))
    last = np.cumsum(np.bincount(group, minlength=groups))[used] - 1
    ranked = values[order]
    median[used] = (ranked[np.minimum(lower, last)] + ranked[np.minimum(upper, last)]) / 2
    return median, total


def learn(table: PartitionTable, batch: MicroBatch) -> LearningResult:
    """Update the state with the reports of a batch, and compare them with its predictions."""
    state, raw, line = table.state, batch.observed, table.report_line
    predicted_s = _predict_reports(state, line, batch)
    is_count = (raw.records == 0) | (raw.records >= 1)  # values between 0 and 1 overflow quotients
    usable = (line >= 0) & is_count & (raw.records < 2**63)
    offsets = np.where(usable & (raw.offsets > 0) & np.isfinite(raw.offsets), raw.offsets, 0.0)
    density = np.clip(raw.records / np.maximum(offsets, 1.0), _MIN_DENSITY, 1.0)
    usable &= raw.records > 0
    sized = usable & (raw.bytes > 0) & (raw.bytes < 2**63)
    records_with_bytes = np.where(sized, raw.records, 0.0)
    log_bytes = np.log(np.where(sized, raw.bytes / np.maximum(raw.records, 1.0), 1.0))
    state = replace(
        state,
        density=_update_averages(state.density, line, density, offsets),
        bytes=_update_averages(state.bytes, line, log_bytes, records_with_bytes),
    )
    rows = np.flatnonzero(usable & (raw.seconds > 0) & np.isfinite(raw.seconds))
    if not len(rows):
        return LearningResult(state, None, predicted_s)
    log_seconds = np.clip(np.log(raw.seconds[rows]), -_MAX_LOG, _MAX_LOG)
    reports = _TimedReports(line[rows], raw.executor[rows], raw.records[rows], log_seconds)
    paces, error = read_paces(state, raw.executors), None
    if state.batches and len(rows) > 1:
        if predicted_s is not None:
            work = predicted_s[rows]
        else:
            work, _ = _predict_without_seconds(state, reports.line, reports.records)
            work = work * np.exp(compute_log_slowness(paces))[reports.executor]
        seconds = np.exp(log_seconds)
        error = float(np.abs(work / work.sum() - seconds / seconds.sum()).sum())
    state, paces = _update_model(state, reports, paces)
    updated = dict(zip(raw.executors, starmap(Pace, paces.tolist()), strict=True))
    return LearningResult(replace(state, paces={**state.paces, **updated}), error, predicted_s)


def _update_averages(column: Floats, line: Ints, values: Floats, weight: Floats) -> Floats:
    """Move averages towards the weighted mean of the reported values of their line, if any."""
    rows = np.flatnonzero(weight > 0)
    total = np.bincount(line[rows], weight[rows], len(column)).astype(np.float64)
    mean = np.bincount(line[rows], (weight * values)[rows], len(column)) / np.maximum(total, 1e-9)
    gain = _MAX_GAIN * total / (total + _HALF_RECORDS)
    updated = np.where(np.isnan(column), mean, column + gain * (mean - column))
    return np.where(total > 0, updated, column)


def _update_model(
    state: StickyState, reports: _TimedReports, paces: Floats
) -> tuple[StickyState, Floats]:
    """Divide the reports' errors between the fixed and common costs, executors, and partitions.

    1. Update the fixed cost. A very different one resets the costs that were learned with it.
    2. Compute each report's error, and the part of it that all have in common.
    3. Update the executors.
    4. Update the partitions, with the reports' seconds on a usual executor.
    """
    # 1. Fixed cost.
    line, executor, records, log_seconds = reports
    log_slowness, fixed_before = compute_log_slowness(paces), state.common.fixed
    seconds = np.exp(log_seconds - log_slowness[executor])
    common = _update_fixed(state.common, line, records, seconds)
    if max(common.fixed, fixed_before) > 2 * min(common.fixed, fixed_before):
        unknown = np.full(len(state.topic), np.nan)
        state = replace(state, cost=unknown, last_cost=unknown, evidence=unknown)
    if not math.isfinite(common.level):
        common = common._replace(level=float(np.median(np.log(seconds / records))))
    # 2. Errors.
    factors = compute_factors(replace(state, common=common))[line]
    expected = common.fixed + records * np.exp(common.level + factors)
    error = np.log(seconds / expected)
    shift = float(np.median(error)) * len(line) / (len(line) + _HALF_COMMON_REPORTS)
    trusted_s = np.minimum(seconds, expected)  # a stall inflates a report, but not its weight
    trust = trusted_s / (trusted_s + _HALF_TRUST_S)
    # 3. Executors.
    paces = _update_paces(paces, reports, error - shift, trust, common)
    # 4. Partitions. An error of seconds is one of records divided by their share of the seconds.
    change = compute_log_slowness(paces) - log_slowness
    state = _doubt_costs(state, reports, error - shift, trust, change)
    seconds *= np.exp(-shift - change[executor])
    share = np.maximum(1 - common.fixed / expected, _MIN_WORK)
    positive = np.log(np.maximum(seconds - common.fixed, _MIN_WORK) / (expected * share))
    negative = np.log(seconds / expected) / share
    log_cost = factors + np.where(seconds > expected, positive, negative)
    common = common._replace(level=common.level + shift)
    return _update_costs(replace(state, common=common), line, log_cost, trust * share**2), paces


def _doubt_costs(
    state: StickyState, reports: _TimedReports, error: Floats, trust: Floats, change: Floats
) -> StickyState:
    """Reduce the evidence of costs that had absorbed a changed slowness of their executor."""
    line, executor, lines = reports.line, reports.executor, len(state.topic)
    if not change.any():
        return state
    median, _ = compute_medians(executor, error, trust, len(change))
    absorbed = np.where(change, change - median, 0.0)[executor]
    total = np.maximum(np.bincount(line, trust, lines), _MIN_WORK)
    sigmas = np.bincount(line, trust * absorbed, lines) / total / state.common.noise
    return replace(state, evidence=state.evidence / (1 + state.evidence * sigmas**2))


def _update_fixed(common: Common, line: Ints, records: Floats, seconds: Floats) -> Common:
    """Fit seconds = fixed + slope x records over partitions and batches.

    `common.fit` has the running means of the products of (1, records, seconds), each divided by the
    expected seconds. Pieces are added up, because a costly partition has more, which would look
    like fixed costs. A partition with most of the records is left out: if it is cheap, others would
    seem to have fixed costs. A fit of equally many records replaces only a fixed cost that it
    contradicts.
    """
    rows = np.flatnonzero(np.bincount(line))
    sums = [np.bincount(line, column)[rows] for column in (records, seconds)]
    columns = np.array([np.ones(len(rows)), *sums])
    if 2 * sums[0].max() > sums[0].sum() and len(rows) > 1:  # it alone would determine the slope
        columns = np.delete(columns, sums[0].argmax(), axis=1)
    fixed, slope, error = common.fixed, float(np.median(columns[2] / columns[1])), math.inf
    gain = max(1 / _MAX_BATCHES, 1 / (common.fit_batches + 1))
    for _ in range(3):  # the weights depend on the fit
        scaled = columns / (fixed + slope * columns[1])
        products = scaled @ scaled.T / columns.shape[1]
        if common.fit:
            products = (1 - gain) * np.array(common.fit).reshape(3, 3) + gain * products
        fixed, slope, error = _solve(products, columns.shape[1])
    fit, batches = tuple(products.ravel().tolist()), min(common.fit_batches + 1, _MAX_BATCHES)
    if max(fixed, abs(fixed - common.fixed)) <= _SIGMAS * error:
        fixed = common.fixed
    return common._replace(fixed=fixed, fit=fit, fit_batches=batches)


def _solve(products: Floats, partitions: int) -> tuple[float, float, float]:
    """Return the fixed cost, the slope, and the standard error of the fixed cost."""
    (ones, x, t), (_, xx, xt), (_, _, tt) = products.tolist()
    determinant = ones * xx - x * x
    if determinant <= 1e-6 * ones * xx or partitions <= _FREE_PARTITIONS:
        return 0.0, xt / xx, math.inf
    fixed, slope = (t * xx - xt * x) / determinant, (xt * ones - t * x) / determinant
    if fixed <= 0:
        fixed, slope = 0.0, xt / xx
    elif slope <= 0:
        fixed, slope = t / ones, 0.0
    variance = max(tt - fixed * t - slope * xt, 0.0) / (partitions - _FREE_PARTITIONS)
    return fixed, slope, math.sqrt(variance * xx / determinant)


def _update_paces(
    paces: Floats, reports: _TimedReports, error: Floats, trust: Floats, common: Common
) -> Floats:
    """Return the executors' paces, updated with the reports of a batch.

    `error`: logarithm of each report's seconds over those expected of its executor. Once costs are
    known, they absorb what an executor's own partitions share. So only reports of partitions with
    several readers are compared, unless an executor's median error shows that it changed.
    """
    line, executor, executors = reports.line, reports.executor, len(paces)
    if len(np.unique(executor)) < 2:  # no other executor to compare with
        return paces
    # 1. Executors that changed.
    changed, center = _find_changed(executor, error, trust, executors, common)
    # 2. Comparison with the other readers of a partition, whose slowness is compared, too.
    rows = np.flatnonzero((np.bincount(line)[line] > 1) | changed[executor])
    line, executor, error, trust = line[rows], executor[rows], error[rows] - center, trust[rows]
    _, pair = np.unique(line * executors + executor, return_inverse=True)
    others = np.bincount(line, trust)[line] - np.bincount(pair, trust)[pair]
    weights = trust * np.where(changed[executor], 1.0, others / (trust + others))
    slowness = log_slowness = compute_log_slowness(paces)
    error += log_slowness[executor]
    for _ in range(_ROUNDS):
        weighted = trust * (error - slowness[executor])
        total = np.bincount(line, weighted)[line] - np.bincount(pair, weighted)[pair]
        excess = error - total / np.maximum(others, _MIN_WORK)
        median, weight = compute_medians(executor, excess, weights, executors)
        slowness = np.where(weight > 0, (slowness + median) / 2, log_slowness)
    spread, count = _measure_spread(executor, excess, weights, median)
    precision = weight / max(common.noise, spread) ** 2 * _MEDIAN_EFFICIENCY
    precision *= np.where(changed, count / (1 + count), 1.0) / (1 - 1 / executors)
    # 3. Running means. Unknown costs distort the first two batches alike.
    paces = np.where(((log_slowness == 0) & (common.noise_batches < 2))[:, None], 0.0, paces)
    rows = np.flatnonzero(precision)
    sample = np.clip(median[rows], -_MAX_LOG_SLOWNESS, _MAX_LOG_SLOWNESS)
    paces[rows] = _update_means(paces[rows].T, sample, precision[rows], 1.0, _MAX_BATCHES_OF_PACE).T
    paces[:, :2] -= np.median(paces[:, 0])
    return paces


def _find_changed(
    executor: Ints, error: Floats, trust: Floats, executors: int, common: Common
) -> tuple[Flags, float]:
    """Return which executors' median errors stand out, and the usual executor's median error.

    Before costs are known, all executors' errors are news.
    """
    median, weight = compute_medians(executor, error, trust, executors)
    center = float(np.median(median[weight > 0]))
    spread, _ = _measure_spread(executor, error - center, trust, median - center)
    precision = weight / max(common.noise, spread) ** 2 * _MEDIAN_EFFICIENCY
    stands_out = np.abs(median - center) * np.sqrt(precision) > _SIGMAS
    return stands_out | (common.noise_batches == 0), center


def _measure_spread(
    group: Ints, values: Floats, weight: Floats, median: Floats
) -> tuple[float, Floats]:
    """Return the standard deviation of a trusted value from its group's median.

    Also return each group's number of independent values. Groups of less than two have no spread,
    so the distance to the usual group at 0 is used.
    """
    total = np.bincount(group, weight, len(median))
    count = total**2 / np.maximum(np.bincount(group, weight**2, len(median)), _MIN_WORK**2)
    has_spread = count >= 2
    deviation = np.abs(values - np.where(has_spread, median, 0.0)[group]) * np.sqrt(weight)
    deviation *= np.where(has_spread, count / np.maximum(count - 1, 1), 1.0)[group]
    return 1.25 * float(weight @ deviation) / max(float(weight.sum()), _MIN_WORK), count


def _update_costs(state: StickyState, line: Ints, log_cost: Floats, weight: Floats) -> StickyState:
    """Move the costs and the noise of partitions with reports, and center all costs."""
    columns = np.nan_to_num(np.array([state.cost, state.last_cost, state.evidence]))
    total = np.bincount(line, weight, len(state.topic)).astype(np.float64)
    lines = np.flatnonzero(total)
    before, total = columns[:, lines], total[lines]
    sample = np.bincount(line, weight * log_cost, len(state.topic))[lines] / total
    columns[:, lines] = _update_means(before, sample, total, state.common.noise, _MAX_BATCHES)
    common, known = state.common, np.flatnonzero(before[2])
    if len(known):
        deviation = np.abs(sample - before[0])[known]
        deviation /= np.sqrt(1 / total[known] + 1 / before[2, known])
        noise = max(1.25 * float(np.average(deviation, weights=total[known])), _MIN_NOISE)
        gain = max(1 / _MAX_BATCHES, 1 / (common.noise_batches + 1)) / (1 + 1 / len(known))
        noise = math.sqrt((1 - gain) * common.noise**2 + gain * noise**2)
        batches = min(common.noise_batches + 1, _MAX_BATCHES)
        common = common._replace(noise=noise, noise_batches=batches)
    columns[:, columns[2] <= 0] = np.nan
    rows = np.flatnonzero(columns[2] > 0)
    (center,), _ = compute_medians(np.zeros_like(rows), columns[0, rows], columns[2, rows], 1)
    columns[:2] -= center
    level = float(np.clip(common.level + center, -_MAX_LOG, _MAX_LOG))
    cost, last_cost, evidence = columns
    common = common._replace(level=level)
    return replace(state, common=common, cost=cost, last_cost=last_cost, evidence=evidence)


def _update_means(
    columns: Floats, sample: Floats, weight: Floats, noise: float, max_batches: float
) -> Floats:
    """Move running means towards samples, each worth `weight` reports with this noise.

    An outlier does not move the mean. But if the previous sample was an outlier on the same side,
    the mean restarts as the average of both. The rows of `columns` and of the result are the mean,
    the previous sample, and the evidence: the number of reports.

    >>> columns, sample = np.array([[0.0], [0.0], [4.0]]), np.array([1.0])
    >>> for _ in range(2):
    ...     columns = _update_means(columns, sample, np.ones(1), 0.1, 8.0)
    ...     print("mean", columns[0, 0])
    mean 0.0
    mean 1.0
    """
    mean, last_sample, evidence = columns
    with np.errstate(divide="ignore"):
        sigmas = _SIGMAS * noise * np.sqrt(1 / weight + 1 / evidence)
    max_distance = np.maximum(_MIN_OUTLIER, sigmas)
    distance, last_distance = sample - mean, last_sample - mean
    is_outlier = (evidence > 0) & (np.abs(distance) > max_distance)
    changed = is_outlier & (np.abs(last_distance) > max_distance) & (distance * last_distance > 0)
    total = evidence * (1 - 1 / max_batches) + weight
    moved_mean = mean + distance * np.minimum(1.0, weight / total)
    mean = np.where(changed, (sample + last_sample) / 2, np.where(is_outlier, mean, moved_mean))
    evidence = np.where(changed, 2 * weight, np.where(is_outlier, evidence, total))
    return np.array([mean, sample, evidence])

"""Learn costs from the read reports of a batch (`planner.costs` has the model)."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assignor_bridge.planner.averages import MIN_POSITIVE, SIGMAS, compute_medians, update_means
from assignor_bridge.planner.costs import (
    MIN_DENSITY,
    compute_log_factors,
    compute_log_slowness,
    get_paces,
    predict_reports,
    weigh_records,
)
from assignor_bridge.planner.paces import update_paces
from checkpoints.sticky_state import Pace

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints, MicroBatch
    from assignor_bridge.planner.table import PartitionTable
    from checkpoints.sticky_state import Common, StickyState

#: Batches in a running mean. With more, it follows drifts late; with fewer, it follows noise.
_MAX_BATCHES = 8.0
#: A report of this duration has half weight. Without it, waits for a poll are taken for costs.
_HALF_TRUST_S = 0.1
#: Lower bound of the noise of a batch. Without it, equal reports are infinite evidence.
_MIN_NOISE = 0.02
#: With this many reports, half of their common change is applied. Without it, a lone report never
#: changes its partition's cost.
_HALF_COMMON_REPORTS = 4.0
#: Partitions that may lie on a line by chance. Without it, a few costs look like a fixed cost.
_FREE_PARTITIONS = 4
#: Maximum weight of a batch in an average of bytes or density. With 1, averages are not smoothed.
_MAX_GAIN = 0.6
#: Records (or offsets, of density) with half of that weight. Without it, one weighs like thousands.
_HALF_GAIN_WEIGHT = 5.0
#: Maximum absolute logarithm of seconds. Without it, absurd reports overflow.
_MAX_LOG = 45.0


class LearningResult(NamedTuple):
    """The state after the reports of a batch, and how well the state before predicted them."""

    state: StickyState
    #: Sum of absolute differences between each report's shares of the predicted work and of the
    #: reported seconds; None in the first batch, or if fewer than two have records and seconds.
    prediction_error: float | None
    #: Seconds predicted for each report (see `predict_reports`); None if none were predicted.
    predicted_s: Floats | None


class _TimedReports(NamedTuple):
    """Columns of the reports with records and seconds (one element per report)."""

    line: Ints  # of the partition in the table
    executor: Ints  # index in the executors of the reports
    records: Floats
    log_seconds: Floats


def learn(table: PartitionTable, batch: MicroBatch) -> LearningResult:
    """Update the table's state with a batch's reports, and compare them with its predictions."""
    state, reports, line = table.state, batch.reports, table.report_line
    predicted_s = predict_reports(state, line, batch)
    records, offsets = reports.records, reports.offsets
    is_valid_count = (records == 0) | (records >= 1)  # dividing by less could overflow
    is_usable = (line >= 0) & is_valid_count & (records < 2**63)
    offsets = np.where(is_usable & (offsets > 0) & np.isfinite(offsets), offsets, 0.0)
    density = np.clip(records / np.maximum(offsets, 1.0), MIN_DENSITY, 1.0)
    is_usable &= records > 0
    has_bytes = is_usable & (reports.bytes > 0) & (reports.bytes < 2**63)
    records_with_bytes = np.where(has_bytes, records, 0.0)
    log_bytes = np.log(np.where(has_bytes, reports.bytes / np.maximum(records, 1.0), 1.0))
    state = replace(
        state,
        density=_update_averages(state.density, line, density, offsets),
        bytes=_update_averages(state.bytes, line, log_bytes, records_with_bytes),
    )
    warm_s = reports.warm_seconds
    rows = np.flatnonzero(is_usable & (warm_s > 0) & np.isfinite(warm_s))
    if not len(rows):
        return LearningResult(state, None, predicted_s)
    log_seconds = np.clip(np.log(warm_s[rows]), -_MAX_LOG, _MAX_LOG)
    timed_reports = _TimedReports(line[rows], reports.executor[rows], records[rows], log_seconds)
    paces, prediction_error = get_paces(state, reports.executors), None
    if state.batches and len(rows) > 1:
        if predicted_s is not None:
            work = predicted_s[rows]
        else:
            work, _ = weigh_records(state, timed_reports.line, timed_reports.records)
            work = work * np.exp(compute_log_slowness(paces))[timed_reports.executor]
        seconds = np.exp(log_seconds)
        prediction_error = float(np.abs(work / work.sum() - seconds / seconds.sum()).sum())
    state, paces = _update_model(state, timed_reports, paces)
    new_paces = dict(zip(reports.executors, starmap(Pace, paces.tolist()), strict=True))
    state = replace(state, paces={**state.paces, **new_paces})
    return LearningResult(state, prediction_error, predicted_s)


def _update_averages(averages: Floats, line: Ints, values: Floats, weight: Floats) -> Floats:
    """Move lines' averages (NaN if unknown) towards the weighted mean of their reports' values."""
    rows = np.flatnonzero(weight > 0)
    total = np.bincount(line[rows], weight[rows], len(averages)).astype(np.float64)
    sums = np.bincount(line[rows], (weight * values)[rows], len(averages))
    mean, gain = sums / np.maximum(total, 1e-9), _MAX_GAIN * total / (total + _HALF_GAIN_WEIGHT)
    moved_averages = np.where(np.isnan(averages), mean, averages + gain * (mean - averages))
    return np.where(total > 0, moved_averages, averages)


def _update_model(
    state: StickyState, reports: _TimedReports, paces: Floats
) -> tuple[StickyState, Floats]:
    """Divide the reports' errors between the fixed and common costs, executors, and partitions.

    1. Update the fixed cost. If it more than doubles or halves, forget the costs learned with it.
    2. Compute each report's error, and the part of it that all have in common.
    3. Update the executors' paces.
    4. Update the partitions' costs, with the reports' seconds on a usual executor.

    Return the state, with its old paces, and the new paces.
    """
    # 1. Fixed cost.
    line, executor, records, log_seconds = reports
    log_slowness, old_fixed = compute_log_slowness(paces), state.common.fixed
    seconds = np.exp(log_seconds - log_slowness[executor])
    common = _update_fixed(state.common, line, records, seconds)
    if max(common.fixed, old_fixed) > 2 * min(common.fixed, old_fixed):
        unknown_costs = np.full(len(state.topic), np.nan)
        state = replace(state, cost=unknown_costs, last_cost=unknown_costs, evidence=unknown_costs)
    if not math.isfinite(common.level):
        common = common._replace(level=float(np.median(np.log(seconds / records))))
    # 2. Errors.
    log_factors = compute_log_factors(replace(state, common=common))[line]
    expected_s = common.fixed + records * np.exp(common.level + log_factors)
    error = np.log(seconds / expected_s)
    shift = float(np.median(error)) * len(line) / (len(line) + _HALF_COMMON_REPORTS)
    trusted_s = np.minimum(seconds, expected_s)  # a stall inflates a report, but not its weight
    trust = trusted_s / (trusted_s + _HALF_TRUST_S)
    # 3. Executors.
    paces = update_paces(paces, line, executor, error - shift, trust, common=common)
    # 4. Partitions. The fixed seconds have no error, so that of the records is larger.
    slowness_change = compute_log_slowness(paces) - log_slowness
    state = _reduce_evidence(state, reports, error - shift, trust, slowness_change)
    seconds *= np.exp(-shift - slowness_change[executor])
    record_share = np.maximum(1 - common.fixed / expected_s, MIN_POSITIVE)
    record_s = np.maximum(seconds - common.fixed, MIN_POSITIVE)
    slower_error = np.log(record_s / (expected_s * record_share))
    faster_error = np.log(seconds / expected_s) / record_share  # finite, even below the fixed cost
    log_cost = log_factors + np.where(seconds > expected_s, slower_error, faster_error)
    common = common._replace(level=common.level + shift)
    weight = trust * record_share**2
    return _update_costs(replace(state, common=common), line, log_cost, weight), paces


def _reduce_evidence(
    state: StickyState,
    reports: _TimedReports,
    error: Floats,
    trust: Floats,
    slowness_change: Floats,
) -> StickyState:
    """Reduce the evidence of costs that had absorbed a change of their executor's slowness.

    They absorbed the part of `slowness_change` (of log(slowness), by executor) that the executor's
    median error does not show.
    """
    line, executor, line_count = reports.line, reports.executor, len(state.topic)
    if not slowness_change.any():
        return state
    median_error, _ = compute_medians(executor, error, trust, len(slowness_change))
    absorbed_change = np.where(slowness_change, slowness_change - median_error, 0.0)[executor]
    total = np.maximum(np.bincount(line, trust, line_count), MIN_POSITIVE)
    sums = np.bincount(line, trust * absorbed_change, line_count)
    sigmas = sums / total / state.common.noise
    return replace(state, evidence=state.evidence / (1 + state.evidence * sigmas**2))


def _update_fixed(common: Common, line: Ints, records: Floats, seconds: Floats) -> Common:
    """Fit seconds = fixed + slope x records over partitions and batches.

    `common.fit` has the running means of the products of (1, records, seconds), each divided by the
    expected seconds. Pieces are added up, because a costly partition has more, which would look
    like fixed costs. A partition with most of the records is left out: if it is cheap, others would
    seem to have fixed costs. The old fixed cost stays if the fit differs neither from it nor from 0
    by several standard errors.
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
    if max(fixed, abs(fixed - common.fixed)) <= SIGMAS * error:
        fixed = common.fixed
    return common._replace(fixed=fixed, fit=fit, fit_batches=batches)


def _solve(products: Floats, partition_count: int) -> tuple[float, float, float]:
    """Return the fixed cost, the slope (both at least 0), and the standard error of the fixed cost.

    If the `products` (see `Common.fit`) or few partitions give no line: 0, and an infinite error.
    """
    (ones, x, t), (_, xx, xt), (_, _, tt) = products.tolist()
    determinant = ones * xx - x * x
    if determinant <= 1e-6 * ones * xx or partition_count <= _FREE_PARTITIONS:
        return 0.0, xt / xx, math.inf
    fixed, slope = (t * xx - xt * x) / determinant, (xt * ones - t * x) / determinant
    if fixed <= 0:
        fixed, slope = 0.0, xt / xx
    elif slope <= 0:
        fixed, slope = t / ones, 0.0
    variance = max(tt - fixed * t - slope * xt, 0.0) / (partition_count - _FREE_PARTITIONS)
    return fixed, slope, math.sqrt(variance * xx / determinant)


def _update_costs(state: StickyState, line: Ints, log_cost: Floats, weight: Floats) -> StickyState:
    """Update the noise and the costs of reported partitions; move the costs' center to `level`."""
    estimates = np.nan_to_num(np.array([state.cost, state.last_cost, state.evidence]))
    total = np.bincount(line, weight, len(state.topic)).astype(np.float64)
    reported_lines = np.flatnonzero(total)
    old_estimates, total = estimates[:, reported_lines], total[reported_lines]
    sample = np.bincount(line, weight * log_cost, len(state.topic))[reported_lines] / total
    new_estimates = update_means(old_estimates, sample, total, state.common.noise, _MAX_BATCHES)
    estimates[:, reported_lines] = new_estimates
    old_cost, _, old_evidence = old_estimates
    common, rows = state.common, np.flatnonzero(old_evidence)  # lines that had a cost
    if len(rows):
        deviation = np.abs(sample - old_cost)[rows]
        deviation /= np.sqrt(1 / total[rows] + 1 / old_evidence[rows])
        # The standard deviation of normal noise is 1.25 times its mean absolute value.
        batch_noise = max(1.25 * float(np.average(deviation, weights=total[rows])), _MIN_NOISE)
        gain = max(1 / _MAX_BATCHES, 1 / (common.noise_batches + 1)) / (1 + 1 / len(rows))
        noise = math.sqrt((1 - gain) * common.noise**2 + gain * batch_noise**2)
        batches = min(common.noise_batches + 1, _MAX_BATCHES)
        common = common._replace(noise=noise, noise_batches=batches)
    estimates[:, estimates[2] <= 0] = np.nan
    cost, last_cost, evidence = estimates
    lines = np.flatnonzero(evidence > 0)
    (center,), _ = compute_medians(np.zeros_like(lines), cost[lines], evidence[lines], 1)
    common = common._replace(level=float(np.clip(common.level + center, -_MAX_LOG, _MAX_LOG)))
    cost, last_cost = cost - center, last_cost - center
    return replace(state, common=common, cost=cost, last_cost=last_cost, evidence=evidence)

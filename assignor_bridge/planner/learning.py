"""Learn costs from the read reports of a batch (`planner.costs` has the model)."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assignor_bridge.planner.costs import (
    MIN_DENSITY,
    compute_factors,
    compute_log_slowness,
    predict_reports,
    predict_without_seconds,
    read_paces,
)
from assignor_bridge.planner.paces import update_paces
from assignor_bridge.planner.robust_statistics import (
    MIN_WORK,
    SIGMAS,
    compute_medians,
    update_means,
)
from checkpoints.sticky_state import Pace

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints, MicroBatch
    from assignor_bridge.planner.table import PartitionTable
    from checkpoints.sticky_state import Common, StickyState

#: Batches in a running mean. With more, drifting costs are followed late; with fewer, noise is.
_MAX_BATCHES = 8.0
#: A report of this duration has half weight. Without it, waits for a poll are taken for costs.
_HALF_TRUST_S = 0.1
#: Lower bound of the noise. Without it, two equal reports are never contradicted.
_MIN_NOISE = 0.02
#: With as many reports, half of their common change is applied. Without it, a lone report never
#: changes its partition's cost.
_HALF_COMMON_REPORTS = 4.0
#: Partitions that may lie on a line by chance. Without it, few costs look like a fixed cost.
_FREE_PARTITIONS = 4
#: Maximum weight of a batch in an average of bytes or density. With 1, averages are not smoothed.
_MAX_GAIN = 0.6
#: This many records have half of that weight. Without it, one record counts like thousands.
_HALF_RECORDS = 5.0
_MAX_LOG = 45.0  # of seconds; without it, absurd reports overflow


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


def learn(table: PartitionTable, batch: MicroBatch) -> LearningResult:
    """Update the state with the reports of a batch, and compare them with its predictions."""
    state, raw, line = table.state, batch.observed, table.report_line
    predicted_s = predict_reports(state, line, batch)
    is_count = (raw.records == 0) | (raw.records >= 1)  # values between 0 and 1 overflow quotients
    usable = (line >= 0) & is_count & (raw.records < 2**63)
    offsets = np.where(usable & (raw.offsets > 0) & np.isfinite(raw.offsets), raw.offsets, 0.0)
    density = np.clip(raw.records / np.maximum(offsets, 1.0), MIN_DENSITY, 1.0)
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
            work, _ = predict_without_seconds(state, reports.line, reports.records)
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
    paces = update_paces(paces, line, executor, error - shift, trust, common=common)
    # 4. Partitions. An error of seconds is one of records divided by their share of the seconds.
    change = compute_log_slowness(paces) - log_slowness
    state = _doubt_costs(state, reports, error - shift, trust, change)
    seconds *= np.exp(-shift - change[executor])
    share = np.maximum(1 - common.fixed / expected, MIN_WORK)
    positive = np.log(np.maximum(seconds - common.fixed, MIN_WORK) / (expected * share))
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
    total = np.maximum(np.bincount(line, trust, lines), MIN_WORK)
    sigmas = np.bincount(line, trust * absorbed, lines) / total / state.common.noise
    return replace(state, evidence=state.evidence / (1 + state.evidence * sigmas**2))


def _update_fixed(common: Common, line: Ints, records: Floats, seconds: Floats) -> Common:
    """Fit seconds = fixed + slope x records over partitions and batches.

    `common.fit` has the running means of the products of (1, records, seconds), each divided by the
    expected seconds. Pieces are added up, because a costly partition has more, which would look
    like fixed costs. A fit of equally many records replaces only a fixed cost that it contradicts.
    """
    rows = np.flatnonzero(np.bincount(line))
    sums = [np.bincount(line, column)[rows] for column in (records, seconds)]
    columns = np.array([np.ones(len(rows)), *sums])
    fixed, slope, error = common.fixed, float(np.median(columns[2] / columns[1])), math.inf
    gain = max(1 / _MAX_BATCHES, 1 / (common.fit_batches + 1))
    for _ in range(3):  # the weights depend on the fit
        scaled = columns / (fixed + slope * columns[1])
        products = scaled @ scaled.T / len(rows)
        if common.fit:
            products = (1 - gain) * np.array(common.fit).reshape(3, 3) + gain * products
        fixed, slope, error = _solve(products, len(rows))
    fit, batches = tuple(products.ravel().tolist()), min(common.fit_batches + 1, _MAX_BATCHES)
    if max(fixed, abs(fixed - common.fixed)) <= SIGMAS * error:
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


def _update_costs(state: StickyState, line: Ints, log_cost: Floats, weight: Floats) -> StickyState:
    """Move the costs and the noise of partitions with reports, and center all costs."""
    columns = np.nan_to_num(np.array([state.cost, state.last_cost, state.evidence]))
    total = np.bincount(line, weight, len(state.topic)).astype(np.float64)
    lines = np.flatnonzero(total)
    before, total = columns[:, lines], total[lines]
    sample = np.bincount(line, weight * log_cost, len(state.topic))[lines] / total
    columns[:, lines] = update_means(before, sample, total, state.common.noise, _MAX_BATCHES)
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

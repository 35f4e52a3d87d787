"""Learn costs, executor slowness, records per offset, and bytes per record from read reports.

A report states how many seconds an executor took to read records of a partition. The error of the
prediction is divided between the parts of the model in `costs`. Errors are logarithms, so that 1:50
and 50:1 are equally far from 1. No single outlier moves a learned cost (docs/internals/planner.md).
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner import costs
from assignor_bridge.planner.evidence import SIGMA_PER_MAD, UsableReports, update_running_mean
from assignor_bridge.planner.pace import update_paces
from checkpoints.sticky_state import Pace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.planner.batch import Floats, Ints, MicroBatch
    from assignor_bridge.planner.table import PartitionTable
    from checkpoints.sticky_state import Common, StickyState

_HALF_TRUST_S = 0.1  # a report of this duration has half weight; shorter ones are mostly noise
_MAX_EVIDENCE = 4.0  # maximum good reports in a partition's mean
_HALF_COMMON_REPORTS = 4.0  # with this many reports, half of the common shift is applied
_HALF_TRUST_RECORDS = 5.0  # this many records move an average by half of `_MAX_GAIN`
_MAX_GAIN = 0.6  # maximum weight of a batch in an average of bytes or density
_MAX_LOG_SECONDS = 45.0  # maximum logarithm of seconds; a larger one is not a measurement
_FIXED_COSTS = np.append(0.0, 2.0 ** np.arange(21))  # candidates for a fixed cost, in records
_REPLACEMENT_RATIO = 0.9  # error ratio below which a candidate replaces the fixed cost in use
_EQUALLY_GOOD = 1.05  # use the smallest fixed cost with an error within this factor of the minimum
_START_RATIO = 0.8  # error ratio to the baseline below which the planner starts to use a model
_KEEP_RATIO = 0.95  # error ratio to the baseline up to which the planner keeps using a model
_INITIAL_ERROR = 0.25  # initial error of a model
_INITIAL_REPORTS = 4.0  # number of reports that the initial error is worth
_INITIAL_NOISE = 0.2  # initial standard deviation of a report's error
_MIN_NOISE = 0.01  # lower bound of that deviation
_MIN_GAIN = 0.2  # minimum weight of a batch in the running errors
_MAX_REPORTS = 1e6  # maximum number of reports in the running errors
_MAX_COMPARED_BATCHES = 10.0  # maximum number of batches in the comparison with records alone
_MAX_MODEL_ERROR = 0.5  # maximum error of a model in use, as `_measure_error` returns it
_MIN_IMPROVEMENT = 0.01  # minimum reduction of that error compared with records alone
_MAX_REPORT_ERROR = 1.5  # maximum error of a report; a larger error is reduced to this
_MAX_COMPARED_PARTITIONS = 500  # maximum number of partitions on which fixed costs are compared


def learn(table: PartitionTable, batch: MicroBatch) -> tuple[StickyState, float | None]:
    """Return the state after the reports of a batch, and the prediction error of these reports.

    1. Select the usable reports, and update records per offset and bytes per record.
    2. Compare the learned model with records alone. The prediction error is
       the sum of differences between predicted and reported times, over the total time.
    3. Update costs and paces.
    """
    # 1. Select reports, and update averages.
    old_state, raw = table.state, batch.observed
    columns = table.report_line, raw.executor, raw.records, raw.bytes, raw.seconds, raw.offsets
    is_count = (raw.records == 0) | (raw.records >= 1)  # values between 0 and 1 overflow quotients
    is_usable = (table.report_line >= 0) & is_count & (raw.records < 2**63)
    reports = UsableReports(*columns).only(is_usable)
    has_offsets = (reports.offsets > 0) & np.isfinite(reports.offsets)
    offsets = np.where(has_offsets, reports.offsets, 0.0)
    density = np.clip(reports.records / np.maximum(offsets, 1.0), costs.MIN_DENSITY, 1.0)
    with_bytes = reports.only((reports.records > 0) & (reports.bytes > 0) & (reports.bytes < 2**63))
    log_bytes = np.log(with_bytes.bytes / with_bytes.records)
    state = replace(
        old_state,
        density=_update_averages(old_state.density, reports.line, density, offsets),
        bytes=_update_averages(old_state.bytes, with_bytes.line, log_bytes, with_bytes.records),
    )
    has_seconds = (reports.seconds > 0) & np.isfinite(reports.seconds)
    timed_reports = reports.only(has_seconds & (reports.records > 0))
    if not len(timed_reports.line):
        return state, None
    log_slowness = costs.compute_log_slowness(costs.read_paces(state, raw.executors))
    # 2. Compare with records alone.
    error = None
    if old_state.batches and len(timed_reports.line) > 1:
        common, error = _compare_with_records(state, timed_reports, log_slowness)
        state = replace(state, common=common)
    # 3. Update the model.
    return _update_models(state, timed_reports, raw.executors, log_slowness), error


def _update_averages(column: Floats, line: Ints, values: Floats, weight: Floats) -> Floats:
    """Move averages towards the weighted mean of the reported values of their line, if any."""
    total = np.bincount(line, weight, len(column)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(line, weight * values, len(column)) / total
    gain = _MAX_GAIN * total / (total + _HALF_TRUST_RECORDS)
    updated = np.where(np.isnan(column), mean, column + gain * (mean - column))
    return np.where(total > 0, updated, column)


def _compare_with_records(
    state: StickyState, reports: UsableReports, log_slowness: Floats
) -> tuple[Common, float]:
    """Decide whether to rely on the learned model, and return the error of the last prediction."""
    common = state.common
    seconds = np.minimum(reports.seconds, math.exp(_MAX_LOG_SECONDS))
    work, basis = costs.predict_work(state, reports.line, reports.records)
    model_error = _measure_error(work * np.exp(log_slowness)[reports.executor], seconds)
    base_error = _measure_error(reports.records, seconds)
    error = model_error if basis == "bytes" or common.relied_on else base_error
    if basis != "seconds":  # no cost was learned yet
        return common, error
    # The first comparison starts from equal errors.
    old_errors = (common.missed, common.missed_alike) if common.compared else (base_error,) * 2
    trust = float(_compute_trust(np.log(seconds.sum())))
    gain = trust * max(_MIN_GAIN, 1 / (common.compared + 1.5))
    model_error = old_errors[0] + gain * (model_error - old_errors[0])
    base_error = old_errors[1] + gain * (base_error - old_errors[1])
    max_ratio = _KEEP_RATIO if common.relied_on else _START_RATIO
    relied_on = model_error < min(max_ratio * base_error - _MIN_IMPROVEMENT, _MAX_MODEL_ERROR)
    compared_batches = min(common.compared + trust, _MAX_COMPARED_BATCHES)
    common = common._replace(
        missed=model_error, missed_alike=base_error, compared=compared_batches, relied_on=relied_on
    )
    return common, error


def _measure_error(expected: Floats, seconds: Floats) -> float:
    """Return the sum of differences over the total time, after scaling to equal totals."""
    scaled = expected * (seconds.sum() / expected.sum())
    return float(np.abs(scaled - seconds).sum() / seconds.sum())


def _update_models(
    before: StickyState, reports: UsableReports, executors: Sequence[str], log_slowness: Floats
) -> StickyState:
    """Divide each report's error between the common cost, its executor, and its partition.

    1. Compute each report's error, and its weight.
    2. Select the fixed cost, and whether costs per partition are used.
    3. Update the common cost, executor paces, and partition costs relative to the median.
    """
    # 1. Compute errors and weights.
    old_common, line, executor = before.common, reports.line, reports.executor
    log_seconds = np.clip(np.log(reports.seconds), -_MAX_LOG_SECONDS, _MAX_LOG_SECONDS)
    log_seconds -= log_slowness[executor]
    columns = np.array([before.cost, before.last_cost, before.evidence])
    has_cost = ~np.isnan(before.cost)[line]
    cost = np.where(has_cost, before.cost[line], 0.0)
    log_cost = log_seconds - np.log(old_common.fixed + reports.records)
    level = old_common.level if math.isfinite(old_common.level) else float(np.median(log_cost))
    error = log_cost - level - cost
    error -= _estimate_common_shift(error)
    # A stall inflates a report, so the predicted time limits the report's weight.
    trust = _compute_trust(np.minimum(log_seconds, log_seconds - error))
    # 2. Select the model; a new fixed cost resets the costs that were learned with the old one.
    common = _select_model(old_common, reports, log_seconds, error[has_cost], trust[has_cost])
    if common.fixed != old_common.fixed:
        log_cost = log_seconds - np.log(common.fixed + reports.records)
        level, cost = float(np.median(log_cost)), np.zeros(len(line))
        columns = np.full_like(columns, np.nan)
    # 3. Update the common cost, the paces, and the costs.
    level += _estimate_common_shift(log_cost - level - cost)
    log_cost -= level
    state = replace(before, common=common, cost=columns[0], evidence=columns[2])
    noise = common.noise / math.sqrt(float(np.mean(trust)) + 1e-9)
    excess = log_cost - costs.compute_factors(state)[line]
    paces = costs.read_paces(before, executors)
    paces = update_paces(paces, log_slowness, reports, excess, noise=noise, own_costs=common.own)
    pace_change = costs.compute_log_slowness(paces) - log_slowness
    weight = np.bincount(line, trust).astype(np.float64)
    reported = np.flatnonzero(weight)
    weighted_cost = np.bincount(line, trust * (log_cost - pace_change[executor]))
    sample = weighted_cost[reported] / weight[reported]
    columns[:, reported] = update_running_mean(
        np.nan_to_num(columns[:, reported]), sample, weight[reported], common.noise, _MAX_EVIDENCE
    )
    center = float(np.median(columns[0][~np.isnan(columns[0])]))
    columns[:2] -= center
    level = float(np.clip(level + center, -_MAX_LOG_SECONDS, _MAX_LOG_SECONDS))
    return replace(
        state,
        common=common._replace(level=level),
        paces={**before.paces, **dict(zip(executors, starmap(Pace, paces.tolist()), strict=True))},
        cost=columns[0],
        last_cost=columns[1],
        evidence=columns[2],
    )


def _select_model(
    common: Common, reports: UsableReports, log_seconds: Floats, own_error: Floats, trust: Floats
) -> Common:
    """Select the fixed cost, and whether costs per partition are used, by running errors.

    1. Add up reports by partition: a costly partition has more pieces, which look like fixed costs.
    2. Update the error of each candidate for the fixed cost.
    3. Update the error of costs per partition, and the noise.
    4. Replace the fixed cost if another is clearly better; decide whether to use partition costs.
    """
    # 1. Add up by partition. `log_seconds` is the time on a usual executor.
    lines = np.flatnonzero(np.bincount(reports.line))
    log_sums = np.log(np.bincount(reports.line, np.exp(log_seconds))[lines])
    records = np.bincount(reports.line, reports.records)[lines]
    errors = np.full(len(_FIXED_COSTS) + 1, _INITIAL_ERROR)
    noise, previous_reports = _INITIAL_NOISE, _INITIAL_REPORTS
    if len(common.errors) == len(errors):
        errors, noise, previous_reports = np.array(common.errors), common.noise, common.reports
    # 2. Update the errors of fixed costs.
    partitions = len(lines)
    gain = max(_MIN_GAIN, partitions / (partitions + previous_reports)) if partitions > 1 else 0.0
    sample_slice = slice(None, None, -(-partitions // _MAX_COMPARED_PARTITIONS))
    distance = log_sums[sample_slice] - np.log(_FIXED_COSTS[:, None] + records[sample_slice])
    distance -= np.median(distance, axis=1)[:, None]
    new_errors = np.mean(_compute_errors(distance, _compute_trust(log_sums[sample_slice])), axis=1)
    errors[:-1] += gain * (new_errors - errors[:-1])
    # 3. Update the error of costs per partition.
    if len(own_error):
        own_errors = _compute_errors(own_error, trust)
        gain *= min(1.0, len(own_error) / partitions)
        errors[-1] += gain * (float(np.mean(own_errors)) - errors[-1])
        noise += gain * (SIGMA_PER_MAD * float(np.median(own_errors)) - noise)
    # 4. Select.
    best_index = int(np.argmax(errors[:-1] <= _EQUALLY_GOOD * errors[:-1].min()))
    used_index = min(int(np.searchsorted(_FIXED_COSTS, common.fixed)), len(_FIXED_COSTS) - 1)
    if errors[best_index] < _REPLACEMENT_RATIO * errors[used_index]:
        used_index = best_index
    max_ratio = _KEEP_RATIO if common.own else _START_RATIO
    return common._replace(
        fixed=float(_FIXED_COSTS[used_index]),
        own=bool(errors[-1] < max_ratio * errors[used_index]),
        noise=max(noise, _MIN_NOISE),
        errors=tuple(errors.tolist()),
        reports=min(previous_reports + partitions, _MAX_REPORTS),
    )


def _compute_errors(error: Floats, trust: Floats) -> Floats:
    """Return absolute errors, scaled down for short reports, which have larger errors."""
    return np.asarray(np.sqrt(trust) * np.minimum(np.abs(error), _MAX_REPORT_ERROR))


def _compute_trust(log_seconds: Floats) -> Floats:
    """Return the weight of each report by its duration, from 0 to 1."""
    seconds = np.exp(log_seconds)
    return np.asarray(seconds / (seconds + _HALF_TRUST_S))


def _estimate_common_shift(error: Floats) -> float:
    """Return the median error, shrunk if there are few reports."""
    return float(np.median(error)) * len(error) / (len(error) + _HALF_COMMON_REPORTS)

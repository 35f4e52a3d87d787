"""Learning: what the read reports say of costs, of executors and of the records behind offsets.

A report says that reading `records` of a partition on an executor took `seconds`. That is shared
between the parts of the model in `costs`, in logarithms, so that 1:50 and 50:1 are equally far from
1. Nothing is believed because it was seen once; docs/internals/planner.md has the rules.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.costs import (
    LEAST_DENSITY,
    compute_factors,
    compute_log_slowness,
    predict_work,
    read_paces,
)
from assignor_bridge.planner.evidence import (
    SIGMAS_PER_MEDIAN_DISTANCE,
    UsableReports,
    update_running_mean,
)
from assignor_bridge.planner.pace import update_paces
from checkpoints.sticky_state import Pace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.planner.batch import Floats, Ints, MicroBatch
    from assignor_bridge.planner.table import PartitionTable
    from checkpoints.sticky_state import Common, StickyState

#: A report of so many seconds counts half: what is shorter is mostly noise.
_HALF_TRUST_S = 0.1
#: A partition's mean rests on so many reports at most.
_MOST_EVIDENCE = 4.0
#: So many reports in a batch move the common cost half of the way.
_HALF_COMMON_REPORTS = 4.0
#: So many records move an average of bytes or density half as far as they could.
_HALF_TRUST_RECORDS, _GAIN = 5.0, 0.6
#: Logarithms beyond this are not measurements.
_ABSURD = 45.0
#: What a range may cost beside its records, in records; another one must be better by this factor.
_FIXED, _BETTER = np.append(0.0, 2.0 ** np.arange(21)), 0.9
#: Fixed costs whose error is within this factor of the least are equally good, and the smallest is
#: taken: all that are far beyond the records of a range say alike that records cost nothing.
_AS_GOOD = 1.05
#: Something learned is used from this share of the error without it on, and up to the other.
_CLEARLY_BETTER, _HARDLY_BETTER = 0.8, 0.95
#: The error of a rule that was never tried, for how many reports it stands; noise at first.
_UNTRIED, _UNTRIED_REPORTS, _UNTRIED_NOISE = 0.25, 4.0, 0.2
_LEAST_NOISE = 0.01
#: A batch moves errors so far at least, and more while there were few before it: errors fade.
_LEAST_GAIN, _MOST_REPORTS, _MOST_COMPARED = 0.2, 1e6, 10.0
#: What expects more than this share of the time elsewhere is of no use, however bad records are;
#: and what expects so much less elsewhere than records do gains nothing.
_USELESS, _NO_GAIN = 0.5, 0.01
#: An error beyond this is as bad as any; and so many reports are enough to tell rules apart.
_WORST, _ENOUGH = 1.5, 500


def learn(table: PartitionTable, batch: MicroBatch) -> tuple[StickyState, float | None]:
    """Return what is known after the reports of a batch, and how well they were foreseen.

    That is the share of the reported time that was expected elsewhere; None where nothing was.
    """
    before, seen = table.state, batch.observed
    columns = table.reported, seen.executor, seen.records, seen.bytes, seen.seconds, seen.offsets
    counts = (seen.records == 0) | (seen.records >= 1)  # what is between overflows quotients
    usable = (table.reported >= 0) & counts & (seen.records < 2**63)
    reports = UsableReports(*columns).only(usable)
    covers = (reports.offsets > 0) & np.isfinite(reports.offsets)
    offsets = np.where(covers, reports.offsets, 0.0)
    density = np.clip(reports.records / np.maximum(offsets, 1.0), LEAST_DENSITY, 1.0)
    weighed = reports.only((reports.records > 0) & (reports.bytes > 0) & (reports.bytes < 2**63))
    size = np.log(weighed.bytes / weighed.records)
    now = replace(
        before,
        density=_update_averages(before.density, reports.line, density, offsets),
        bytes=_update_averages(before.bytes, weighed.line, size, weighed.records),
    )
    took_time = (reports.seconds > 0) & np.isfinite(reports.seconds)
    timed = reports.only(took_time & (reports.records > 0))
    if not len(timed.line):
        return now, None
    slow = compute_log_slowness(read_paces(now, seen.executors))
    error = None
    if before.batches and len(timed.line) > 1:
        common, error = _compare_with_record_baseline(now, timed, slow)
        now = replace(now, common=common)
    return _update_models(now, timed, seen.executors, slow), error


def _update_averages(column: Floats, line: Ints, values: Floats, weight: Floats) -> Floats:
    """Move averages towards the mean of the reported values, if any, of so much weight."""
    total = np.bincount(line, weight, len(column)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(line, weight * values, len(column)) / total
    gain = _GAIN * total / (total + _HALF_TRUST_RECORDS)
    moved = np.where(np.isnan(column), mean, column + gain * (mean - column))
    return np.where(total > 0, moved, column)


def _compare_with_record_baseline(
    learned: StickyState, reports: UsableReports, slow: Floats
) -> tuple[Common, float]:
    """Compare all that was learned with records alike; and say how far off the last plan was."""
    common = learned.common
    took = np.minimum(reports.seconds, math.exp(_ABSURD))
    work, basis = predict_work(learned, reports.line, reports.records)
    missed = _measure_misplaced_share(work * np.exp(slow)[reports.executor], took)
    missed_alike = _measure_misplaced_share(reports.records, took)
    error = missed if basis == "bytes" or common.relied_on else missed_alike
    if basis != "seconds":  # nothing was learned yet
        return common, error
    # At first, as if both had been as far off before.
    before = (common.missed, common.missed_alike) if common.compared else (missed_alike,) * 2
    trust = float(_compute_trust(np.log(took.sum())))
    gain = trust * max(_LEAST_GAIN, 1 / (common.compared + 1.5))
    missed = before[0] + gain * (missed - before[0])
    missed_alike = before[1] + gain * (missed_alike - before[1])
    limit = _HARDLY_BETTER if common.relied_on else _CLEARLY_BETTER
    relied_on = missed < min(limit * missed_alike - _NO_GAIN, _USELESS)
    compared = min(common.compared + trust, _MOST_COMPARED)
    return common._replace(
        missed=missed, missed_alike=missed_alike, compared=compared, relied_on=relied_on
    ), error


def _measure_misplaced_share(expected: Floats, took: Floats) -> float:
    """Return the share of the time that was expected elsewhere, if all of it is as long."""
    scaled = expected * (took.sum() / expected.sum())
    return float(np.abs(scaled - took).sum() / took.sum())


def _update_models(
    before: StickyState, reports: UsableReports, executors: Sequence[str], slow: Floats
) -> StickyState:
    """Share what was reported between all, executors (`slow`: as believed so far), partitions."""
    line, executor = reports.line, reports.executor
    times = np.clip(np.log(reports.seconds), -_ABSURD, _ABSURD) - slow[executor]
    costs = np.array([before.cost, before.last_cost, before.evidence])
    known = ~np.isnan(before.cost)[line]
    cost = np.where(known, before.cost[line], 0.0)
    over = times - np.log(before.common.fixed + reports.records)
    level = before.common.level if math.isfinite(before.common.level) else float(np.median(over))
    off = over - level - cost
    off -= _estimate_common_shift(off)
    # A stall makes a report slow, not informative: it counts by the time that was expected.
    trust = _compute_trust(np.minimum(times, times - off))
    common = _select_model(before.common, reports, times, off[known], trust[known])
    if common.fixed != before.common.fixed:  # costs belong to the fixed part: they begin anew
        over = times - np.log(common.fixed + reports.records)
        level, cost = float(np.median(over)), np.zeros(len(line))
        costs = np.full_like(costs, np.nan)
    level += _estimate_common_shift(over - level - cost)
    over -= level
    now = replace(before, common=common, cost=costs[0], evidence=costs[2])
    chance = common.noise / math.sqrt(float(np.mean(trust)) + 1e-9)
    gap = over - compute_factors(now)[line]
    paces = update_paces(read_paces(before, executors), slow, reports, gap, chance, common.own)
    shift = compute_log_slowness(paces) - slow
    weight = np.bincount(line, trust).astype(np.float64)
    seen = np.flatnonzero(weight)
    report = np.bincount(line, trust * (over - shift[executor]))[seen] / weight[seen]
    costs[:, seen] = update_running_mean(
        np.nan_to_num(costs[:, seen]), report, weight[seen], common.noise, _MOST_EVIDENCE
    )
    middle = float(np.median(costs[0][~np.isnan(costs[0])]))  # costs are relative to the usual one
    costs[:2] -= middle
    return replace(
        now,
        common=common._replace(level=float(np.clip(level + middle, -_ABSURD, _ABSURD))),
        paces={**before.paces, **dict(zip(executors, starmap(Pace, paces.tolist()), strict=True))},
        cost=costs[0],
        last_cost=costs[1],
        evidence=costs[2],
    )


def _select_model(
    common: Common, reports: UsableReports, times: Floats, off: Floats, off_trust: Floats
) -> Common:
    """Let the rules compete, by what was reported of a batch.

    Parameters
    ----------
    times
        Logarithm of the seconds of each report, on a usual executor.
    off, off_trust
        How far reports are from what those of their partition before say, and how much they count.
    """
    # By partition, not by piece: what is costly was cut, and costs would look like a fixed part.
    whole = np.flatnonzero(np.bincount(reports.line))
    took = np.log(np.bincount(reports.line, np.exp(times))[whole])
    records = np.bincount(reports.line, reports.records)[whole]
    errors = np.full(len(_FIXED) + 1, _UNTRIED)
    noise, before = _UNTRIED_NOISE, _UNTRIED_REPORTS
    if len(common.errors) == len(errors):
        errors, noise, before = np.array(common.errors), common.noise, common.reports
    count = len(whole)
    gain = max(_LEAST_GAIN, count / (count + before)) if count > 1 else 0.0
    some = slice(None, None, -(-count // _ENOUGH))
    apart = took[some] - np.log(_FIXED[:, None] + records[some])
    apart -= np.median(apart, axis=1)[:, None]
    errors[:-1] += gain * (
        np.mean(_weigh_errors(apart, _compute_trust(took[some])), axis=1) - errors[:-1]
    )
    if len(off):
        missed = _weigh_errors(off, off_trust)
        gain *= min(1.0, len(off) / count)
        errors[-1] += gain * (float(np.mean(missed)) - errors[-1])
        noise += gain * (SIGMAS_PER_MEDIAN_DISTANCE * float(np.median(missed)) - noise)
    best = int(np.argmax(errors[:-1] <= _AS_GOOD * errors[:-1].min()))
    in_use = min(int(np.searchsorted(_FIXED, common.fixed)), len(_FIXED) - 1)
    if errors[best] < _BETTER * errors[in_use]:
        in_use = best
    limit = _HARDLY_BETTER if common.own else _CLEARLY_BETTER
    return common._replace(
        fixed=float(_FIXED[in_use]),
        own=bool(errors[-1] < limit * errors[in_use]),
        noise=max(noise, _LEAST_NOISE),
        errors=tuple(errors.tolist()),
        reports=min(before + count, _MOST_REPORTS),
    )


def _weigh_errors(off: Floats, trust: Floats) -> Floats:
    """Return errors, as large as those of long reports are."""
    return np.asarray(np.sqrt(trust) * np.minimum(np.abs(off), _WORST))


def _compute_trust(times: Floats) -> Floats:
    """Return how much reports of so long a time (a logarithm) count: from 0 to 1."""
    seconds = np.exp(times)
    return np.asarray(seconds / (seconds + _HALF_TRUST_S))


def _estimate_common_shift(gap: Floats) -> float:
    """Return what has changed for all partitions, as far as so many reports can tell."""
    return float(np.median(gap)) * len(gap) / (len(gap) + _HALF_COMMON_REPORTS)

"""Learning: what the read reports say of costs, of executors and of the records behind offsets.

A report says that reading `records` of a partition on an executor took `seconds`. That is shared
between the parts of the model in `costs`, in logarithms, so that 1:50 and 50:1 are equally far from
1. Nothing is believed because it was seen once; docs/planner.md says what counts and when.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from assignor_bridge.planner.costs import (
    GOOD_NOISE,
    LEAST_DENSITY,
    factors,
    log_slowness,
    paces_of,
    work_of,
)
from checkpoints.sticky_state import Pace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from assignor_bridge.planner.batch import Batch, Flags, Floats, Ints
    from assignor_bridge.planner.table import PartitionTable
    from checkpoints.sticky_state import Common, StickyState

#: A report of so many seconds counts half: what is shorter is mostly noise.
_HALF_TRUST_S = 0.1
#: A partition's mean rests on so many reports at most, an executor's on more: it has to follow.
_MOST_EVIDENCE, _MOST_EVIDENCE_OF_EXECUTOR = 4.0, 8.0
#: Standard deviations from which a report is far off; and never less than this.
_FAR, _LEAST_FAR = 3.0, 0.25
#: So many reports in a batch move the common cost half of the way.
_HALF_COMMON_REPORTS = 4.0
#: So many records move an average of bytes or density half as far as they could.
_HALF_TRUST_RECORDS, _GAIN = 5.0, 0.6
#: No executor counts as slower or faster than this; logarithms beyond that are not measurements.
_MOST_SLOWNESS, _ABSURD = math.log(20), 45.0
#: What a range may cost beside its records, in records; another one must be better by this factor.
_FIXED, _BETTER = np.append(0.0, 2.0 ** np.arange(21)), 0.9
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
#: Reports that an executor must have given before what they have in common is judged.
_LEAST_REPORTS = 3
#: Standard deviation for a median distance, and how many reports one is worth in a median, as
#: against a mean (2 / pi): if noise is normal.
_OF_DISTANCE, _OF_MEDIAN = 1.48, 0.64


class _Reports(NamedTuple):
    """Columns of what was reported of known partitions, by line."""

    line: NDArray[Any]
    executor: NDArray[Any]
    records: NDArray[Any]
    bytes: NDArray[Any]
    seconds: NDArray[Any]
    offsets: NDArray[Any]

    def only(self, which: Flags) -> _Reports:
        rows = np.flatnonzero(which)
        return _Reports(*(column[rows] for column in self))


def learn(table: PartitionTable, batch: Batch) -> tuple[StickyState, float | None]:
    """Return what is known after the reports of a batch, and how well they were foreseen.

    That is the share of the reported time that was expected elsewhere; None where nothing was.
    """
    before, seen = table.state, batch.observed
    columns = table.reported, seen.executor, seen.records, seen.bytes, seen.seconds, seen.offsets
    counts = (seen.records == 0) | (seen.records >= 1)  # what is between overflows quotients
    usable = (table.reported >= 0) & counts & (seen.records < 2**63)
    reports = _Reports(*columns).only(usable)
    covers = (reports.offsets > 0) & np.isfinite(reports.offsets)
    offsets = np.where(covers, reports.offsets, 0.0)
    density = np.clip(reports.records / np.maximum(offsets, 1.0), LEAST_DENSITY, 1.0)
    weighed = reports.only((reports.records > 0) & (reports.bytes > 0) & (reports.bytes < 2**63))
    size = np.log(weighed.bytes / weighed.records)
    now = replace(
        before,
        density=_averaged(before.density, reports.line, density, offsets),
        bytes=_averaged(before.bytes, weighed.line, size, weighed.records),
    )
    took_time = (reports.seconds > 0) & np.isfinite(reports.seconds)
    timed = reports.only(took_time & (reports.records > 0))
    if not len(timed.line):
        return now, None
    slow = log_slowness(paces_of(now, seen.executors))
    error = None
    if before.batches and len(timed.line) > 1:
        common, error = _relied(now, timed, slow)
        now = replace(now, common=common)
    return _shared_out(now, timed, seen.executors, slow), error


def _averaged(column: Floats, line: Ints, values: Floats, weight: Floats) -> Floats:
    """Move averages towards the mean of the reported values, if any, of so much weight."""
    total = np.bincount(line, weight, len(column)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(line, weight * values, len(column)) / total
    gain = _GAIN * total / (total + _HALF_TRUST_RECORDS)
    moved = np.where(np.isnan(column), mean, column + gain * (mean - column))
    return np.where(total > 0, moved, column)


def _relied(learned: StickyState, reports: _Reports, slow: Floats) -> tuple[Common, float]:
    """Compare all that was learned with records alike; and say how far off the last plan was."""
    common = learned.common
    took = np.minimum(reports.seconds, math.exp(_ABSURD))
    work, basis = work_of(learned, reports.line, reports.records)
    missed = _misplaced(work * np.exp(slow)[reports.executor], took)
    missed_alike = _misplaced(reports.records, took)
    error = missed if basis == "bytes" or common.relied_on else missed_alike
    if basis != "seconds":  # nothing was learned yet
        return common, error
    # At first, as if both had been as far off before.
    before = (common.missed, common.missed_alike) if common.compared else (missed_alike,) * 2
    trust = float(_trust(np.log(took.sum())))
    gain = trust * max(_LEAST_GAIN, 1 / (common.compared + 1.5))
    missed = before[0] + gain * (missed - before[0])
    missed_alike = before[1] + gain * (missed_alike - before[1])
    limit = _HARDLY_BETTER if common.relied_on else _CLEARLY_BETTER
    relied_on = missed < min(limit * missed_alike - _NO_GAIN, _USELESS)
    compared = min(common.compared + trust, _MOST_COMPARED)
    return common._replace(
        missed=missed, missed_alike=missed_alike, compared=compared, relied_on=relied_on
    ), error


def _misplaced(expected: Floats, took: Floats) -> float:
    """Return the share of the time that was expected elsewhere, if all of it is as long."""
    scaled = expected * (took.sum() / expected.sum())
    return float(np.abs(scaled - took).sum() / took.sum())


def _shared_out(
    before: StickyState, reports: _Reports, executors: Sequence[str], slow: Floats
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
    off -= _in_all(off)
    # A stall makes a report slow, not informative: it counts by the time that was expected.
    trust = _trust(np.minimum(times, times - off))
    common = _judged(before.common, reports, times, off[known], trust[known])
    if common.fixed != before.common.fixed:  # costs belong to the fixed part: they begin anew
        over = times - np.log(common.fixed + reports.records)
        level, cost = float(np.median(over)), np.zeros(len(line))
        costs = np.full_like(costs, np.nan)
    level += _in_all(over - level - cost)
    over -= level
    now = replace(before, common=common, cost=costs[0], evidence=costs[2])
    chance = common.noise / math.sqrt(float(np.mean(trust)) + 1e-9)
    gap = over - factors(now)[line]
    paces = _paced(paces_of(before, executors), slow, reports, gap, chance, common.own)
    shift = log_slowness(paces) - slow
    weight = np.bincount(line, trust).astype(np.float64)
    seen = np.flatnonzero(weight)
    report = np.bincount(line, trust * (over - shift[executor]))[seen] / weight[seen]
    costs[:, seen] = _followed(
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


def _judged(
    common: Common, reports: _Reports, times: Floats, off: Floats, off_trust: Floats
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
    errors[:-1] += gain * (np.mean(_missed(apart, _trust(took[some])), axis=1) - errors[:-1])
    if len(off):
        missed = _missed(off, off_trust)
        gain *= min(1.0, len(off) / count)
        errors[-1] += gain * (float(np.mean(missed)) - errors[-1])
        noise += gain * (_OF_DISTANCE * float(np.median(missed)) - noise)
    best = int(np.argmin(errors[:-1]))
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


def _missed(off: Floats, trust: Floats) -> Floats:
    """Return errors, as large as those of long reports are."""
    return np.asarray(np.sqrt(trust) * np.minimum(np.abs(off), _WORST))


def _trust(times: Floats) -> Floats:
    """Return how much reports of so long a time (a logarithm) count: from 0 to 1."""
    return np.asarray(1 / (1 + _HALF_TRUST_S / np.exp(times)))


def _in_all(gap: Floats) -> float:
    """Return what has changed for all partitions, as far as so many reports can tell."""
    return float(np.median(gap)) * len(gap) / (len(gap) + _HALF_COMMON_REPORTS)


def _paced(  # noqa: PLR0917
    before: Floats, slow: Floats, reports: _Reports, gap: Floats, chance: float, own: bool
) -> Floats:
    """Follow the pace of the executors.

    Parameters
    ----------
    before, slow
        What was known of the pace of each, and how slow it was believed to be.
    gap
        How much longer than expected each report is: a logarithm.
    own
        Whether costs of partitions are of use; they may have taken what is the executor's.
    """
    common, evidence = _in_common(reports.executor, gap, chance, len(before), own)
    shared = np.bincount(reports.line)[reports.line] > 1
    beside, direct = _beside_others(reports.only(shared), gap[shared], chance, len(before))
    total = evidence + direct
    seen, paces = np.flatnonzero(total), before.copy()
    slower = (slow + (common * evidence + beside * direct) / np.maximum(total, 1e-9))[seen]
    paces[seen] = _followed(
        before[seen].T, slower, total[seen], GOOD_NOISE, _MOST_EVIDENCE_OF_EXECUTOR
    ).T
    paces[:, :2] = np.clip(paces[:, :2], -_MOST_SLOWNESS, _MOST_SLOWNESS)
    return np.asarray(paces)


def _worth(noise: float) -> float:
    """Return how many good reports one is worth; the noise is more while costs are unknown."""
    return (GOOD_NOISE / max(GOOD_NOISE, noise)) ** 2


def _in_common(
    executor: Ints, gap: Floats, noise: float, count: int, own: bool
) -> tuple[Floats, Floats]:
    """Return how far each executor's reports lie off the others', and how many good ones say so."""
    middle, reports = _medians(executor, gap, count)
    judged = reports >= _LEAST_REPORTS
    if np.count_nonzero(judged) < 2:  # nothing to compare with
        return np.zeros(count), np.zeros(count)
    spread = _OF_DISTANCE * float(np.median(np.abs(gap - middle[executor])[judged[executor]]))
    relative = middle - np.median(middle[judged])
    noise = max(noise, spread)
    if own:  # costs of partitions may have taken the rest: less than chance says nothing
        judged &= np.abs(relative) * np.sqrt(reports) > noise
    return relative, np.where(judged, _OF_MEDIAN * reports * _worth(noise), 0.0)


def _beside_others(
    reports: _Reports, gap: Floats, noise: float, count: int
) -> tuple[Floats, Floats]:
    """Return how much slower each executor read partitions that others read in the same batch.

    The only direct evidence: same partition, same time, other executor.
    """
    pair, which = np.unique(reports.line * count + reports.executor, return_inverse=True)
    if len(pair) < 2:
        return np.zeros(count), np.zeros(count)
    off = np.bincount(which, gap) / np.bincount(which)
    _, which, readers = np.unique(pair // count, return_inverse=True, return_counts=True)
    compared = np.flatnonzero(readers[which] > 1)
    others = (np.bincount(which, off)[which] - off)[compared] / (readers[which] - 1)[compared]
    slower, pieces = _medians((pair % count)[compared], off[compared] - others, count)
    # One comparison does not say which of the two is the unusual one.
    evidence = np.where(pieces > 0, 2 * (pieces + 1) * _worth(noise), 0.0)
    return slower * pieces / (pieces + 1), evidence


def _medians(group: Ints, values: Floats, count: int) -> tuple[Floats, Ints]:
    """Return the median of the values of each group, 0 for one without any, and their number."""
    ranked = values[np.lexsort((values, group))]
    sizes = np.bincount(group, minlength=count)
    first = np.cumsum(sizes) - sizes
    some, middle = np.flatnonzero(sizes), np.zeros(count)
    low, high = first[some] + (sizes[some] - 1) // 2, first[some] + sizes[some] // 2
    middle[some] = (ranked[low] + ranked[high]) / 2
    return middle, sizes


def _followed(column: Floats, report: Floats, weight: Floats, chance: float, most: float) -> Floats:
    """Move running means towards reports, each worth `weight` good ones.

    A report far off the mean is not followed unless the one before was as far off on that side.

    Parameters
    ----------
    column
        Rows of the mean, the report before, and the evidence: how many good reports the mean rests
        on, `most` at most. Such rows are returned.
    chance
        Standard deviation of a good report.
    """
    mean, last, evidence = column
    with np.errstate(divide="ignore"):
        far = np.maximum(_LEAST_FAR, _FAR * chance * np.sqrt(1 / weight + 1 / evidence))
    off, off_before = report - mean, last - mean
    is_far = (evidence > 0) & (np.abs(off) > far)
    changed = is_far & (np.abs(off_before) > far) & (off * off_before > 0)
    gathered = np.minimum(evidence + weight, most)
    moved = mean + off * np.minimum(1.0, weight / gathered)
    mean = np.where(changed, (report + last) / 2, np.where(is_far, mean, moved))
    evidence = np.where(changed, np.minimum(weight, most), np.where(is_far, evidence, gathered))
    return np.array([mean, report, evidence])

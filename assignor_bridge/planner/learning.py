"""Learning: what the read reports say of costs, of executors and of the records behind offsets.

A report says that reading `records` of a partition on an executor took `seconds`. That is shared
between the parts of the model in `weights`, in logarithms, so that 1:50 and 50:1 are equally far
from 1:

- What a range costs beside its records, and whether partitions have costs of their own, is decided
  by what foresaw the reports of the batches before best; see `foresight`.
- What an executor's reports have in common is the executor's; see `slowness`.
- The rest is the partition's: a mean of its last reports, each counting by its time. One report far
  off changes nothing, two in a row that agree are a change.
- Offsets are no records (compaction, transaction markers): records an offset are learned as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assignor_bridge.planner.foresight import judge, misplaced, rely
from assignor_bridge.planner.slowness import GOOD_NOISE, beside_others, in_common
from assignor_bridge.planner.weights import (
    LEAST_DENSITY,
    factors,
    log_slowness,
    paces_of,
    work_of,
)
from checkpoints.sticky_state import Pace

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints
    from assignor_bridge.planner.ledger import Ledger
    from checkpoints.sticky_state import Common

#: A report of so many seconds counts half: what is shorter is mostly noise.
_HALF_TRUST_S = 0.1
#: A mean rests on so many reports at most: with more it would not follow.
_MOST_EVIDENCE = 4.0
#: Standard deviations from which a report is far off; and never less than this.
_FAR, _LEAST_FAR = 3.0, 0.25
#: So many reports in a batch move the common cost half of the way.
_HALF_COMMON_REPORTS = 4.0
#: So many records move an average of bytes or density half as far as they could.
_HALF_TRUST_RECORDS, _GAIN = 5.0, 0.6
#: No executor counts as slower or faster than this.
_MOST_SLOWNESS = math.log(20)
#: Logarithms beyond this are no measurements.
_ABSURD = 45.0


@dataclass(frozen=True, eq=False)
class Reports:
    """Columns of what was reported of known partitions, by line."""

    line: Ints
    executor: Ints
    records: Floats
    bytes: Floats
    seconds: Floats
    offsets: Floats

    def only(self, rows: Ints) -> Reports:
        """Give some of the rows."""
        return Reports(
            self.line[rows], self.executor[rows], self.records[rows], self.bytes[rows],
            self.seconds[rows], self.offsets[rows],
        )  # fmt: skip


def learn(ledger: Ledger) -> None:
    """Work the batch's reports into the ledger."""
    seen, line = ledger.batch.observed, ledger.reported
    every = Reports(line, seen.executor, seen.records, seen.bytes, seen.seconds, seen.offsets)
    usable = every.only(np.flatnonzero((line >= 0) & (seen.records >= 0) & (seen.records < 2**63)))
    _learn_density(ledger, usable)
    _learn_bytes(ledger, usable.only(np.flatnonzero((usable.records > 0) & (usable.bytes > 0))))
    good = (usable.records > 0) & (usable.seconds > 0) & np.isfinite(usable.seconds)
    timed = usable.only(np.flatnonzero(good))
    if len(timed.line):
        paces = paces_of(ledger, seen.executors)
        slow = log_slowness(paces)
        ledger.common = _compared(ledger, timed, slow)
        _learn_seconds(ledger, timed, paces, slow)


def _compared(ledger: Ledger, reports: Reports, slow: Floats) -> Common:
    """Compare what was expected with what was reported; notes how far off the last plan was."""
    common = ledger.common
    if not ledger.before.batches or len(reports.line) < 2:
        return common
    took = np.minimum(reports.seconds, math.exp(_ABSURD))
    work, basis = work_of(ledger, reports.line, reports.records)
    missed = misplaced(work * np.exp(slow)[reports.executor], took)
    missed_alike = misplaced(reports.records, took)
    relied_on = basis == "bytes" or common.relied_on
    ledger.prediction_error = missed if relied_on else missed_alike
    if basis != "seconds":  # nothing was learned yet
        return common
    return rely(common, missed, missed_alike, float(took.sum()))


def _learn_density(ledger: Ledger, reports: Reports) -> None:
    """Learn records an offset."""
    good = (reports.offsets > 0) & np.isfinite(reports.offsets)
    lines = len(ledger.key)
    total = np.bincount(reports.line[good], reports.offsets[good], lines).astype(np.float64)
    read = np.bincount(reports.line[good], reports.records[good], lines)
    with np.errstate(invalid="ignore"):
        ratio = np.clip(read / total, LEAST_DENSITY, 1.0)
    _move(ledger.density, ratio, total)


def _learn_bytes(ledger: Ledger, reports: Reports) -> None:
    """Learn the logarithm of bytes a record."""
    lines = len(ledger.key)
    records = np.bincount(reports.line, reports.records, lines).astype(np.float64)
    size = np.log(reports.bytes / reports.records)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(reports.line, reports.records * size, lines) / records
    _move(ledger.bytes, mean, records)


def _move(column: Floats, towards: Floats, records: Floats) -> None:
    """Move averages towards what was seen in so many records, if any."""
    gain = np.where(np.isnan(column), 1.0, _GAIN * records / (records + _HALF_TRUST_RECORDS))
    start = np.where(np.isnan(column), towards, column)
    column[:] = np.where(records > 0, start + gain * (towards - start), column)


def _learn_seconds(ledger: Ledger, reports: Reports, paces: Floats, slow: Floats) -> None:
    """Share what was reported between all, executors and partitions.

    Parameters
    ----------
    paces, slow
        What was known of the pace of the reports' executors, and believed of it.
    """
    line, executor = reports.line, reports.executor
    times = np.clip(np.log(reports.seconds), -_ABSURD, _ABSURD) - slow[executor]
    before = ledger.common
    known = ~np.isnan(ledger.cost)[line]
    cost = np.where(known, ledger.cost[line], 0.0)
    over = times - np.log(before.fixed + reports.records)
    level = before.level if math.isfinite(before.level) else float(np.median(over))
    off = over - level - cost
    off -= _in_all(off)
    # A hiccup makes a report long, not telling: it counts by the time that was expected.
    trust = _trust(np.minimum(times, times - off))
    common = _judged(before, reports, times, off[known], trust[known])
    if common.fixed != before.fixed:  # costs were told from another fixed part: they begin anew
        over = times - np.log(common.fixed + reports.records)
        level, cost = float(np.median(over)), np.zeros(len(line))
        for column in (ledger.cost, ledger.last_cost, ledger.evidence):
            column[:] = np.nan
    level += _in_all(over - level - cost)
    ledger.common = common._replace(level=level)
    over -= level
    chance = common.noise / math.sqrt(float(np.mean(trust)) + 1e-9)
    gap = over - factors(ledger)[line]
    shared = np.bincount(line)[line] > 1
    evidence = _slower(ledger, reports, np.flatnonzero(shared), gap, chance)
    shift = _learn_slowness(ledger, paces, slow, evidence)
    # What was taken for the cost of partitions that only this executor reads was its slowness.
    alone = np.flatnonzero(~shared & (evidence.direct > evidence.common)[executor])
    ledger.cost[line[alone]] -= shift[executor[alone]]
    ledger.last_cost[line[alone]] -= shift[executor[alone]]
    _learn_costs(ledger, line, over - shift[executor], trust)


def _judged(common: Common, reports: Reports, times: Floats, off: Floats, trust: Floats) -> Common:
    """Let the rules compete: by partition, not by piece.

    What is costly was cut into small pieces: costs would look like a fixed part.
    """
    whole = np.flatnonzero(np.bincount(reports.line))
    took = np.log(np.bincount(reports.line, np.exp(times))[whole])
    records = np.bincount(reports.line, reports.records)[whole].astype(np.float64)
    return judge(common, took, records, _trust(took), off, trust)


def _trust(times: Floats) -> Floats:
    """Say how much reports of so long a time (a logarithm) count: from 0 to 1."""
    return np.asarray(1 / (1 + _HALF_TRUST_S / np.exp(times)))


def _in_all(gap: Floats) -> float:
    """Give what has changed for all partitions, as far as so many reports can tell."""
    return float(np.median(gap)) * len(gap) / (len(gap) + _HALF_COMMON_REPORTS)


class _Slower(NamedTuple):
    """How much slower executors were than believed, and how many good reports say so."""

    by: Floats
    common: Floats
    direct: Floats


def _slower(ledger: Ledger, reports: Reports, shared: Ints, gap: Floats, chance: float) -> _Slower:
    """Compare the executors; `shared` are reports of partitions that several of them read."""
    line, executor, count = reports.line, reports.executor, len(ledger.batch.observed.executors)
    by, common = in_common(executor, gap, chance, count, ledger.common.own)
    beside, direct = beside_others(line[shared], executor[shared], gap[shared], chance, count)
    with np.errstate(invalid="ignore"):
        return _Slower((by * common + beside * direct) / (common + direct), common, direct)


def _learn_slowness(ledger: Ledger, paces: Floats, slow: Floats, slower: _Slower) -> Floats:
    """Follow the pace of the executors; return by how much what is believed of it changed."""
    names, evidence = ledger.batch.observed.executors, slower.common + slower.direct
    some = np.flatnonzero(evidence)
    paces[some] = followed(
        paces[some].T, (slow + slower.by)[some], evidence[some], GOOD_NOISE, 2 * _MOST_EVIDENCE
    ).T
    paces[:, :2] = np.clip(paces[:, :2], -_MOST_SLOWNESS, _MOST_SLOWNESS)
    present = {e.id for e in ledger.batch.executors}
    kept = {name: pace for name, pace in ledger.paces.items() if name in present}
    ledger.paces = kept | dict(zip(names, map(Pace._make, paces.tolist()), strict=True))
    return np.asarray(log_slowness(paces) - slow)


def _learn_costs(ledger: Ledger, line: Ints, over: Floats, trust: Floats) -> None:
    """Move the factors of the partitions towards their reports."""
    weight = np.bincount(line, trust).astype(np.float64)
    seen = np.flatnonzero(weight)
    weight = weight[seen]
    report = np.bincount(line, trust * over)[seen] / weight
    columns = ledger.cost, ledger.last_cost, ledger.evidence
    before = np.nan_to_num([column[seen] for column in columns])
    after = followed(before, report, weight, ledger.common.noise, _MOST_EVIDENCE)
    for column, values in zip(columns, after, strict=True):
        column[seen] = values
    # Costs are told from the usual one, so it has to stay that.
    middle = float(np.median(ledger.cost[~np.isnan(ledger.cost)]))
    ledger.cost -= middle
    ledger.last_cost -= middle
    level = float(np.clip(ledger.common.level + middle, -_ABSURD, _ABSURD))
    ledger.common = ledger.common._replace(level=level)


def followed(column: Floats, report: Floats, weight: Floats, chance: float, most: float) -> Floats:
    """Move running means towards reports, each worth `weight` good ones.

    A report far off the mean is not followed unless the one before was as far off on that side.

    Parameters
    ----------
    column
        Rows of the mean, the report before, and the evidence: how many good reports `mean` rests
        on, `most` at most. The result is such rows again.
    chance
        Standard deviation of a good report.
    """
    mean, last, evidence = column
    first = evidence == 0
    with np.errstate(divide="ignore"):
        far = np.maximum(_LEAST_FAR, _FAR * chance * np.sqrt(1 / weight + 1 / evidence))
    off, off_before = report - mean, last - mean
    is_far = ~first & (np.abs(off) > far)
    changed = is_far & (np.abs(off_before) > far) & (off * off_before > 0)
    gathered = np.minimum(evidence + weight, most)
    step = np.minimum(1.0, weight / gathered)
    moved = np.where(is_far, mean, mean + off * step)
    mean = np.where(changed, (report + last) / 2, moved)
    evidence = np.where(changed, np.minimum(weight, most), np.where(is_far, evidence, gathered))
    return np.array([mean, report, evidence])

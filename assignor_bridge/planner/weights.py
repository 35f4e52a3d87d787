"""Weights: how long reading each range will take, learned from what the readers report.

A report says that reading `records` of a partition on an executor took `seconds`. The model is

    seconds = (fixed + records) x cost x (the partition's factor) x (the executor's slowness)

in logarithms, so that 1:50 and 50:1 are equally far from 1:

- `fixed`, what a range costs beside its records, and whether partitions have costs of their own is
  decided by what foresaw the reports of the batches before best; see `foresight`.
- What an executor's reports have in common is the executor's, as far as `slowness` believes it.
- The rest is the partition's: a mean of its last reports, each counting by its time. One report far
  off changes nothing, two in a row that agree are a change. Where costs of their own are of use to
  the stream they count but for the part that noise may be; elsewhere only a partition counts that
  stands out by several standard errors.
- Offsets are no records (compaction, transaction markers): records an offset are learned as well.

A partition without reports of its own has the factor of its topic, else of all. While no seconds
are known, a record weighs as much as its bytes, and else 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from assignor_bridge.planner.foresight import judge
from assignor_bridge.planner.slowness import GOOD_NOISE, believed, beside_others, in_common
from checkpoints.sticky_state import Pace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.planner.batch import Floats, Ints
    from assignor_bridge.planner.ledger import Ledger
    from checkpoints.sticky_state import Common, StickyState

#: A report of so many seconds counts half: what is shorter is mostly noise.
_HALF_TRUST_S = 0.1
#: A mean rests on so many reports at most: with more it would not follow.
_MOST_EVIDENCE = 4.0
#: Standard errors by which a partition stands out; one standard error where own costs are of use.
_STANDS_OUT, _OF_USE = 3.5, 1.0
#: Standard errors by which an executor stands out.
_SLOW = 3.0
#: Standard deviations from which a report is far off; and never less than this.
_FAR, _LEAST_FAR = 3.0, 0.25
#: So many reports in a batch move the common cost half of the way.
_HALF_COMMON_REPORTS = 4.0
#: So many records move an average of bytes or density half as far as they could.
_HALF_TRUST_RECORDS, _GAIN = 5.0, 0.6
#: Least records an offset that is believed: a quiet partition may come back full.
_LEAST_DENSITY = 0.01
#: An executor counts as usual unless it is slower or faster by more than this, 20 at most.
_USUAL, _MOST_SLOWNESS = math.log(1.15), math.log(20)
#: Logarithms beyond this are no measurements.
_ABSURD = 45.0

Basis = Literal["records", "bytes", "seconds"]


@dataclass(frozen=True, eq=False)
class Weights:
    """Predicted work of each range, on a usual executor."""

    work: Floats
    #: What the weights were made of.
    basis: Basis
    #: Seconds that each executor needs for a second's work of a usual one.
    slowness: Floats
    #: Part of the work of a range that does not shrink with it: each further piece costs it again.
    fixed: float = 0.0


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


def predict(ledger: Ledger) -> Weights:
    """Predict the work of each range of the batch."""
    batch = ledger.batch
    density = _filled(ledger.density, ledger.topic, 1.0)[ledger.line]
    records = batch.size * np.clip(density, _LEAST_DENSITY, 1.0)
    work, basis = _work(ledger, ledger.line, np.asarray(records, np.float64))
    slowness = np.exp(_log_slowness(ledger, [executor.id for executor in batch.executors]))
    fixed = ledger.common.fixed * math.exp(ledger.common.level) if basis == "seconds" else 0.0
    return Weights(np.maximum(work, 1e-12), basis, slowness, fixed)


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
        ledger.prediction_error = _prediction_error(ledger, timed)
        _learn_seconds(ledger, timed)


def _work(ledger: Ledger, line: Ints, records: Floats) -> tuple[Floats, Basis]:
    """Predict the work of reading so many records of these lines."""
    common = ledger.common
    if math.isfinite(common.level):
        return np.exp(common.level + factors(ledger)[line]) * (common.fixed + records), "seconds"
    if not np.isnan(ledger.bytes).all():
        size = _filled(ledger.bytes - np.nanmean(ledger.bytes), ledger.topic, 0.0)
        return records * np.exp(size[line]), "bytes"
    return records, "records"


def factors(ledger: Ledger | StickyState) -> Floats:
    """Give the logarithm of each line's cost over the common one, as far as it is believed."""
    known = ~np.isnan(ledger.cost)
    if not known.any():
        return np.zeros(len(ledger.cost))
    doubt = _OF_USE if ledger.common.own else _STANDS_OUT
    with np.errstate(divide="ignore"):
        error = doubt * ledger.common.noise / np.sqrt(ledger.evidence)
    return _filled(np.where(known, believed(ledger.cost, error), np.nan), ledger.topic, 0.0)


def _log_slowness(ledger: Ledger, executors: Sequence[str]) -> Floats:
    """Give the logarithm of how slow each executor is, as far as it is believed."""
    paces = np.array([ledger.paces.get(name, Pace()) for name in executors]).reshape(-1, 3)
    with np.errstate(divide="ignore"):
        error = _SLOW * GOOD_NOISE / np.sqrt(paces[:, 2])
    return believed(paces[:, 0], np.maximum(_USUAL, error))


def _prediction_error(ledger: Ledger, reports: Reports) -> float | None:
    """Give the share of the reported time that the last plan expected elsewhere.

    What it expected of each report is scaled so that all of it is as long as what was reported.
    """
    if not ledger.before.batches or len(reports.line) < 2:
        return None
    work, _ = _work(ledger, reports.line, reports.records)
    slowness = np.exp(_log_slowness(ledger, ledger.batch.observed.executors))
    expected = work * slowness[reports.executor]
    took = np.minimum(reports.seconds, math.exp(_ABSURD))
    expected *= took.sum() / expected.sum()
    return float(np.abs(expected - took).sum() / took.sum())


def _learn_density(ledger: Ledger, reports: Reports) -> None:
    """Learn records an offset."""
    good = (reports.offsets > 0) & np.isfinite(reports.offsets)
    lines = len(ledger.key)
    total = np.bincount(reports.line[good], reports.offsets[good], lines).astype(np.float64)
    read = np.bincount(reports.line[good], reports.records[good], lines)
    with np.errstate(invalid="ignore"):
        ratio = np.clip(read / total, _LEAST_DENSITY, 1.0)
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


def _learn_seconds(ledger: Ledger, reports: Reports) -> None:
    """Share what was reported between all, executors and partitions."""
    names, line, executor = ledger.batch.observed.executors, reports.line, reports.executor
    times = np.clip(np.log(reports.seconds), -_ABSURD, _ABSURD)
    times -= _log_slowness(ledger, names)[executor]
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
    shift = _learn_slowness(ledger, line, executor, gap, chance)
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


def _learn_slowness(
    ledger: Ledger, line: Ints, executor: Ints, gap: Floats, chance: float
) -> Floats:
    """Take what reports of an executor have in common for its own; by how much it changed."""
    names = ledger.batch.observed.executors
    count = len(names)
    old = _log_slowness(ledger, names)
    shared = np.bincount(line, minlength=len(ledger.key))[line] > 1
    common, reports = in_common(executor, gap, chance, count, ledger.common.own)
    direct, pieces = beside_others(line[shared], executor[shared], gap[shared], chance, count)
    evidence = reports + pieces
    with np.errstate(invalid="ignore"):
        slower = old + (common * reports + direct * pieces) / evidence
    paces = np.array([ledger.paces.get(name, Pace()) for name in names])
    some = np.flatnonzero(evidence)
    paces[some] = followed(
        paces[some].T, slower[some], evidence[some], GOOD_NOISE, 2 * _MOST_EVIDENCE
    ).T
    paces[:, 0] = np.clip(paces[:, 0], -_MOST_SLOWNESS, _MOST_SLOWNESS)
    present = {e.id for e in ledger.batch.executors}
    kept = {name: pace for name, pace in ledger.paces.items() if name in present}
    ledger.paces = kept | {n: Pace(*row) for n, row in zip(names, paces.tolist(), strict=True)}
    shift = _log_slowness(ledger, names) - old
    # What was taken for the cost of partitions that only this executor reads was its slowness.
    alone = np.flatnonzero(~shared & (pieces > reports)[executor])
    ledger.cost[line[alone]] -= shift[executor[alone]]
    ledger.last_cost[line[alone]] -= shift[executor[alone]]
    return shift


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
    middle = float(np.nanmedian(ledger.cost))  # costs are told from the usual one, so it stays that
    ledger.cost -= middle
    ledger.last_cost -= middle
    ledger.common = ledger.common._replace(level=ledger.common.level + middle)


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


def _filled(column: Floats, topic: Ints, default: float) -> Floats:
    """Put the mean of the topic, else of all, else the default, where a line knows nothing."""
    missing = np.isnan(column)
    if not missing.any():
        return column
    good = np.flatnonzero(~missing)
    if not len(good):
        return np.full(len(column), default)
    topics = int(topic.max()) + 1
    counts = np.bincount(topic[good], minlength=topics)
    sums = np.bincount(topic[good], column[good], topics)
    mean = np.where(counts > 0, sums / np.maximum(counts, 1), float(np.mean(column[good])))
    return np.where(missing, mean[topic], column)


def in_words(ledger: Ledger, basis: Basis) -> str:
    """Say what the weights were made of."""
    if basis == "records":
        return "weights: records alike, no costs reported yet"
    line, count = ledger.line, len(ledger.line)
    if basis == "bytes":
        known = np.count_nonzero(~np.isnan(ledger.bytes[line]))
        return f"weights: bytes learned for {known} of {count} partitions, no seconds reported yet"
    each = math.exp(ledger.common.level)
    fixed = f"{ledger.common.fixed * each:.2g} s a range and " if ledger.common.fixed else ""
    others = np.count_nonzero(factors(ledger)[line])
    return (
        f"weights: seconds, {fixed}{each:.2g} s a record; costs of their own for {others} of "
        f"{count} partitions"
    )

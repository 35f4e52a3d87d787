"""Weights: how long reading each range will take, learned from what the readers report.

A report says that reading `records` of a partition on an executor took `seconds`. It is explained
as (cost of the partition) x (slowness of the executor), in logarithms, so that 1:50 and 50:1 are
equally far from 1:

- What an executor's reports have in common is the executor's, as far as `slowness` believes it.
- The rest is the partition's. Of the estimate, the report before and this one, the middle one
  counts: a single outlier changes nothing, a real change is followed at the second report.
  Reports of few records, or of a short time (the clock of a busy machine is coarse), count less.
- Offsets are no records (compaction, transaction markers): records an offset are learned as well.

A partition without reports of its own has the cost of its bytes (when bytes are known), else of its
topic, else the mean of all; when nothing is known, each record weighs 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from assignor_bridge.planner.slowness import (
    HALF_TRUST_RECORDS,
    common_shift,
    shift_beside_others,
    trust,
)
from checkpoints.sticky_state import Speed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.planner.batch import Floats, Ints
    from assignor_bridge.planner.ledger import Ledger

#: How far an estimate moves towards a new report of many records.
_GAIN = 0.6
#: A report of so many seconds moves a cost half as far: what is shorter is mostly noise.
_HALF_TRUST_S = 0.1
#: Least records an offset that is believed: a quiet partition may come back full.
_LEAST_DENSITY = 0.01
#: An executor counts as usual unless it is slower or faster by more than this.
_USUAL = math.log(1.15)
#: The speed of an executor that nothing is known of.
_UNKNOWN = Speed(0.0, 0)
#: Bounds of an executor's log slowness.
_MOST_SLOWNESS = math.log(20)

Basis = Literal["records", "bytes", "seconds"]


@dataclass(frozen=True, eq=False)
class Weights:
    """Predicted work of each range, on a usual executor."""

    work: Floats
    #: What the weights were made of.
    basis: Basis
    #: Seconds that each executor needs for a second's work of a usual one.
    slowness: Floats


def predict(ledger: Ledger) -> Weights:
    """Predict the work of each range of the batch."""
    batch = ledger.batch
    density = _filled(ledger.density, ledger.topic, ledger.density, 1.0)[ledger.line]
    cost, basis = _costs(ledger)
    density = np.minimum(1.0, np.maximum(_LEAST_DENSITY, density))
    work = batch.size * density * np.exp(cost[ledger.line])
    slowness = np.ones(len(batch.executors))
    for i, factor in enumerate(_log_factors(ledger, [e.id for e in batch.executors])):
        if _USUAL < abs(factor) <= _MOST_SLOWNESS:
            slowness[i] = math.exp(factor)
    return Weights(np.maximum(work, 1e-12), basis, slowness)


def learn(ledger: Ledger) -> None:
    """Work the batch's reports into the ledger."""
    seen = ledger.batch.observed
    line = ledger.reported
    usable = np.flatnonzero((line >= 0) & (seen.records >= 0) & np.isfinite(seen.records))
    if not len(usable):
        return
    line, executor, records = line[usable], seen.executor[usable], seen.records[usable]
    size, seconds = seen.bytes[usable], seen.seconds[usable]
    _learn_ratio(ledger.density, line, records, seen.offsets[usable], len(ledger.key))
    with np.errstate(divide="ignore", invalid="ignore"):
        per_record = np.log(size / records)
        raw = np.log(seconds / records)
    good = np.isfinite(per_record)
    _smooth(ledger.bytes, None, line[good], per_record[good], records[good], ledger.topic)
    good = np.isfinite(raw)
    if good.any():
        _learn_seconds(ledger, line[good], executor[good], records[good], raw[good])


def _learn_ratio(column: Floats, line: Ints, records: Floats, offsets: Floats, lines: int) -> None:
    good = (offsets > 0) & np.isfinite(offsets)
    total = np.bincount(line[good], offsets[good], lines)
    read = np.bincount(line[good], records[good], lines)
    some = np.flatnonzero(total > 0)
    ratio = np.minimum(1.0, np.maximum(_LEAST_DENSITY, read[some] / total[some]))
    old = column[some]
    believed = _GAIN * total[some] / (total[some] + HALF_TRUST_RECORDS)
    column[some] = np.where(np.isnan(old), ratio, old + believed * (ratio - old))


def _learn_seconds(
    ledger: Ledger, line: Ints, executor: Ints, records: Floats, raw: Floats
) -> None:
    """Split what was observed between executors and partitions."""
    names = ledger.batch.observed.executors
    old = np.array(_log_factors(ledger, names))
    cost, basis = _costs(ledger)
    if basis == "seconds":
        expected = cost[line]
    else:
        observed = np.full(len(ledger.key), np.nan)
        observed[line] = raw
        expected = _filled(np.full(len(ledger.key), np.nan), ledger.topic, observed, 0.0)[line]
    residual = raw - expected - old[executor]
    seconds = records * np.exp(raw)
    shift = common_shift(executor, residual, records, len(names))
    shift = shift * trust(seconds, executor, len(names))
    line_count = np.bincount(line, minlength=len(ledger.key))
    shared = line_count[line] > 1
    beside = shift_beside_others(
        line[shared], executor[shared], (raw - old[executor])[shared], records[shared], len(names)
    )
    beside = beside * trust(seconds[shared], executor[shared], len(names))
    # What was taken for the cost of partitions that only this executor reads was its slowness.
    beside = np.where(shift == 0, beside, 0.0)
    alone = np.flatnonzero(~shared & (beside[executor] != 0))
    ledger.cost[line[alone]] -= beside[executor[alone]]
    ledger.last_cost[line[alone]] -= beside[executor[alone]]
    expected = expected - np.where(shared, 0.0, beside[executor])
    new = np.clip(old + shift + beside, -_MOST_SLOWNESS, _MOST_SLOWNESS)
    batches = [ledger.speeds.get(name, _UNKNOWN).batches + 1 for name in names]
    ledger.speeds.update(zip(names, map(Speed, new.tolist(), batches), strict=True))
    present = {e.id for e in ledger.batch.executors}.union(names)
    ledger.speeds = {n: s for n, s in ledger.speeds.items() if n in present}
    # A hiccup makes a report long, not telling: it counts by the time that was expected, if less.
    telling = records * np.exp(np.minimum(raw, expected + new[executor]))
    evidence = np.minimum(records, telling * (HALF_TRUST_RECORDS / _HALF_TRUST_S))
    _smooth(
        ledger.cost, ledger.last_cost, line, raw - new[executor], evidence, ledger.topic,
        prior=expected,
    )  # fmt: skip


def _log_factors(ledger: Ledger, executors: Sequence[str]) -> list[float]:
    return [ledger.speeds.get(name, _UNKNOWN).log_factor for name in executors]


def _smooth(  # noqa: PLR0917
    column: Floats,
    last: Floats | None,
    line: Ints,
    values: Floats,
    evidence: Floats,
    topic: Ints,
    prior: Floats | None = None,
) -> None:
    """Move the estimates of the reported lines towards the mean of their reports.

    `evidence` says how much each report counts, in records: see `HALF_TRUST_RECORDS`.
    """
    lines = len(column)
    total = np.bincount(line, evidence, lines)
    some = np.flatnonzero(total > 0)
    mean = np.bincount(line, evidence * values, lines)[some] / total[some]
    believed = total[some] / (total[some] + HALF_TRUST_RECORDS)
    old = column[some]
    before = np.full(lines, np.nan)
    if prior is not None:
        before[line] = prior
        start = before[some]
    else:
        start = _filled(before, topic, column, math.nan)[some]
        start = np.where(np.isnan(start), mean, start)
    target = mean
    if last is not None:
        before_it = last[some]
        low, high = np.minimum(old, before_it), np.maximum(old, before_it)
        middle = np.maximum(low, np.minimum(high, mean))  # of the three
        agreed = np.bincount(line, minlength=lines)[some] > 1  # several reports: no outlier
        target = np.where(np.isnan(middle) | agreed, mean, middle)
        last[some] = mean
    column[some] = np.where(
        np.isnan(old), start + believed * (mean - start), old + _GAIN * believed * (target - old)
    )


def _costs(ledger: Ledger) -> tuple[Floats, Basis]:
    """Logarithm of the cost a record of each line, and what it rests on."""
    known = ~np.isnan(ledger.cost)
    sized = ~np.isnan(ledger.bytes)
    if known.any():
        cost = ledger.cost.copy()
        both, fill = known & sized, ~known & sized
        if fill.any() and both.any():
            rate = float(np.mean(cost[both] - ledger.bytes[both]))
            cost[fill] = ledger.bytes[fill] + rate
        return _filled(cost, ledger.topic, cost, 0.0), "seconds"
    if sized.any():
        relative = ledger.bytes - float(np.mean(ledger.bytes[sized]))
        return _filled(relative, ledger.topic, relative, 0.0), "bytes"
    return np.zeros(len(ledger.key)), "records"


def _filled(column: Floats, topic: Ints, source: Floats, default: float) -> Floats:
    """Put the mean of the topic, else of all, else the default, where a line knows nothing."""
    missing = np.isnan(column)
    if not missing.any():
        return column
    good = np.flatnonzero(~np.isnan(source))
    if not len(good):
        return np.where(missing, default, column)
    topics = int(topic.max()) + 1
    counts = np.bincount(topic[good], minlength=topics)
    sums = np.bincount(topic[good], source[good], topics)
    mean = np.where(counts > 0, sums / np.maximum(counts, 1), float(np.mean(source[good])))
    return np.where(missing, mean[topic], column)

"""Weights: how long reading each range will take, learned from what the readers report.

A report says that reading `records` of a partition on an executor took `seconds`. It is explained
as (cost of the partition) x (slowness of the executor), in logarithms, so that 1:50 and 50:1 are
equally far from 1:

- What an executor's reports have in common beyond the other executors' is the executor's; how
  much of it is believed depends on how well its reports agree, so costly partitions do not make
  their executor look slow.
- Where several executors read one partition in the same batch, they are compared directly.
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

from checkpoints.sticky_state import Speed

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Batch, Floats, Ints
    from assignor_bridge.planner.ledger import Ledger

#: How far an estimate moves towards a new report of many records.
_GAIN = 0.6
#: A report of as many records moves an estimate half as far.
_HALF_TRUST_RECORDS = 5.0
#: A report of so many seconds moves a cost half as far: what is shorter is mostly noise.
_HALF_TRUST_S = 0.1
#: The same for the reports of an executor in one batch together.
_HALF_TRUST_EXECUTOR_S = 0.5
#: Least records an offset that is believed: a quiet partition may come back full.
_LEAST_DENSITY = 0.01
#: An executor counts as usual unless it is slower or faster by more than this.
_USUAL = math.log(1.15)
#: Reports that an executor must have given before its slowness is judged.
_LEAST_REPORTS = 3

#: Standard errors by which an executor must differ to be believed different at all.
_DOUBT = 3.5
#: Bounds of an executor's log slowness, and of what one batch may add by direct comparison.
_MOST_SLOWNESS, _MOST_AT_ONCE = math.log(20), math.log(4)

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
    work = batch.size * np.clip(density, _LEAST_DENSITY, 1.0) * np.exp(cost[ledger.line])
    slowness = np.ones(len(batch.executors))
    for i, executor in enumerate(batch.executors):
        speed = ledger.speeds.get(executor.id)
        if speed is not None and _USUAL < abs(speed.log_factor) <= _MOST_SLOWNESS:
            slowness[i] = math.exp(speed.log_factor)
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
    ratio = np.clip(read[some] / total[some], _LEAST_DENSITY, 1.0)
    old = column[some]
    trust = _GAIN * total[some] / (total[some] + _HALF_TRUST_RECORDS)
    column[some] = np.where(np.isnan(old), ratio, old + trust * (ratio - old))


def _learn_seconds(
    ledger: Ledger, line: Ints, executor: Ints, records: Floats, raw: Floats
) -> None:
    """Split what was observed between executors and partitions."""
    names = ledger.batch.observed.executors
    old = np.array([ledger.speeds[n].log_factor if n in ledger.speeds else 0.0 for n in names])
    cost, basis = _costs(ledger)
    if basis == "seconds":
        expected = cost[line]
    else:
        observed = np.full(len(ledger.key), np.nan)
        observed[line] = raw
        expected = _filled(np.full(len(ledger.key), np.nan), ledger.topic, observed, 0.0)[line]
    residual = raw - expected - old[executor]
    seconds = records * np.exp(raw)
    shift = _common_shift(executor, residual, records, len(names))
    shift = shift * _trust(seconds, executor, len(names))
    line_count = np.bincount(line, minlength=len(ledger.key))
    shared = line_count[line] > 1
    beside = _shift_beside_others(
        line[shared], executor[shared], (raw - old[executor])[shared], records[shared], len(names)
    )
    beside = beside * _trust(seconds[shared], executor[shared], len(names))
    # What was taken for the cost of partitions that only this executor reads was its slowness.
    beside = np.where(shift == 0, beside, 0.0)
    alone = np.flatnonzero(~shared & (beside[executor] != 0))
    ledger.cost[line[alone]] -= beside[executor[alone]]
    ledger.last_cost[line[alone]] -= beside[executor[alone]]
    expected = expected - np.where(shared, 0.0, beside[executor])
    new = np.clip(old + shift + beside, -_MOST_SLOWNESS, _MOST_SLOWNESS)
    for i, name in enumerate(names):
        before = ledger.speeds.get(name, Speed(0.0, 0))
        ledger.speeds[name] = Speed(float(new[i]), before.batches + 1)
    present = {e.id for e in ledger.batch.executors} | set(names)
    ledger.speeds = {n: s for n, s in ledger.speeds.items() if n in present}
    # A hiccup makes a report long, not telling: it counts by the time that was expected, if less.
    telling = records * np.exp(np.minimum(raw, expected + new[executor]))
    evidence = np.minimum(records, telling * (_HALF_TRUST_RECORDS / _HALF_TRUST_S))
    _smooth(
        ledger.cost, ledger.last_cost, line, raw - new[executor], evidence, ledger.topic,
        prior=expected,
    )  # fmt: skip


def _trust(seconds: Floats, executor: Ints, count: int) -> Floats:
    """Say how far each executor's reports are believed, from 0 to 1, by the time that they took."""
    total: Floats = np.bincount(executor, seconds, count).astype(np.float64)
    return np.asarray(total / (total + _HALF_TRUST_EXECUTOR_S))


def _common_shift(executor: Ints, residual: Floats, records: Floats, count: int) -> Floats:
    """Say how far each executor's reports lie off the others', as far as that is believable."""
    shift = np.zeros(count)
    use = np.flatnonzero(records >= _HALF_TRUST_RECORDS)
    if len(use) < _LEAST_REPORTS:
        return shift
    order = use[np.lexsort((residual[use], executor[use]))]
    sorted_residual, who = residual[order], executor[order]
    first = np.searchsorted(who, np.arange(count + 1))
    n = np.diff(first)
    judged = np.flatnonzero(n >= _LEAST_REPORTS)
    if len(judged) < 2:  # nothing to compare with
        return shift
    middle = np.zeros(count)
    middle[judged] = sorted_residual[first[judged] + n[judged] // 2]
    middle[judged] = (middle[judged] + sorted_residual[first[judged] + (n[judged] - 1) // 2]) / 2
    away = np.abs(sorted_residual - middle[who])
    again = np.lexsort((away, who))
    spread = np.zeros(count)
    spread[judged] = away[again][first[judged] + n[judged] // 2] * 1.4826
    relative = np.zeros(count)
    relative[judged] = middle[judged] - np.median(middle[judged])
    error = 1.25 * spread / np.sqrt(np.maximum(n, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        belief = np.clip(1 - (_DOUBT * error / np.abs(relative)) ** 2, 0, 1)
    return np.where(relative != 0, relative * np.nan_to_num(belief), 0.0)


def _shift_beside_others(
    line: Ints, executor: Ints, adjusted: Floats, records: Floats, count: int
) -> Floats:
    """Say how much slower each executor read partitions that others read in the same batch.

    The only direct evidence: same partition, same time, other executor.
    """
    shift = np.zeros(count)
    pair, where = np.unique(line * count + executor, return_inverse=True)
    if len(pair) < 2:
        return shift
    amount = np.bincount(where, records)
    value = np.bincount(where, records * adjusted) / amount
    enough = amount >= _HALF_TRUST_RECORDS
    at, who, value = pair[enough] // count, pair[enough] % count, value[enough]
    _, at, readers = np.unique(at, return_inverse=True, return_counts=True)
    compared = np.flatnonzero(readers[at] > 1)
    if not len(compared):
        return shift
    others = (np.bincount(at, value)[at] - value)[compared] / (readers[at][compared] - 1)
    slower = np.clip(value[compared] - others, -_MOST_AT_ONCE, _MOST_AT_ONCE)
    who = who[compared]
    order = np.lexsort((slower, who))
    first = np.searchsorted(who[order], np.arange(count + 1))
    n = np.diff(first)
    some = np.flatnonzero(n)
    high, low = first[some] + n[some] // 2, first[some] + (n[some] - 1) // 2
    middle = (slower[order][high] + slower[order][low]) / 2
    shift[some] = middle * n[some] / (n[some] + 1)
    return shift


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

    `evidence` says how much each report counts, in records: see `_HALF_TRUST_RECORDS`.
    """
    lines = len(column)
    total = np.bincount(line, evidence, lines)
    some = np.flatnonzero(total > 0)
    mean = np.bincount(line, evidence * values, lines)[some] / total[some]
    trust = total[some] / (total[some] + _HALF_TRUST_RECORDS)
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
        middle = np.median(np.vstack((old, last[some], mean)), axis=0)
        agreed = np.bincount(line, minlength=lines)[some] > 1  # several reports: no outlier
        target = np.where(np.isnan(middle) | agreed, mean, middle)
        last[some] = mean
    column[some] = np.where(
        np.isnan(old), start + trust * (mean - start), old + _GAIN * trust * (target - old)
    )


def _costs(ledger: Ledger) -> tuple[Floats, Basis]:
    """Logarithm of the cost a record of each line, and what it rests on."""
    known = ~np.isnan(ledger.cost)
    sized = ~np.isnan(ledger.bytes)
    if known.any():
        cost = ledger.cost.copy()
        both = known & sized
        if both.any():
            rate = float(np.mean(cost[both] - ledger.bytes[both]))
            fill = ~known & sized
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


def shares(batch: Batch, weights: Weights) -> Floats:
    """Fair share of the work for each slot: all of it, divided by speed."""
    speed = 1 / weights.slowness[batch.slot_executor]
    return np.asarray(float(weights.work.sum()) * speed / speed.sum())

"""Weights: how long reading each range will take.

The model, whose parts `learning` learns from what the readers report, is

    seconds = (fixed + records) x cost x (the partition's factor) x (the executor's slowness)

A partition's factor counts as far as it is believed. Where costs of their own foresaw the reports
better than one cost for all did (see `foresight`) all count, but for the part that noise may be;
elsewhere only that of a partition that stands out by several standard errors. One without reports
has the factor of its topic, else of all. An executor's slowness counts where it stands out, too.

All of it counts only where it foresees reports better than records alone do (see `foresight`);
else ranges share the same seconds by records. While no seconds are known, a record weighs as much
as its bytes, and else 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from assignor_bridge.planner.slowness import GOOD_NOISE, believed
from checkpoints.sticky_state import Pace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.planner.batch import Floats, Ints
    from assignor_bridge.planner.ledger import Ledger
    from checkpoints.sticky_state import StickyState

#: Standard errors by which a partition stands out; one standard error where own costs are of use.
_STANDS_OUT, _OF_USE = 3.5, 1.0
#: Standard errors by which an executor stands out.
_SLOW = 3.5
#: An executor counts as usual unless it is slower or faster by more than this.
_USUAL = math.log(1.15)
#: Least records an offset that is believed: a quiet partition may come back full.
LEAST_DENSITY = 0.01
#: Of an executor that nothing is known of.
_NO_PACE = Pace()

Basis = Literal["records", "bytes", "seconds"]


@dataclass(frozen=True, eq=False)
class Weights:
    """Predicted work of each range, on a usual executor."""

    work: Floats
    #: What the weights were made of.
    basis: Basis
    #: Seconds that each executor needs for a second's work of a usual one.
    slowness: Floats
    #: Part of the work of each range that does not shrink with it: a further piece costs it again.
    fixed: Floats


def predict(ledger: Ledger) -> Weights:
    """Predict the work of each range of the batch."""
    batch = ledger.batch
    density = filled(ledger.density, ledger.topic, 1.0)[ledger.line]
    records = batch.size * np.clip(density, LEAST_DENSITY, 1.0)
    work, basis = work_of(ledger, ledger.line, np.asarray(records, np.float64))
    if basis == "seconds" and not ledger.common.relied_on:  # as many seconds, by records
        work = np.maximum(records * (work.sum() / max(records.sum(), 1.0)), 1e-12)
        return Weights(work, basis, np.ones(len(batch.executors)), np.zeros(batch.ranges))
    slowness = np.exp(log_slowness(paces_of(ledger, [e.id for e in batch.executors])))
    work = np.maximum(work, 1e-12)
    part = ledger.common.fixed / (ledger.common.fixed + records) if basis == "seconds" else 0.0
    return Weights(work, basis, slowness, work * part)


def work_of(ledger: Ledger, line: Ints, records: Floats) -> tuple[Floats, Basis]:
    """Predict the work of reading so many records of these lines."""
    common = ledger.common
    if math.isfinite(common.level):
        return np.exp(common.level + factors(ledger)[line]) * (common.fixed + records), "seconds"
    if not np.isnan(ledger.bytes).all():
        size = filled(ledger.bytes - np.nanmean(ledger.bytes), ledger.topic, 0.0)
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
    return filled(np.where(known, believed(ledger.cost, error), np.nan), ledger.topic, 0.0)


def paces_of(ledger: Ledger, executors: Sequence[str]) -> Floats:
    """Give what is known of the pace of executors: a row each, columns as in `Pace`."""
    known = ledger.paces
    return np.array([known.get(name, _NO_PACE) for name in executors]).reshape(-1, 3)


def log_slowness(paces: Floats) -> Floats:
    """Give the logarithm of how slow each executor is, as far as it is believed."""
    with np.errstate(divide="ignore"):
        error = _SLOW * GOOD_NOISE / np.sqrt(paces[:, 2])
    return believed(paces[:, 0], np.maximum(_USUAL, error))


def filled(column: Floats, topic: Ints, default: float) -> Floats:
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
    if not ledger.common.relied_on:
        return (
            "weights: records alike, which foresaw the time of reading as well as what was learned"
        )
    each = math.exp(ledger.common.level)
    fixed = f"{ledger.common.fixed * each:.2g} s a range and " if ledger.common.fixed else ""
    others = np.count_nonzero(factors(ledger)[line])
    return (
        f"weights: seconds, {fixed}{each:.2g} s a record; costs of their own for {others} of "
        f"{count} partitions"
    )

"""Costs: how long reading each range will take, by what was learned so far.

The model, whose parts `learn` learns from what the readers report, is

    seconds = (fixed + records) x cost x (the partition's factor) x (the executor's slowness)

A partition's factor counts as far as it is believed: where own costs foresaw the reports better
than one cost for all did, but for the part that noise may be; elsewhere only where it stands out by
several standard errors. A partition without reports has the factor of its topic, else of all. An
executor's slowness counts where it stands out, too.

All of it counts only where it foresaw reports better than records alone did; else ranges share the
same seconds by records. While no seconds are known, a record weighs as much as its bytes, and else
1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from checkpoints.sticky_state import Pace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assignor_bridge.planner.batch import Floats, Ints, MicroBatch
    from checkpoints.sticky_state import StickyState

#: Standard errors by which a partition or an executor stands out; and a partition's where own
#: costs are of use.
_STANDS_OUT, _OF_USE = 3.5, 1.0
#: An executor counts as usual unless it is slower or faster by more than this.
_USUAL = math.log(1.15)
#: Least records an offset that is believed: a quiet partition may come back full.
LEAST_DENSITY = 0.01
#: Standard deviation of a good report.
GOOD_NOISE = 0.1
#: Less work than this is none, by which nothing may be divided.
_LEAST_WORK = 1e-12

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
    #: The same for people.
    words: str
    #: Predicted bytes of each range; None where nobody asks, or none were reported.
    bytes: Floats | None = None

    @property
    def unit(self) -> str:
        """Unit of `work`, to be written behind a number."""
        units = {"seconds": "s", "records": " records", "bytes": " records of mean bytes"}
        return units[self.basis]


def predict(learned: StickyState, line: Ints, batch: MicroBatch) -> Weights:
    """Predict the work of each range of the batch, whose partitions have these lines."""
    density = fill_from_topic_mean(learned.density, learned.topic, 1.0)[line]
    records = np.asarray(batch.size * np.clip(density, LEAST_DENSITY, 1.0), np.float64)
    work, basis = predict_work(learned, line, records)
    words = _describe_weights(learned, line, basis)
    size = _predict_bytes(learned, line, records) if batch.replicas is not None else None
    if basis == "seconds" and not learned.common.relied_on:  # as many seconds, by records
        work = np.maximum(records * (work.sum() / max(records.sum(), 1.0)), _LEAST_WORK)
        usual, unfixed = np.ones(len(batch.executors)), np.zeros(batch.ranges)
        return Weights(work, basis, usual, unfixed, words, size)
    fixed = learned.common.fixed if basis == "seconds" else 0.0
    work = np.maximum(work, _LEAST_WORK)
    slowness = np.exp(compute_log_slowness(read_paces(learned, (e.id for e in batch.executors))))
    return Weights(work, basis, slowness, work * (fixed / (fixed + records)), words, size)


def predict_work(learned: StickyState, line: Ints, records: Floats) -> tuple[Floats, Basis]:
    """Predict the work of reading so many records of these lines."""
    common = learned.common
    if math.isfinite(common.level):
        return np.exp(common.level + compute_factors(learned)[line]) * (
            common.fixed + records
        ), "seconds"
    if not np.isnan(learned.bytes).all():
        size = fill_from_topic_mean(learned.bytes - np.nanmean(learned.bytes), learned.topic, 0.0)
        return records * np.exp(size[line]), "bytes"
    return records, "records"


def _predict_bytes(learned: StickyState, line: Ints, records: Floats) -> Floats | None:
    if np.isnan(learned.bytes).all():
        return None
    return np.asarray(
        records * np.exp(fill_from_topic_mean(learned.bytes, learned.topic, 0.0)[line])
    )


def compute_factors(learned: StickyState) -> Floats:
    """Return the logarithm of each line's cost over the common one, as far as it is believed."""
    known = ~np.isnan(learned.cost)
    errors = _OF_USE if learned.common.own else _STANDS_OUT
    with np.errstate(divide="ignore", invalid="ignore"):
        error = errors * learned.common.noise / np.sqrt(learned.evidence)
    return fill_from_topic_mean(
        np.where(known, shrink_towards_zero(learned.cost, error), np.nan), learned.topic, 0.0
    )


def read_paces(learned: StickyState, executors: Iterable[str]) -> Floats:
    """Return what is known of the pace of executors: a row each, columns as in `Pace`."""
    return np.array([learned.paces.get(name, Pace()) for name in executors]).reshape(-1, 3)


def compute_log_slowness(paces: Floats) -> Floats:
    """Return the logarithm of how slow each executor is, as far as it is believed."""
    with np.errstate(divide="ignore"):
        error = _STANDS_OUT * GOOD_NOISE / np.sqrt(paces[:, 2])
    return shrink_towards_zero(paces[:, 0], np.maximum(_USUAL, error))


def shrink_towards_zero(deviation: Floats, error: Floats | float) -> Floats:
    """Return how much of a deviation counts if `error` of it may be chance.

    Nothing of one up to `error`, half of one 1.4 times as large, nearly all of a much larger one.

    >>> believed(np.array([-0.5, 1.0, -4.0]), 1.0).tolist()
    [0.0, 0.0, -3.75]
    """
    size = np.abs(deviation)
    with np.errstate(invalid="ignore"):
        part = deviation * (1 - (error / np.maximum(size, error)) ** 2)
    return np.where(size > error, part, 0.0)


def fill_from_topic_mean(column: Floats, topic: Ints, default: float) -> Floats:
    """Put the mean of the topic, else of all, else the default, where a line knows nothing."""
    missing = np.isnan(column)
    if not missing.any():
        return column
    known = np.flatnonzero(~missing)
    if not len(known):
        return np.full(len(column), default)
    counts = np.bincount(topic[known], minlength=int(topic.max()) + 1)
    sums = np.bincount(topic[known], column[known], len(counts))
    mean = np.where(counts > 0, sums / np.maximum(counts, 1), np.mean(column[known]))
    return np.where(missing, mean[topic], column)


def _describe_weights(learned: StickyState, line: Ints, basis: Basis) -> str:
    if basis == "records":
        return "weights: records alike, no costs reported yet"
    if basis == "bytes":
        known = np.count_nonzero(~np.isnan(learned.bytes[line]))
        return (
            f"weights: bytes learned for {known} of {len(line)} partitions, no seconds reported yet"
        )
    if not learned.common.relied_on:
        return (
            "weights: records alike, which foresaw the time of reading as well as what was learned"
        )
    each = math.exp(learned.common.level)
    fixed = f"{learned.common.fixed * each:.2g} s a range and " if learned.common.fixed else ""
    others = np.count_nonzero(compute_factors(learned)[line])
    return (
        f"weights: seconds, {fixed}{each:.2g} s a record; costs of their own for {others} of "
        f"{len(line)} partitions"
    )

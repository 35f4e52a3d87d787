"""How slow each executor is: what its reports have in common beyond the other executors'.

How much of that is believed depends on how well its reports agree, so that costly partitions do not
make their executor look slow. Where several executors read one partition in the same batch, they
are compared directly. All in logarithms of seconds a record; see `weights`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints

#: A report of as many records moves an estimate half as far.
HALF_TRUST_RECORDS = 5.0
#: So many seconds of an executor's reports in one batch are half believed: less is noise.
_HALF_TRUST_EXECUTOR_S = 0.5
#: Reports that an executor must have given before its slowness is judged.
_LEAST_REPORTS = 3
#: Standard errors by which an executor must differ to be believed different at all.
_DOUBT = 3.5
#: The most that one batch may add by direct comparison.
_MOST_AT_ONCE = math.log(4)


def trust(seconds: Floats, executor: Ints, count: int) -> Floats:
    """Say how far each executor's reports are believed, from 0 to 1, by the time that they took."""
    total: Floats = np.bincount(executor, seconds, count).astype(np.float64)
    return np.asarray(total / (total + _HALF_TRUST_EXECUTOR_S))


def common_shift(executor: Ints, residual: Floats, records: Floats, count: int) -> Floats:
    """Say how far each executor's reports lie off the others', as far as that is believable."""
    shift = np.zeros(count)
    use = np.flatnonzero(records >= HALF_TRUST_RECORDS)
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
    ranked = np.sort(middle[judged])
    relative[judged] = (
        middle[judged] - (ranked[len(ranked) // 2] + ranked[(len(ranked) - 1) // 2]) / 2
    )
    error = 1.25 * spread / np.sqrt(np.maximum(n, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        belief = np.maximum(0, 1 - (_DOUBT * error / np.abs(relative)) ** 2)
        return np.where(relative != 0, relative * belief, 0.0)


def shift_beside_others(
    line: Ints, executor: Ints, adjusted: Floats, records: Floats, count: int
) -> Floats:
    """Say how much slower each executor read partitions that others read in the same batch.

    The only direct evidence: same partition, same time, other executor.
    """
    shift = np.zeros(count)
    pair, where, _ = _groups(line * count + executor)
    if len(pair) < 2:
        return shift
    amount = np.bincount(where, records)
    value = np.bincount(where, records * adjusted) / amount
    enough = amount >= HALF_TRUST_RECORDS
    at, who, value = pair[enough] // count, pair[enough] % count, value[enough]
    _, at, readers = _groups(at)
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


def _groups(rising: Ints) -> tuple[Ints, Ints, Ints]:
    """Distinct numbers of a column that rises, which of them each cell holds, and how many do."""
    new = np.ones(len(rising), np.bool_)
    new[1:] = rising[1:] != rising[:-1]
    which = np.cumsum(new) - 1
    return rising[new], which, np.bincount(which)

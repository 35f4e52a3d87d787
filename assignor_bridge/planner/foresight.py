"""Which rule foresees the reports best: errors of rules that compete, and what they decide.

A rule says how the time of a batch is shared out over its ranges. Its error is how far, in
logarithms and on average, the reports lie from what it says, whatever the scale; a report counts
by its time (a short one is mostly noise). Errors fade, so that the last batches count most.

- *One cost for all*, beside which a range costs as much as 0, 1, 2, 4, ... records. With 0 it is
  plain records, and that is where a stream begins: another one must be better by a tenth.
- *Own costs*: each partition's reports before say what its next one will be. They must be better
  than one cost for all by a fifth, and are given up when they are hardly better any more.

Above them stands one question, asked in seconds: all that was learned (fixed cost, own costs,
slowness of executors) is relied on where it foresaw the time that ranges took better than records
alone did, by a fifth; else a record counts as a record. In short batches waiting and opening files
hit one range or another: then nothing that was learned foresees anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats
    from checkpoints.sticky_state import Common

#: What a range may cost beside its records, in records.
FIXED = np.append(0.0, 2.0 ** np.arange(21))
#: A fixed cost must be better than the one before it by this factor.
_BETTER = 0.9
#: Own costs are used from this share of the error of one cost for all on, and up to the other.
_CLEARLY_BETTER, _HARDLY_BETTER = 0.8, 0.95
#: The error of a rule that was never tried, and for how many reports it stands.
_UNTRIED, _UNTRIED_REPORTS = 0.25, 4.0
#: Noise of reports at first, and at least.
_UNTRIED_NOISE, _LEAST_NOISE = 0.2, 0.01
#: The standard deviation for a median distance, if noise is normal.
_OF_MEDIAN = 1.48
#: A batch moves the errors so far at least, and more while there were few reports before it.
_LEAST_GAIN, _MOST_REPORTS = 0.2, 1e6
#: So many seconds of reports are half believed when all is compared with records alike, which is
#: moved by so much of a batch at least, and remembers so many batches.
_HALF_TRUST_S, _LEAST_RELY_GAIN, _MOST_COMPARED = 0.1, 0.2, 10.0
#: What expects more than this share of the time elsewhere is of no use, however bad records are;
#: and what expects so much less elsewhere than records do gains nothing.
_USELESS, _NO_GAIN = 0.5, 0.01
#: An error beyond this is as bad as any.
_WORST = 1.5
#: So many reports of a batch are enough to tell rules apart.
_ENOUGH = 500


def judge(  # noqa: PLR0917
    common: Common, times: Floats, records: Floats, trust: Floats, off: Floats, off_trust: Floats
) -> Common:
    """Take what was reported of a batch into account.

    Parameters
    ----------
    times, records
        Logarithm of the seconds of each partition, on a usual executor, and its records.
    off
        How far each report is from what the reports of its partition before say.
    trust, off_trust
        How much each of these counts: from 0 to 1.
    """
    errors = np.full(len(FIXED) + 1, _UNTRIED)
    noise, reports = _UNTRIED_NOISE, _UNTRIED_REPORTS
    if len(common.errors) == len(errors):
        errors, noise, reports = np.array(common.errors), common.noise, common.reports
    count = len(times)
    gain = max(_LEAST_GAIN, count / (count + reports)) if count > 1 else 0.0
    some = slice(None, None, -(-count // _ENOUGH))
    apart = times[some] - np.log(FIXED[:, None] + records[some])
    apart -= np.median(apart, axis=1)[:, None]
    errors[:-1] += gain * (np.mean(_missed(apart, trust[some]), axis=1) - errors[:-1])
    if len(off):
        missed = _missed(off, off_trust)
        gain *= min(1.0, len(off) / count)
        errors[-1] += gain * (float(np.mean(missed)) - errors[-1])
        noise += gain * (_OF_MEDIAN * float(np.median(missed)) - noise)
    best = int(np.argmin(errors[:-1]))
    here = min(int(np.searchsorted(FIXED, common.fixed)), len(FIXED) - 1)
    if errors[best] < _BETTER * errors[here]:
        here = best
    limit = _HARDLY_BETTER if common.own else _CLEARLY_BETTER
    return common._replace(
        fixed=float(FIXED[here]),
        own=bool(errors[-1] < limit * errors[here]),
        noise=max(noise, _LEAST_NOISE),
        errors=tuple(errors.tolist()),
        reports=min(reports + count, _MOST_REPORTS),
    )


def rely(common: Common, missed: float, missed_alike: float, seconds: float) -> Common:
    """Compare, after a batch, what was learned with records alike.

    Parameters
    ----------
    missed, missed_alike
        Share of the batch's time that each of the two expected elsewhere (see `misplaced`).
    seconds
        Time that was reported: of a short one little can be told.
    """
    before, before_alike = common.missed, common.missed_alike
    if not common.compared:  # as if both had been as far off before
        before = before_alike = missed_alike
    trust = seconds / (seconds + _HALF_TRUST_S)
    gain = trust * max(_LEAST_RELY_GAIN, 1 / (common.compared + 1.5))
    now = before + gain * (missed - before)
    now_alike = before_alike + gain * (missed_alike - before_alike)
    limit = _HARDLY_BETTER if common.relied_on else _CLEARLY_BETTER
    return common._replace(
        missed=now,
        missed_alike=now_alike,
        compared=min(common.compared + trust, _MOST_COMPARED),
        relied_on=now < min(limit * now_alike - _NO_GAIN, _USELESS),
    )


def misplaced(expected: Floats, took: Floats) -> float:
    """Give the share of the time that was expected elsewhere, if all of it is as long as it took.

    >>> misplaced(np.array([1.0, 1.0]), np.array([3.0, 1.0]))
    0.5
    """
    scaled = expected * (took.sum() / expected.sum())
    return float(np.abs(scaled - took).sum() / took.sum())


def _missed(off: Floats, trust: Floats) -> Floats:
    """Give errors, as large as those of long reports are."""
    return np.asarray(np.sqrt(trust) * np.minimum(np.abs(off), _WORST))

"""What was gained, and what was not, in one sentence that follows from the figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streaming.observe.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.observe.check import Check
    from streaming.observe.figures import RunFigures

#: A difference of times below this share may be noise, and so may one in fewer rounds.
_LEAST_SHARE, _LEAST_ROUNDS = 0.05, 5
#: Busiest slot over mean: a difference below this is none.
_LEAST_BALANCE = 0.05


@dataclass(frozen=True, slots=True)
class Act:
    """Two runs of one job that took turns over the same batches, in the words of a sentence."""

    title: str
    sparks: RunFigures
    ours: RunFigures

    @property
    def runs(self) -> tuple[RunFigures, RunFigures]:
        """Both, Spark's own mapping first."""
        return self.sparks, self.ours


def verdict(acts: Sequence[Act]) -> str:
    """Write the sentence: of each act, whether batches took less time, and slots were more even.

    A batch took less time only where medians differ by 5% or more and all rounds, of at least five,
    say the same: by chance alone about one comparison of sixty does. It took more where half do.
    """
    clauses = (f"with {act.title}, {_clause(act.sparks, act.ours)}" for act in acts)
    return f"{acts[0].ours.name} beside {acts[0].sparks.name}: {'; '.join(clauses)}."


def headline(acts: Sequence[Act], checks: Sequence[Check]) -> str:
    """Write the sentence; before it that checks failed, if some did."""
    failed = sum(not check.holds for check in checks)
    if not failed:
        return verdict(acts)
    words = f"{counted(failed, 'check')} failed, so these figures prove nothing"
    return f"{words}. {verdict(acts)}"


def _clause(sparks: RunFigures, ours: RunFigures) -> str:
    time, time_gain = _time(sparks, ours)
    balance, balance_gain = _balance(sparks, ours)
    but = "but" if (time_gain > 0) != (balance_gain > 0) else "and"
    return f"{time}, {but} {balance}"


def _time(sparks: RunFigures, ours: RunFigures) -> tuple[str, int]:
    """Return what to say about time, and 1 for a gain, -1 for a loss, 0 for neither."""
    pairs = [(o.seconds, s.seconds) for o, s in zip(ours.measured, sparks.measured, strict=False)]
    if len(pairs) < _LEAST_ROUNDS:
        return f"times of {counted(len(pairs), 'round')} are too few to compare", 0
    mine, theirs = ours.batch_seconds, sparks.batch_seconds
    less = 1 - mine / theirs if theirs else 0.0
    both = f"{mine:.2f} s instead of {theirs:.2f} s"
    if less >= _LEAST_SHARE and all(mine < theirs for mine, theirs in pairs):
        return f"the median batch took {less:.0%} less time ({both})", 1
    slower = sum(mine > theirs for mine, theirs in pairs)
    if mine > theirs * (1 + _LEAST_SHARE) and slower >= len(pairs) / 2:
        more = f" by {-less:.0%}" if theirs else ""
        return f"time was lost: the median batch took longer{more} ({both})", -1
    if abs(less) >= _LEAST_SHARE:
        faster = sum(mine < theirs for mine, theirs in pairs)
        return f"rounds disagree about time: {faster} of {len(pairs)} took less (median {both})", 0
    return f"no time was gained (median batch {both})", 0


def _balance(sparks: RunFigures, ours: RunFigures) -> tuple[str, int]:
    mine, theirs = ours.imbalance, sparks.imbalance
    both = f"{mine:.2f} instead of {theirs:.2f} times the mean"
    if theirs - mine >= _LEAST_BALANCE:
        return f"the busiest slot read {both}", 1
    if mine - theirs >= _LEAST_BALANCE:
        return f"balance was lost (busiest slot {both})", -1
    return f"balance was not gained (busiest slot {both})", 0

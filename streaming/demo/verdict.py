"""The demo's result in a sentence for each act: seconds with the option and without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignor_bridge.errors import pluralize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.observe.check import Check
    from streaming.observe.figures import RunFigures


@dataclass(frozen=True, slots=True)
class Act:
    """Two runs of one job that alternated over the same batches."""

    #: Completes a sentence that begins "With …".
    title: str
    sparks: RunFigures
    ours: RunFigures

    @property
    def runs(self) -> tuple[RunFigures, RunFigures]:
        """Both, Spark's default assignment first."""
        return self.sparks, self.ours


def verdict(acts: Sequence[Act]) -> str:
    """Return a sentence for each act: median seconds of a batch and of its reading."""
    return " ".join(map(_compare, acts))


def headline(acts: Sequence[Act], checks: Sequence[Check]) -> str:
    """Return the verdict, after the number of failed checks if there are any."""
    failed = sum(not check.holds for check in checks)
    if not failed:
        return verdict(acts)
    words = f"{pluralize(failed, 'check')} failed, so these figures prove nothing"
    return f"{words}. {verdict(acts)}"


def _compare(act: Act) -> str:
    ours, sparks = act.ours, act.sparks
    pairs = list(zip(ours.measured, sparks.measured, strict=False))
    shorter = sum(mine.seconds < theirs.seconds for mine, theirs in pairs)
    return (
        f"With {act.title}, the median batch took {ours.batch_seconds:.2f} s instead of "
        f"{sparks.batch_seconds:.2f} s, less in {shorter} of {pluralize(len(pairs), 'round')} "
        f"(median reading: {ours.read_seconds:.2f} s instead of {sparks.read_seconds:.2f} s)."
    )

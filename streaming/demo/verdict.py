"""Describe the demo's result in one sentence per act."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignor_bridge.errors import pluralize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.observe.check_result import Check
    from streaming.observe.figures import RunFigures


@dataclass(frozen=True, slots=True)
class Act:
    """Two runs of one job that alternated over the same batches."""

    #: Completes a sentence that begins "With …", and the heading "Act N: …".
    title: str
    default_run: RunFigures
    assignor_run: RunFigures

    @property
    def runs(self) -> tuple[RunFigures, RunFigures]:
        """Both runs; the first is the run with Spark's default assignment."""
        return self.default_run, self.assignor_run


def describe_acts(acts: Sequence[Act]) -> str:
    """Return one sentence per act, with the median batch and reading times."""
    return " ".join(map(_describe_act, acts))


def write_headline(acts: Sequence[Act], checks: Sequence[Check]) -> str:
    """Return the description of all acts, after a warning if checks failed."""
    failed_count = sum(not check.holds for check in checks)
    if not failed_count:
        return describe_acts(acts)
    warning = f"{pluralize(failed_count, 'check')} failed, so these figures are not valid"
    return f"{warning}. {describe_acts(acts)}"


def _describe_act(act: Act) -> str:
    assignor, default = act.assignor_run, act.default_run
    pairs = list(zip(assignor.measured_batches, default.measured_batches, strict=False))
    faster_count = sum(batch.seconds < default_batch.seconds for batch, default_batch in pairs)
    return (
        f"With {act.title}, the median batch took {assignor.median_batch_seconds:.2f} s instead of "
        f"{default.median_batch_seconds:.2f} s, faster in {faster_count} of "
        f"{pluralize(len(pairs), 'round')} (median reading: {assignor.median_read_seconds:.2f} s "
        f"instead of {default.median_read_seconds:.2f} s)."
    )

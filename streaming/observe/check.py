"""A check and its outcome, for `assignor doctor`, the demo and the reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at, and whether it holds."""

    what: str
    holds: bool
    #: What was seen, in figures; of one that does not hold, what to do.
    details: str

    @property
    def outcome(self) -> str:
        """The word for it, wherever checks are listed."""
        return "ok" if self.holds else "FAILED"

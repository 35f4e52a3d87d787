"""The result of a check, for `assignor doctor` and the demo."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that was checked, and its result."""

    name: str
    holds: bool
    #: What was observed; in `assignor doctor`, also the remedy if the check failed.
    details: str

    @property
    def outcome(self) -> str:
        """The result as a word: `ok` or `FAILED`."""
        return "ok" if self.holds else "FAILED"

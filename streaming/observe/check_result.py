"""The result of a check, for `assignor doctor`, the demo, and the reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that was checked, and its result."""

    name: str
    holds: bool
    #: The observed figures; if the check failed, also the remedy.
    details: str

    @property
    def outcome(self) -> str:
        """The result as a word: `ok` or `FAILED`."""
        return "ok" if self.holds else "FAILED"

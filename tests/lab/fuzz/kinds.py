"""All readers that are fuzzed, by name."""

from __future__ import annotations

from tests.lab.fuzz import of_files, of_messages

KINDS = {kind.name: kind for kind in (*of_messages.KINDS, *of_files.KINDS)}

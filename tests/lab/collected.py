"""The ids of tests, as pytest collects them in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_ROOT = Path(__file__).parents[2]


def collected(files: Iterable[str], marks: str) -> list[str]:
    """Return the ids of tests of some files, of those with such marks (all: "")."""
    words = ["-m", "pytest", "-p", "no:randomly", "-m", marks, "--collect-only", "-q"]
    done = subprocess.run(
        [sys.executable, *words, *sorted(files)],
        cwd=_ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [line for line in done.stdout.splitlines() if "::" in line]

"""What can be seen in the Java sources without compiling them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "assignor_bridge" / "jvm" / "src"


@pytest.mark.parametrize("path", sorted(SOURCES.rglob("*.java")), ids=lambda path: path.stem)
def test_numbers_are_formatted_in_no_language(path: Path) -> None:
    """With an Arabic locale `%d` writes other digits, and JSON is none."""
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"String\.format\((?!\s*Locale\.ROOT)", text) == []

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


def test_the_class_for_consumers_needs_kafkas_client_alone() -> None:
    """Consumers without Spark load it."""
    text = (SOURCES / "io" / "assignorbridge" / "LagAwareAssignor.java").read_text(encoding="utf-8")
    imports = re.findall(r"^import (?:static )?(\S+);", text, flags=re.MULTILINE)
    allowed = ("java.", "org.apache.kafka.clients.", "org.apache.kafka.common.", "org.slf4j.")
    assert [name for name in imports if not name.startswith(allowed)] == []

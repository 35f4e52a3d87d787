"""What the shared reader's consumers hold and ask for, by a fake Kafka that counts it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.java_program import JAVA, compile_programs, run_java

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration

PROGRAM = JAVA / "ReaderChecks.java"
CHECKS = re.findall(r"^  void (\w+)\(", PROGRAM.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run all checks in one JVM; what each says."""
    classes: Path = tmp_path_factory.mktemp("classes")
    programs = ("ReaderChecks", "RowChecks", "FakeKafka", "IdentityChecks", "CrossZoneChecks")
    class_path = compile_programs(classes, *programs, connector=True)
    done = run_java(class_path, "reader.ReaderChecks", *CHECKS)
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    found = {name: outcome for name, _, outcome in lines if name in CHECKS}
    print(done.stderr[-4000:])
    return found


@pytest.mark.parametrize("check", CHECKS)
def test_reader(outcomes: dict[str, str], check: str) -> None:
    assert outcomes.get(check) == "ok"

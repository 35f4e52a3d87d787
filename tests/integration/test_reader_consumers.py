"""What the shared reader's consumers hold and ask for, by a fake Kafka that counts it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from assignor_bridge import ivy
from assignor_bridge.jars import built_jar, connector_coordinate

pytestmark = pytest.mark.integration

JAVA = Path(__file__).parents[1] / "java"
PROGRAM = JAVA / "ReaderChecks.java"
CHECKS = re.findall(r"^  void (\w+)\(", PROGRAM.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run all checks in one JVM; what each says."""
    class_path = os.pathsep.join(
        [
            str(built_jar()),
            *map(str, ivy.fetch(connector_coordinate())),
            str(ivy.pyspark_home() / "jars" / "*"),
        ]
    )
    classes = tmp_path_factory.mktemp("classes")
    sources = [
        str(JAVA / f"{name}.java")
        for name in ("ReaderChecks", "FakeKafka", "IdentityChecks", "CrossZoneChecks")
    ]
    subprocess.run(
        [ivy.java_tool("javac"), "-nowarn", "-cp", class_path, "-d", str(classes), *sources],
        check=True,
    )
    done = subprocess.run(
        [
            ivy.java_tool("java"), "-Xmx512m", "-cp", f"{classes}{os.pathsep}{class_path}",
            "io.assignorbridge.reader.ReaderChecks", *CHECKS,
        ],
        check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    found = {name: outcome for name, _, outcome in lines if name in CHECKS}
    print(done.stderr[-4000:])
    return found


@pytest.mark.parametrize("check", CHECKS)
def test_reader(outcomes: dict[str, str], check: str) -> None:
    assert outcomes.get(check) == "ok"

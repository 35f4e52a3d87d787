"""Set-up needs Python, make and a JDK 17 or 21, and says so in one line when one is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def fake(folder: Path, name: str, says: str) -> None:
    tool = folder / name
    tool.write_text(f"#!/bin/sh\necho '{says}'\n")
    tool.chmod(0o755)


def make_check(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `make check` with nothing but a few tools on the PATH."""
    if not (path / "python3").exists():
        (path / "python3").symlink_to(sys.executable)
    for tool in ("sed", "sh", "bash"):
        if not (path / tool).exists():
            (path / tool).symlink_to(shutil.which(tool) or tool)
    make = shutil.which("make")
    assert make
    kept = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "MAKEFLAGS", "MAKELEVEL")}
    return subprocess.run(
        [make, "--no-print-directory", "-C", str(ROOT), "check"],
        env=kept | {"PATH": str(path)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("javac", "said"),
    [
        pytest.param(None, "a JDK 17 or 21 is missing", id="no JDK"),
        pytest.param("javac 11.0.2", "is version 11", id="too old"),
        pytest.param("javac 25.0.1", "is version 25", id="too new for Spark 4"),
    ],
)
def test_a_jdk_that_does_not_fit_is_named_in_one_line(
    tmp_path: Path, javac: str | None, said: str
) -> None:
    if javac:
        fake(tmp_path, "javac", javac)
    done = make_check(tmp_path)
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert len(lines) == 1
    assert said in lines[0]
    assert "JAVA_HOME" in lines[0]


@pytest.mark.parametrize("javac", ["javac 17.0.15", "javac 21.0.1"])
def test_a_jdk_that_fits_is_silent(tmp_path: Path, javac: str) -> None:
    fake(tmp_path, "javac", javac)
    done = make_check(tmp_path)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_missing_python_is_named_in_one_line(tmp_path: Path) -> None:
    fake(tmp_path, "javac", "javac 17.0.15")
    done = make_check(tmp_path, MAKEFLAGS="PYTHON=no-such-python")
    assert done.returncode == 2
    assert "Python >= 3.10 is missing" in done.stderr

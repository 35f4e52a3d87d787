"""Programs of the tests that start a Spark driver, each run in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType


_ROOT = Path(__file__).parents[2]


def run(
    driver: ModuleType, *arguments: object, limit_s: float = 420, root: Path = _ROOT
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; if it fails, the test fails with the end of its output.

    `root` may be a copy of the project.
    """
    program = root / Path(str(driver.__file__)).relative_to(_ROOT)
    done = subprocess.run(
        [sys.executable, str(program), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


def run_pasted(program: str, folder: Path) -> str:
    """Run a program of the docs in a process of its own, as pasted; what it prints."""
    here = {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(_ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder, env=os.environ | here, capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def parse_json_lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Give the objects that a program has printed, a line each, among whatever else."""
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

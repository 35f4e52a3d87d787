"""Run programs of the tests that start a Spark driver, each in its own process."""

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
    """Run a program, and fail the test if it fails; `root` may be a copy of the project."""
    program = root / Path(str(driver.__file__)).relative_to(_ROOT)
    completed = subprocess.run(
        [sys.executable, str(program), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout[-3000:] + completed.stderr[-3000:]
    return completed


def run_pasted(program: str, folder: Path) -> str:
    """Run a program pasted from the docs in its own process, and return its output."""
    variables = {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(_ROOT)}
    completed = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder, env=os.environ | variables, capture_output=True, text=True, check=False,
        timeout=400,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stderr[-3000:]
    return completed.stdout


def parse_json_lines(completed: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return the JSON objects that a program has printed, one per line; ignore other lines."""
    return [json.loads(line) for line in completed.stdout.splitlines() if line.startswith("{")]

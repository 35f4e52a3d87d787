"""Run the programs of this package on the Sparks that are compared."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.lab.benchmarks.report import ROOT
from tests.lab.compat.environments import HERE, interpreter

if TYPE_CHECKING:
    from pathlib import Path

#: The oldest and the newest tested line.
SPARKS = ("4.0.4", "4.2.0")
_LIMIT_S = 3600


def find_interpreter(spark: str) -> Path | str | None:
    """Return a Python with this Spark; None if it cannot be installed here."""
    if importlib.metadata.version("pyspark") == spark:
        return sys.executable
    return interpreter(spark, HERE)


def run_program(spark: str, program: str, folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """Run a program on a Spark, and return its lines of JSON, which are kept beside the folder."""
    python = find_interpreter(spark)
    assert python is not None, f"Spark {spark} cannot be installed here"
    script = ROOT / "tests" / "lab" / "tails" / f"{program}.py"
    folder.mkdir(parents=True, exist_ok=True)
    log, lines = folder / "program.log", folder.parent / f"{folder.name}.jsonl"
    with log.open("wb") as errors, lines.open("wb") as out:
        completed = subprocess.run(
            [str(python), str(script), str(folder), *arguments],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=out, stderr=errors, timeout=_LIMIT_S, check=False,
        )  # fmt: skip
    assert completed.returncode == 0, log.read_text(errors="replace")[-3000:]
    text = lines.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

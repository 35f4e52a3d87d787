"""Run the same jar's tests on other Sparks, Pythons, and JDKs: `python -m tests.lab.compat`.

By default the tests of this folder on each Spark; with `--matrix`, all cells of the matrix
(`--list` names them); with `--only PATTERN`, those whose names match. What became of each is kept
in docs/benchmarks/matrix.json and in the table of docs/internals/evidence.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from assignor_bridge.jars import find_built_jar
from tests.lab.compat.environments import interpreter, java_homes
from tests.lab.compat.matrix import (
    JAVAS,
    KINDS,
    PYTHONS,
    ROOT,
    Cell,
    Result,
    chosen,
    deselected,
    record,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

BY_DEFAULT = [f"*/{PYTHONS[0]}/{JAVAS[0]}/compat"]
#: The codes with which pytest ends when tests fail or its time is up, and when it is interrupted.
_FAILED, _INTERRUPTED = 1, 2


def main() -> int:
    """Run the cells one after the other; 1 when a test failed, or a cell was not run to its end."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.compat", description=__doc__)
    parser.add_argument("--matrix", action="store_true", help="all cells")
    parser.add_argument("--only", nargs="+", metavar="PATTERN", help="such as '4.2.0/3.11/17/*'")
    parser.add_argument("--list", action="store_true", help="name the cells, and run nothing")
    parser.add_argument("--minutes", type=float, help="end each cell of pytest's after so long")
    given = parser.parse_args()
    cells = chosen(given.only or (["*"] if given.matrix else BY_DEFAULT))
    if given.list or not cells:
        print("\n".join(cell.name for cell in cells) or "no cell has such a name")
        return int(not cells)
    homes = java_homes()
    lines, is_whole = [], True
    for cell in cells:
        print(f"== {cell.name}", flush=True)
        result = run(cell, homes, given.minutes)
        if isinstance(result, Result):
            record(result)
            is_whole = is_whole and not (result.failed or result.not_reached)
            lines += [f"{cell.name}: {result.in_words()}", *(f"    {t}" for t in result.failed)]
        else:
            is_whole = False
            lines.append(f"{cell.name}: not run: {result}")
        print("\n".join(["== so far", *lines]), flush=True)
    return int(not is_whole)


def run(cell: Cell, homes: Mapping[str, str], limit: float | None = None) -> Result | str:
    """Run a cell's tests; why it cannot be run here, where it cannot."""
    if cell.java not in homes:
        return f"there is no Java {cell.java} here: name its folder in JDKS"
    python = interpreter(cell.spark, cell.python)
    if python is None:
        return "no such environment can be made here"
    home = homes[cell.java]
    environment = os.environ | ({"JAVA_HOME": home} if home else {})
    pytest = [str(python), "-m", "pytest", *KINDS[cell.kind]]
    pytest += [f"--deselect={test}" for test in deselected(cell)]
    commit, begin = _commit(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="assignor-matrix-") as folder:
        report = Path(folder, "report.xml")
        words = [*pytest, f"--junit-xml={report}"]
        if cell.kind == "suites":
            words = [str(python), "-m", "tests.lab.sparksuite", "--report", str(report)]
        elif limit is not None:
            words.append(f"--session-timeout={60 * limit:.0f}")
        done = subprocess.run(words, cwd=ROOT, env=environment, check=False)
        passed, skipped, failed = counted(report)
    is_over = limit is not None and time.monotonic() - begin >= 60 * limit
    total, missed = 0, 0
    if cell.kind != "suites" and was_cut_short(done.returncode, is_over=is_over):
        total = _collected(pytest)
        missed = max(0, total - passed - skipped - len(failed))
    if done.returncode and not failed and not total:
        failed = [f"ended with code {done.returncode}"]
    if not passed and not failed:
        return "all skipped" if not missed else "no test was over in time"
    minutes = round((time.monotonic() - begin) / 60, 1)
    today = datetime.now(timezone.utc).date().isoformat()
    left_out, jar = len(deselected(cell)), find_built_jar().name
    return Result(cell, passed, failed, skipped, left_out, missed, minutes, commit, today, jar)


def was_cut_short(code: int, *, is_over: bool) -> bool:
    """Return whether pytest ended before its tests did because it was to: other ends are errors."""
    return code == _INTERRUPTED or (is_over and code == _FAILED)


def counted(report: Path) -> tuple[int, int, list[str]]:
    """Return how many tests passed and how many were skipped, and the names of those that failed.

    The report is JUnit's, as pytest and `tests.lab.sparksuite` write it.
    """
    if not report.exists():
        return 0, 0, ["nothing was reported"]
    passed, skipped, failed = 0, 0, []
    for case in ElementTree.parse(report).getroot().iter("testcase"):  # noqa: S314  (ours)
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')}: {case.get('name')}")
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return passed, skipped, failed


def _collected(pytest: list[str]) -> int:
    """Return how many tests there are; 0 where they cannot be collected."""
    words = [*pytest, "--collect-only", "-q"]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return 0 if told.returncode else sum("::" in line for line in told.stdout.splitlines())


def _commit() -> str:
    """Return the commit that is tested; `+` when more than the docs has changes."""
    words = ["git", "describe", "--always", "--exclude=*"]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    words = ["git", "status", "--porcelain", "--", ".", ":!docs"]
    changed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return told.stdout.strip() + ("+" if changed.stdout.strip() else "")


if __name__ == "__main__":
    sys.exit(main())

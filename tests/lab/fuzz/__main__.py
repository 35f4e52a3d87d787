"""`make fuzz`: each reader for a while, one after the other, and a table of what came of it.

`FUZZ_S` seconds for each reader, `KIND` one of them or several with `|` between; all by default.
What fails is kept in `build/fuzz/KIND/failures`, with the error beside it, and tried first the next
time. Exit code 1 when something failed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.lab.fuzz.guard import ROOT

FOLDER = ROOT / "build" / "fuzz"
_STATUS = re.compile(r"^#(\d+)\s.*?cov: (\d+) ft: (\d+)", re.MULTILINE)
_DONE = re.compile(r"^Done (\d+) runs", re.MULTILINE)
#: What libFuzzer names an input that ended it.
_ENDS = ("timeout-", "oom-", "crash-")


@dataclass(frozen=True)
class Outcome:
    """What came of one reader."""

    kind: str
    runs: int
    #: Edges that were reached, and combinations of how often.
    coverage: int
    features: int
    failures: tuple[str, ...]


def fuzz(kind: str, seconds: int, folder: Path, engine: str = "tests.lab.fuzz.engine") -> Outcome:
    """Fuzz one reader in a process of its own."""
    (folder / "failures").mkdir(parents=True, exist_ok=True)
    before = _ended_by(folder)
    command = [sys.executable, "-m", engine, kind, str(seconds), str(folder)]
    with (folder / "log.txt").open("wb") as log:
        code = subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, check=False).returncode
    text = (folder / "log.txt").read_text("utf-8", "replace")
    result = folder / "result.json"
    failures = json.loads(result.read_text()) if result.exists() else []
    ended = sorted(_ended_by(folder) - before)
    failures += [f"{name.partition('-')[0]} of libFuzzer ({name})" for name in ended]
    if code and not ended:
        failures.append(f"ended with code {code}: see {folder / 'log.txt'}")
    states = _STATUS.findall(text)
    runs, coverage, features = map(int, states[-1]) if states else (0, 0, 0)
    done = _DONE.findall(text)
    return Outcome(kind, int(done[-1]) if done else runs, coverage, features, tuple(failures))


def _ended_by(folder: Path) -> set[str]:
    return {f.name for f in (folder / "failures").iterdir() if f.name.startswith(_ENDS)}


def show(outcomes: list[Outcome]) -> None:
    """Print the table, and what failed below it."""
    table = Table("kind", "runs", "edges", "features", "failures")
    for column in table.columns[1:]:
        column.justify = "right"
    for each in outcomes:
        figures = (each.runs, each.coverage, each.features, len(each.failures))
        table.add_row(each.kind, *(f"{figure:,}" for figure in figures))
    console = Console(soft_wrap=True, highlight=False)
    console.print(table)
    for each in outcomes:
        for failure in each.failures:
            console.print(f"{each.kind}: {failure}", markup=False)


def main() -> None:
    """Fuzz what the environment names."""
    if importlib.util.find_spec("atheris") is None:
        sys.exit("make fuzz: atheris is missing, which needs Linux and Python 3.11 or later")
    from tests.lab.fuzz.kinds import KINDS

    names = [n for n in os.environ.get("KIND", "").split("|") if n] or [*KINDS]
    if unknown := set(names) - {*KINDS}:
        sys.exit(f"make fuzz: unknown KIND {sorted(unknown)}: {', '.join(KINDS)} are known")
    seconds = int(os.environ.get("FUZZ_S") or 60)
    outcomes = []
    for name in names:
        outcomes.append(fuzz(name, seconds, FOLDER / name))
        last = outcomes[-1]
        print(f"{name}: {last.runs:,} runs, {len(last.failures)} failures", flush=True)
    show(outcomes)
    sys.exit(any(outcome.failures for outcome in outcomes))


if __name__ == "__main__":
    main()

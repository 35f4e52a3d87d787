"""Benchmarks of another checkout beside those of this one: nothing gets slower unseen.

`python -m tests.lab.benchmarks.before_after ../before planner java_side end_to_end` runs each
benchmark in both checkouts in turns (each with its own `.venv`), once to warm the machine's caches
up and then twice, and writes the best of each line and their ratio to
`docs/benchmarks/before_after.*`.
Both checkouts' other figures are written as well.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

from tests.lab.benchmarks.report import ROOT, write_report
from tests.lab.benchmarks.turns import in_turn

#: The column that is compared, by benchmark; more is better where the line's unit says so.
COLUMNS = {
    "planner": "ms_min",
    "plan_latency": "plan_ms_median",
    "java_side": "jvm_ms_median",
    "end_to_end": "batch_s_median",
    "reader": "median",
}
NOTES = """
Each benchmark ran in both checkouts in turns on the same machine, first one and then the other
first, after a run of each that does not count; the least of its runs counts (the
most, for records a second). Below 1 is faster than before.
"""

Report = dict[str, Any]


def measure(checkout: Path, name: str) -> Report:
    """Run one benchmark in a checkout, and return what it wrote."""
    file = f"tests/lab/benchmarks/test_bench_{name}.py"
    if not (checkout / file).exists():
        file = file.replace("/lab/", "/")  # before the folder moved
    python = str(checkout / ".venv" / "bin" / "python")
    command = [python, "-m", "pytest", "-m", "benchmark", "-p", "no:randomly", "-q", file]
    subprocess.run(command, cwd=checkout, check=True)
    return read(checkout / "docs" / "benchmarks" / f"{name}.json")


def read(path: Path) -> Report:
    """Read a report."""
    report: Report = json.loads(path.read_text(encoding="utf-8"))
    return report


def compared(name: str, before: list[Report], after: list[Report]) -> list[Report]:
    """Return a line for each line of a benchmark that both checkouts have."""
    column = COLUMNS[name]
    best = [_best(reports, column) for reports in (before, after)]
    return [
        {
            "benchmark": name,
            "line": " ".join(line),
            "column": column,
            "before": round(best[0][line], 3),
            "after": round(best[1][line], 3),
            "after/before": round(_ratio(line, best[0][line], best[1][line]), 2),
        }
        for line in best[1]
        if line in best[0]
    ]


def _best(reports: list[Report], column: str) -> dict[tuple[str, ...], float]:
    best: dict[tuple[str, ...], float] = {}
    for report in reports:
        for row in report["rows"]:
            line = tuple(
                str(value)
                for key, value in row.items()
                if isinstance(value, str) or key in {"partitions", "run"}
            )
            choose = max if "records a second" in line else min
            best[line] = choose(best.get(line, row[column]), row[column])
    return best


def _ratio(line: tuple[str, ...], before: float, after: float) -> float:
    return before / after if "records a second" in line else after / before


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.benchmarks.before_after")
    parser.add_argument("other", type=Path)
    parser.add_argument("names", nargs="+", choices=COLUMNS)
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    rows = []
    for name in asked.names:
        runs: dict[Path, list[Report]] = {asked.other: [], ROOT: []}
        for number in range(asked.rounds + 1):
            for checkout in in_turn(list(runs), number):
                report = measure(checkout, name)
                if number > 0:
                    runs[checkout].append(report)
        rows += compared(name, runs[asked.other], runs[ROOT])
    write(rows, runs[asked.other][0]["run"]["commit"], " ".join(asked.names))


def write(rows: list[Report], before: str, names: str) -> None:
    """Write the table."""
    write_report(
        "before_after",
        title=f"Before ({before}) and after",
        command=f"python -m tests.lab.benchmarks.before_after CHECKOUT {names}",
        rows=rows,
        notes=NOTES,
    )


if __name__ == "__main__":
    main()

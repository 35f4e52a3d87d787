"""Run everything that proves a release and does not fit into `make test`, step by step.

`make evidence` runs the steps that have not passed for the commit that last changed code. It adds
each result to `docs/benchmarks/evidence.json` as soon as the step ends, so an interrupted run
continues where it stopped. `make evidence STEP="kills|compat"` repeats steps by name, and
`make evidence STEP=summary` runs nothing and prints what is proved for which commit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "benchmarks" / "evidence.json"
LOGS = ROOT / "build" / "evidence"
#: A commit that changes none of these leaves all evidence valid.
CODE = ("assignor_bridge", "checkpoints", "streaming", "pyproject.toml", "constraints.txt")
#: Progress is printed this often while a step runs.
_PROGRESS_S = 60.0
_SUMMARY = "summary"


@dataclass(frozen=True)
class Step:
    """A `make` target with its variables, and what it proves."""

    name: str
    target: str
    proves: str


@dataclass(frozen=True)
class Result:
    """The outcome of a step: of which code, when, and how long it took."""

    step: str
    commit: str
    passed: bool
    seconds: int
    finished: str
    cores: int


STEPS = (
    Step("test", "test", "all tests of a checkout"),
    Step("lab", "lab", "the tools of the steps below"),
    Step("coverage", "coverage", "branch coverage of the unit tests, with a floor for each folder"),
    Step("long", "long", "long tests: more faults, three hosts, allocation, racks, upgrades"),
    Step("compat", "compat", "each supported Spark"),
    Step("spark-suite", "spark-suite", "Spark's own suites of its Kafka source"),
    Step("spark-suite-whole", "spark-suite SPLIT=false", "the same with whole partitions"),
    Step("spark-suite-limits", "spark-suite ADMISSION=deadline", "the same with limited batches"),
    Step("fresh", "fresh", "demo and tests with an empty HOME and empty caches"),
    Step("fuzz", "fuzz", "readers of foreign bytes"),
    Step("faults", "chaos KIND=all LIMIT_S=600", "faults by name, for ten minutes"),
    Step("protections", "chaos WITHOUT=all", "each protection, taken out, is missed by a test"),
    Step("kills", "chaos", "320 kills of drivers and executors"),
    Step("matrix", "matrix", "other Pythons and JDKs on each Spark"),
    Step("bench", "bench", "the figures of docs/benchmarks"),
    Step("soak", "soak", "two hours of load"),
    Step("executor-memory", "executor-memory", "two hours of executors' memory outside the heap"),
)


def main(names: Sequence[str]) -> int:
    """Run the given steps, or all that have not passed for this code; return the exit code."""
    steps = {step.name: step for step in STEPS}
    if unknown := [name for name in names if name not in (*steps, _SUMMARY)]:
        print(f"evidence: no step {unknown[0]!r}: {', '.join((*steps, _SUMMARY))}", file=sys.stderr)
        return 2
    commit = find_code_commit()
    results = read_results()
    has_failed = False
    if _SUMMARY not in names:
        if _git("status", "--porcelain", "--", *CODE):
            print("evidence: commit the changes of code first: a result names a commit",
                  file=sys.stderr)  # fmt: skip
            return 2
        for step in [steps[name] for name in names] or find_missing(results, commit):
            result = _run(step, commit)
            has_failed |= not result.passed
            results = [*(r for r in read_results() if r.step != step.name), result]
            RESULTS.write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n")
    print("\n".join(summarize(results, commit)))
    return int(has_failed)


def find_code_commit() -> str:
    """Return the abbreviated hash of the commit that last changed code."""
    return _git("log", "-1", "--format=%h", "--abbrev=10", "--", *CODE)


def find_missing(results: Sequence[Result], commit: str) -> list[Step]:
    """Return the steps that have not passed for this commit, in order."""
    passed = {result.step for result in results if result.passed and result.commit == commit}
    return [step for step in STEPS if step.name not in passed]


def read_results() -> list[Result]:
    """Read the last result of each step."""
    return [Result(**each) for each in json.loads(RESULTS.read_text())] if RESULTS.exists() else []


def summarize(results: Sequence[Result], commit: str) -> list[str]:
    """Return a line for each step: proved, stale, failed, or never run."""
    last = {result.step: result for result in results}
    lines = [f"code of {commit}"]
    for step in STEPS:
        result = last.get(step.name)
        if result is None:
            state = "never run"
        elif not result.passed:
            state = f"FAILED for {result.commit} on {result.finished}"
        else:
            kind = "proved" if result.commit == commit else f"stale, proved for {result.commit}"
            state = f"{kind} on {result.finished} in {result.seconds // 60} min"
        lines.append(f"  {step.name:<19} {state:<52} {step.proves}")
    return lines


def _run(step: Step, commit: str) -> Result:
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{step.name}.log"
    print(f"{step.name}: make {step.target} (log: {log.relative_to(ROOT)})", flush=True)
    start_s = time.monotonic()
    with log.open("w") as out:
        process = subprocess.Popen(
            ["make", "--no-print-directory", *step.target.split()],
            cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, env=_environment(),
        )  # fmt: skip
        while True:
            try:
                code = process.wait(_PROGRESS_S)
                break
            except subprocess.TimeoutExpired:
                minutes = (time.monotonic() - start_s) / 60
                print(f"{step.name}: {minutes:.0f} min", flush=True)
    seconds = round(time.monotonic() - start_s)
    print(f"{step.name}: {'passed' if code == 0 else 'FAILED'} in {seconds} s", flush=True)
    today = datetime.now(timezone.utc).date().isoformat()
    return Result(step.name, commit, code == 0, seconds, today, os.cpu_count() or 1)


def _environment() -> dict[str, str]:
    """Return the environment without the variables of the `make` that runs this."""
    return {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main([name for argument in sys.argv[1:] for name in argument.split("|") if name]))

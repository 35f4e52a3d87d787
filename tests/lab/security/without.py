"""Claims of docs/security.md and SECURITY.md with the protection taken out: a test must fail.

`python -m tests.lab.security.without unit|kafka|spark|jar|all|NAME` copies the project and runs the
tests that are named, which must pass: what fails then says nothing. Then it takes out one
protection at a time (protections.json has the lines, and the test that must fail) and puts it back.
`jar` needs one to be built for each. What was seen goes to `build/security`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.benchmarks.report import commit
from tests.lab.faults.protections import Protection
from tests.lab.faults.without import build_jar, copy_project

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[3]
_LIST = Path(__file__).with_name("protections.json")
_LIMIT_S = 1200
_FAILED, _PASSED, _BROKEN = "failed", "PASSES", "broken"


@dataclass(frozen=True)
class Guarded:
    """A protection, the test that fails without it, and what that takes."""

    protection: Protection
    test: str
    needs: str


def listed() -> dict[str, Guarded]:
    """Return all, by name."""
    lines = json.loads(_LIST.read_text(encoding="utf-8"))
    return {
        line["name"]: Guarded(
            Protection(line["name"], line["file"], line["old"], line["new"], ()),
            line["test"],
            line["needs"],
        )
        for line in lines
    }


def run_test(root: Path, test: str) -> str:
    """Run a test in a copy of the project; whether it failed, passed, or did not get so far."""
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-q", "-m", "", "--no-header"]
    try:
        done = subprocess.run(
            [*command, *shlex.split(test)], cwd=root, env={**os.environ, "PYTHONPATH": str(root)},
            capture_output=True, text=True, timeout=_LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return _BROKEN
    if done.returncode == 0:
        return _PASSED
    last = done.stdout.strip().splitlines()[-1:]
    counted = re.findall(r"\d+ (failed|error)", last[0] if last else "")
    return _FAILED if counted == ["failed"] else _BROKEN


def run_all(root: Path, chosen: Sequence[Guarded]) -> Iterator[tuple[str, str]]:
    """Give each name with what its test did, after all tests were run with nothing taken out."""
    whole = {test: run_test(root, test) for test in dict.fromkeys(one.test for one in chosen)}
    for one in chosen:
        if whole[one.test] != _PASSED:
            yield one.protection.name, f"{whole[one.test]} always"
            continue
        path = root / one.protection.file
        before = path.read_bytes()
        one.protection.take_out(root)
        try:
            if one.needs != "unit":
                build_jar(root)  # of this file, or of the one that was put back
            yield one.protection.name, run_test(root, one.test)
        finally:
            path.write_bytes(before)


def main(wanted: str) -> int:
    """Run those that were asked for; 1 unless each test failed, 2 where the name is none."""
    known = listed()
    chosen = [one for name, one in known.items() if wanted in ("all", one.needs, name)]
    if not chosen:
        kinds = ", ".join(sorted({one.needs for one in known.values()}))
        print(f"{wanted!r}: all, {kinds}, or a name of {_LIST.name}", file=sys.stderr)
        return 2
    runs = ROOT / "build" / "security" / f"without-{commit()}.jsonl"
    runs.parent.mkdir(parents=True, exist_ok=True)
    seen: list[str] = []
    with tempfile.TemporaryDirectory(prefix="assignor-without-") as scratch:
        root = Path(scratch)
        copy_project(root)
        for jar in (ROOT / "assignor_bridge" / "jars").glob("*.jar"):
            (root / "assignor_bridge" / "jars").mkdir(exist_ok=True)
            shutil.copy2(jar, root / "assignor_bridge" / "jars")
        build_jar(root)
        for name, what in run_all(root, chosen):
            seen.append(what)
            print(f"{what:14} {name}", flush=True)
            with runs.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"without": name, "seen": what}) + "\n")
    failed = seen.count(_FAILED)
    print(f"{failed} of {len(seen)} tests failed with the protection taken out")
    return int(failed < len(seen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if sys.argv[1:] else ""))

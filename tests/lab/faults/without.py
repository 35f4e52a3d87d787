"""Faults with the protection taken out that stands against them: each must be seen to fail.

`python -m tests.lab.faults.without NAME|all` copies the project, takes the lines out, builds the
jar and runs the faults there, each after a run of its own scene (brokers, options, disks) in which
nothing is done, which must pass: else what fails then fails always. (Where the fault is in topic
and records already, that is a run with a usual topic.) What was seen goes to
`build/faults`, for `tests.lab.faults.report`. A fault that passes without its protection is a
mistake, of the fault or of its checks.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab.benchmarks.report import commit
from tests.lab.faults.kinds import KINDS, NOTHING_DONE, nothing_as_in
from tests.lab.faults.protections import PROTECTIONS, Protection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: What came of a fault (`failed`, `passed`, `skipped`, `broken`: not run as it should), in words.
Seen = tuple[str, str]
_ROOT = Path(__file__).parents[3]
_LIMIT_S, _END_S = 900, 120


def copy_project(root: Path) -> None:
    """Copy what is committed, or would be, with its changes."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=_ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(_ROOT / name, root / name)


def build_jar(root: Path, python: str = sys.executable) -> None:
    """Build the jar of a copy, if it is not there, against the pyspark of an interpreter."""
    subprocess.run(
        [python, "-m", "assignor_bridge.jvm.build"], cwd=root, check=True,
        env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True,
    )  # fmt: skip


@contextlib.contextmanager
def copied(one: Protection, python: str = sys.executable) -> Iterator[Path]:
    """Make a copy of the project without the protection, with its jar: see `build_jar`."""
    with tempfile.TemporaryDirectory(prefix="assignor-without-") as scratch:
        root = Path(scratch)
        copy_project(root)
        one.take_out(root)
        build_jar(root, python)
        yield root


def run_fault_in(root: Path, kind: str) -> Seen:
    """Run a fault in a copy of the project; what came of it, and in which words."""
    notes = root / "build" / "faults"
    shutil.rmtree(notes, ignore_errors=True)
    words = {"KIND": kind, "SEED": "7", "LIMIT_S": "1", "WITH": "", "PYTHONPATH": str(root)}
    test = ["pytest", "-m", "chaos", "-p", "no:randomly", "-q", "tests/integration/test_faults.py"]
    process = subprocess.Popen(
        [sys.executable, "-m", *test], cwd=root, env={**os.environ, **words}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # so that it unmounts its disks and ends its brokers
        try:
            process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        return "broken", f"not over in {_LIMIT_S} s"
    lines = [line for path in notes.glob("*.jsonl") for line in path.read_text().splitlines()]
    return seen_of(kind, [json.loads(line) for line in lines], output)


def seen_of(kind: str, notes: list[dict[str, Any]], output: str) -> Seen:
    """Return what the notes of a run say; one without notes failed before the query was there."""
    for note in notes:
        if note["kind"] == kind:
            if "failed" in note:
                return "failed", _short(note["failed"])
            return ("skipped", note["skipped"]) if "skipped" in note else ("passed", "")
    errors = re.findall(r"^E +(.+)$", output, re.MULTILINE) or output.strip().splitlines()[-1:]
    return "broken", _short(errors[0] if errors else "it said nothing")


def _short(error: str) -> str:
    """One line for a table, without ids."""
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f-]{27})?\b", "#", " ".join(error.split()))
    return text.replace("|", "/")[:160]


def run_without(one: Protection, run: Callable[[str], Seen]) -> Iterator[dict[str, str]]:
    """Run each fault, and nothing first in each scene: a line a fault.

    What fails with nothing done says nothing about a fault: then none of that scene is run.
    """
    nothing: dict[str, Seen] = {}
    for name in one.kinds:
        elsewhere = KINDS[name].in_the_scene
        scene = KINDS[NOTHING_DONE if elsewhere else name].scene
        if scene not in nothing:
            nothing[scene] = run(NOTHING_DONE if elsewhere else nothing_as_in(name))
        seen, text = nothing[scene]
        if seen == "passed":
            seen, text = run(name)
        elif seen == "failed":
            seen = "always"
        yield {"without": one.name, "kind": name, seen: text}


def main(wanted: str) -> int:
    """Run one by its name, or all; 1 unless each fault failed, 2 for a name that is none."""
    if wanted != "all" and wanted not in PROTECTIONS:
        names = "; ".join(PROTECTIONS)
        print(f"WITHOUT is {wanted!r}: all, or one of: {names}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background
    runs = _ROOT / "build" / "faults" / f"without-{commit()}.jsonl"
    runs.parent.mkdir(parents=True, exist_ok=True)
    all_failed = True
    for one in PROTECTIONS.values():
        if wanted not in ("all", one.name):
            continue
        with copied(one) as root:
            for line in run_without(one, partial(run_fault_in, root)):
                all_failed = all_failed and "failed" in line
                print(line, flush=True)
                with runs.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
    return int(not all_failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if sys.argv[1:] else ""))

"""Faults with the protection taken out that stands against them: each must be seen to fail.

`python -m tests.faults.without NAME|all` copies the project, takes the lines out, builds the jar
and runs the faults there; what failed goes to `build/faults`, for `tests.faults.report`. One that
passes without its protection is a mistake, of the fault or of its checks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.report import commit
from tests.faults.kinds import KINDS

_ROOT = Path(__file__).parents[2]
_JAVA = "assignor_bridge/jvm/src/io/assignorbridge"
_LIMIT_S = 900


@dataclass(frozen=True)
class Protection:
    """Lines of one file that are replaced, and the faults that must fail then."""

    name: str
    file: str
    old: str
    new: str
    kinds: tuple[str, ...]

    def take_out(self, root: Path) -> None:
        """Edit the file of a copy of the project; lines that are not there once are a mistake."""
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        assert text.count(self.old) == 1, f"{self.name}: {self.file} has not these lines once"
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


PROTECTIONS = {
    one.name: one
    for one in (
        Protection(
            "a batch without a plan is read by Spark's mapping",
            "tests/faults/scene.py",
            '"assignor.commitGroup": self.group}',
            '"assignor.commitGroup": self.group, "assignor.onError": "fail"}',
            ("planner stopped",),
        ),
        Protection(
            "a planner that has died is started again",
            f"{_JAVA}/SharedPlanner.java",
            "if (running == null || !running.isAlive()) {",
            "if (running == null) {",
            ("planner killed",),
        ),
        Protection(
            "offsets that are gone are left to Spark's reader",
            f"{_JAVA}/reader/SharedReader.java",
            "forward = giveUp(current, e.offsetOutOfRangePartitions().keySet(), e.getMessage());",
            "throw e;",
            ("retention ahead of the reader",),
        ),
        Protection(
            "a consumer that does not stand where a range begins looks it up",
            f"{_JAVA}/reader/PartitionPosition.java",
            "return from != UNKNOWN && from <= offset && offset <= position;",
            "return from != UNKNOWN;",
            ("planner stopped", "executor killed"),
        ),
        Protection(
            "records beyond the end of a range wait for their batch",
            f"{_JAVA}/reader/PooledConsumer.java",
            "int end = PartitionPosition.countBelow(records, one.reading.until);",
            "int end = records.size();",
            ("slow network", "leaders change", "broker killed", "partitions added"),
        ),
        Protection(
            "progress is committed when the batch is complete",
            f"{_JAVA}/BatchPlanner.java",
            "    if (zones != null) {\n      zones.begin();\n    }\n",
            "    if (commits != null) {\n      commits.completed(end);\n    }\n",
            ("table disk full", "checkpoint read-only"),
        ),
        Protection(
            "a state that cannot be written is told, and tried again",
            f"{_JAVA}/StateFiles.java",
            "    } catch (IOException | RuntimeException e) {\n      if (!failing) {\n",
            "    } catch (IOException | RuntimeException e) {\n      if (newest > 0) {\n"
            "        throw new IllegalStateException(e);\n      }\n      if (!failing) {\n",
            ("state disk full",),
        ),
        Protection(
            "the planner ends with the last query",
            f"{_JAVA}/BatchPlanner.java",
            "      planner.close();\n      planner = null;\n",
            "      planner = null;\n",
            ("brokers restarted one by one",),
        ),
        Protection(
            "Kafka's client waits and asks again",
            "tests/faults/scene.py",
            '"kafka.request.timeout.ms": "10000", "kafka.default.api.timeout.ms": "60000"',
            '"kafka.request.timeout.ms": "700", "kafka.default.api.timeout.ms": "700"',
            ("silent network", "broker stopped"),
        ),
    )
}


def run_without(one: Protection, kind: str) -> str:
    """Run a fault in a copy of the project without the protection; what failed."""
    assert kind in KINDS, kind
    with tempfile.TemporaryDirectory(prefix="assignor-without-") as scratch:
        root = Path(scratch)
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],
            cwd=_ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        for name in listed.stdout.splitlines():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(_ROOT / name, root / name)
        one.take_out(root)
        words = {"KIND": kind, "SEED": "7", "LIMIT_S": "1", "PYTHONPATH": str(root)}
        environment = {**os.environ, **words}
        python = [sys.executable, "-m"]
        subprocess.run(
            [*python, "assignor_bridge.jvm.build"], cwd=root, env=environment, check=True,
            capture_output=True,
        )  # fmt: skip
        test = ["pytest", "-m", "chaos", "-p", "no:randomly", "-q"]
        done = subprocess.run(
            [*python, *test, "tests/integration/test_faults.py"], cwd=root, env=environment,
            capture_output=True, text=True, timeout=_LIMIT_S, check=False,
        )  # fmt: skip
    errors = re.findall(r"^E +(.+)$", done.stdout, re.MULTILINE)
    assert done.returncode == 1, f"{kind} passes without: {one.name}\n{done.stdout[-2000:]}"
    return _short(errors[0] if errors else "the run")


def _short(error: str) -> str:
    """One line for a table, without ids."""
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f-]{27})?\b", "#", error)
    return text.removeprefix("AssertionError: ").replace("|", "/")[:160]


def main(wanted: str) -> None:
    """Run one by its name, or all."""
    runs = _ROOT / "build" / "faults" / f"without-{commit().removesuffix('+')}.jsonl"
    runs.parent.mkdir(parents=True, exist_ok=True)
    for one in PROTECTIONS.values():
        for kind in one.kinds if wanted in ("all", one.name) else ():
            began = time.monotonic()
            failed = run_without(one, kind)
            line = {"without": one.name, "kind": kind, "failed": failed}
            print(f"{time.monotonic() - began:.0f} s: {line}", flush=True)
            with runs.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

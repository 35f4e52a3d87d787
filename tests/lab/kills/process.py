"""A driver as a process group: started, listened to, killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.kills.places import Place

_ROOT = Path(__file__).parents[3]
_LIMIT_S = 480


class Driver:
    """One run of a driver, in a process group of its own: `driver.py` unless another is named.

    Its Spark starts at once, its queries when it is told to `go`: what is started while the one
    before it still runs costs no time after the kill.
    """

    def __init__(self, place: Place, number: int, module: str = "tests.lab.kills.driver") -> None:
        self.number = number
        self.folder = Path(place.folder) / f"run-{number}"
        self.folder.mkdir()
        self.log = self.folder / "driver.log"
        self._said = self.folder / "said.txt"
        words = [json.dumps(asdict(place)), str(self.folder)]
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                env=os.environ | {"PYTHONPATH": str(_ROOT)},
                stdin=subprocess.PIPE,  # closes with us: then the driver ends itself
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def go(self, task: str = "run") -> None:
        """Let it start its queries; see `driver.py` for the task."""
        assert self.process.stdin is not None
        self.process.stdin.write(task.encode() + b"\n")
        self.process.stdin.flush()

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something of this run; tells what the driver said when it has ended."""
        deadline = time.monotonic() + _LIMIT_S
        while not condition():
            assert self.process.poll() is None, f"{what}: the driver ended: {self.said()}"
            assert time.monotonic() < deadline, f"{what}: not within {_LIMIT_S} s"
            time.sleep(0.01)  # polled finely: the moment of a kill depends on it

    def wait(self) -> None:
        """Wait until it has ended by itself, and well."""
        self.wait_for_end()
        assert self.process.returncode == 0, self.said()

    def wait_for_end(self) -> int:
        """Wait until it has ended by itself; its exit code."""
        return self.process.wait(_LIMIT_S)

    def said(self) -> str:
        return self._said.read_text(errors="replace")[-3000:] + self.text()[-3000:]

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def plans(self, query: str) -> list[dict[str, str]]:
        """Figures of the plans of a query in this run, as it logged them."""
        return self._logged(query, r"assignor '[^']*' planned tasks: \d+,")

    def admissions(self, query: str) -> list[dict[str, str]]:
        """How far batches of a query went in this run, as it logged them."""
        return self._logged(query, "admitted a batch:")

    def _logged(self, query: str, what: str) -> list[dict[str, str]]:
        lines = re.findall(rf"thread for {query} .*{what} \{{(.*)\}}", self.text())
        return [
            dict(part.split("=", 1) for part in line.split(", ") if "=" in part) for line in lines
        ]

    def check_log(self) -> None:
        """No plan and no admission failed, no state was lost, no commit to a group was refused."""
        for unexpected in (
            "cannot use its stored state", "could not plan", "could not limit", "could not commit",
        ):  # fmt: skip
            assert unexpected not in self.text(), (self.folder, self.text()[-3000:])

    def kill(self) -> None:
        """Kill the whole group at once."""
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        wait_until(lambda: not self._members(), "the end of all processes of the driver")

    def kill_an_executor(self, rng: random.Random) -> None:
        self.wait_for(lambda: bool(self._executors()), "an executor")
        os.kill(rng.choice(self._executors()), signal.SIGKILL)

    def _executors(self) -> list[int]:
        kind = "CoarseGrainedExecutorBackend"
        return sorted(p for p in self._members() if kind in _read(f"/proc/{p}/cmdline"))

    def _members(self) -> list[int]:
        """Living processes of the group."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                fields = _read(f"/proc/{entry.name}/stat").rpartition(")")[2].split()
                if fields and fields[0] not in "ZX" and int(fields[2]) == self.process.pid:
                    found.append(int(entry.name))
        return found


def _read(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text(errors="replace")
    return ""


def task_from_the_test() -> str:
    """In a driver: wait for what `Driver.go` is told; from then on it ends with the test."""
    task = sys.stdin.readline()
    if not task:
        os.killpg(0, signal.SIGKILL)  # the test is gone
    threading.Thread(target=_end_with_the_test, daemon=True).start()
    return task.strip()


def _end_with_the_test() -> None:
    """Kill all processes of this driver once the test is gone, whatever ended it."""
    os.read(sys.stdin.fileno(), 1)  # not `sys.stdin.read`: it holds a lock that the exit needs
    os.killpg(0, signal.SIGKILL)

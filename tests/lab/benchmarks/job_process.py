"""`assignor run` in a process of its own, as users start it, with the memory and CPU of its parts.

Parts are told apart by their command lines: the Python process, the driver's JVM, the executors'
JVMs and the planner processes, all of them descendants of the one that was started.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streaming.demo.spark_process import link_spark_home
from tests.support.processes import list_descendants, read_command_line, read_stat

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROOT = Path(__file__).parents[3]
_END_LIMIT_S = 120.0
_KINDS = {
    "driver": "org.apache.spark.deploy.SparkSubmit",
    "executors": "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "planners": "assignor_bridge.worker",
}
PARTS = ("python", *_KINDS)
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PAUSE = re.compile(r"\[(\d+)ms\].* Pause .* \d+M->(\d+)M\(\d+M\)")


@dataclass(frozen=True, slots=True)
class Used:
    """What the processes of one part use."""

    #: Resident memory now.
    rss_mb: float = 0.0
    #: CPU time so far.
    cpu_s: float = 0.0

    def plus(self, other: Used) -> Used:
        """Add up."""
        return Used(self.rss_mb + other.rss_mb, self.cpu_s + other.cpu_s)


class JobProcess:
    """One run of a job's YAML file, until it is told to stop."""

    def __init__(self, config: Path, folder: Path, environment: Mapping[str, str]) -> None:
        self._log = folder / "job.log"
        with self._log.open("wb") as log:
            # In our process group: what ends the benchmark, ends the job too.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streaming.cli.main", "run", str(config)],
                cwd=folder,
                env=os.environ
                | {
                    "PYTHONPATH": str(_ROOT),
                    "SPARK_HOME": str(link_spark_home(folder)),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    **environment,
                },
                stdout=log,
                stderr=log,
            )

    def is_running(self) -> bool:
        """Whether all queries have started; fails when the job has ended."""
        assert self._process.poll() is None, self._last_words()
        return "running: " in self._log.read_text()

    def stop(self) -> None:
        """End it with SIGTERM; it says so and exits with 143."""
        self._process.terminate()
        code = self._process.wait(_END_LIMIT_S)
        assert code == 143, f"exit code {code}: {self._last_words()}"

    def kill(self) -> None:
        """End it, whatever it does; nothing is done when it has ended."""
        self._process.kill()
        self._process.wait(_END_LIMIT_S)

    def used(self) -> dict[str, Used]:
        """Memory and CPU of each part."""
        found = dict.fromkeys(PARTS, Used())
        for kind, pids in parts_of(self._process.pid).items():
            for pid in pids:
                found[kind] = found[kind].plus(used_by(pid))
        return found

    def pids(self, part: str) -> list[int]:
        """Process ids of one part."""
        return parts_of(self._process.pid)[part]

    def _last_words(self) -> str:
        return self._log.read_text()[-3000:]


def parts_of(started: int) -> dict[str, list[int]]:
    """Process ids of each part, of a Python process and its descendants."""
    found: dict[str, list[int]] = {part: [] for part in PARTS}
    for pid in list_descendants(started):
        kind = "python" if pid == started else _kind(pid)
        if kind is not None:
            found[kind].append(pid)
    return found


def used_by(pid: int) -> Used:
    """Memory and CPU of one process; nothing when it has ended."""
    try:
        fields = read_stat(pid)
    except OSError:
        return Used()
    return Used(
        rss_mb=int(fields[21]) * _PAGE / 2**20,
        cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS,
    )


def heap_after_collections(log: Path) -> list[tuple[float, int]]:
    """Times (seconds since 1970) and MB of heap that was left by each collection of a JVM.

    The log is that of `-Xlog:gc:file=LOG:timemillis`.
    """
    lines = log.read_text(encoding="utf-8").splitlines()
    found = [match for line in lines if (match := _PAUSE.match(line))]
    return [(int(match[1]) / 1000, int(match[2])) for match in found]


def _kind(pid: int) -> str | None:
    words = read_command_line(pid)
    return next((kind for kind, word in _KINDS.items() if word in words), None)

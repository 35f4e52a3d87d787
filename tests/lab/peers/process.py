"""One run of a way as a process group: started, frozen, killed; its memory and processor time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING

from tests.support.processes import list_descendants, read_stat

if TYPE_CHECKING:
    from types import TracebackType

    from tests.lab.peers.ways import Place, Way

_SAMPLE_S = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class WayProcess:
    """A running way; as a context manager, it is killed at the end of the block."""

    def __init__(self, way: Way, place: Place) -> None:
        command = way.command(place)
        self._log = place.folder / "process.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=place.folder,
                env=way.environment(place),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a group of its own, to kill or freeze all of it
            )

    def check_running(self) -> None:
        """Fail with the end of its log if the process has ended."""
        code = self._process.poll()
        assert code is None, f"exit code {code}: {self.read_log_end()}"

    def read_log_end(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        """Kill all processes of the group at once, and wait until they have ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        while list_group(self._process.pid):
            time.sleep(0.01)

    def freeze(self) -> None:
        """Stop all processes of the group until `thaw`."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let the group run again."""
        os.killpg(self._process.pid, signal.SIGCONT)

    def read_cpu_s(self) -> float:
        """Return the processor time of the process tree so far, in seconds.

        It includes descendants that have ended, if their parent has waited for them.
        """
        return sum(read_cpu_s(pid) for pid in list_descendants(self._process.pid))

    def read_rss_mb(self) -> float:
        """Return the resident memory of the process tree, in MB; shared pages add up."""
        return sum(read_rss_mb(pid) for pid in list_descendants(self._process.pid))

    def __enter__(self) -> WayProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.kill()


class MemoryPeak:
    """The largest resident memory of a way during the block, sampled twice a second."""

    def __init__(self, process: WayProcess) -> None:
        self._process = process
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.rss_mb = 0.0

    def __enter__(self) -> MemoryPeak:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            self.rss_mb = max(self.rss_mb, self._process.read_rss_mb())


def list_group(group: int) -> list[int]:
    """Return the ids of the running processes of a process group."""
    found = []
    for pid in list_descendants(1):
        with contextlib.suppress(OSError):  # it has ended
            fields = read_stat(pid)
            if fields[0] not in "ZX" and int(fields[2]) == group:
                found.append(pid)
    return found


def read_cpu_s(pid: int) -> float:
    """Return the processor time of a process and of its ended children; 0 if it has ended."""
    try:
        fields = read_stat(pid)
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS


def read_rss_mb(pid: int) -> float:
    """Return the resident memory of a process; 0 if it has ended."""
    try:
        return int(read_stat(pid)[21]) * _PAGE / 2**20
    except OSError:
        return 0.0

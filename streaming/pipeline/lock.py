"""One run of a job at a time: a lock on a file in the checkpoint, which ends with the process.

Only a checkpoint on this machine is locked. On other file systems Spark itself ends the second of
two queries that write one checkpoint's logs, in the middle of a batch, with nothing written twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_NAME = ".assignor.lock"
#: What this process holds, with the question whether the job still runs: a session's user may have
#: stopped its queries without the job.
_HELD: dict[Path, JobLock] = {}


class JobLock:
    """The lock of a job's checkpoint."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self.is_used: Callable[[], bool] = lambda: True

    def release(self) -> None:
        """Let others run the job."""
        if _HELD.get(self._path) is self:
            del _HELD[self._path]
            os.close(self._descriptor)


def lock_checkpoint(checkpoint: str) -> JobLock | None:
    """Lock a checkpoint, by its URL or path; None where it cannot be locked.

    Raises
    ------
    BlockingIOError
        When another run has the lock.
    """
    local = _local(checkpoint)
    if local is None:
        return None
    folder = local.resolve()
    before = _HELD.get(folder)
    if before is not None and not before.is_used():
        before.release()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _opened(folder / _NAME)
    except OSError:  # Spark may have rights that this process has not
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:  # a file system without locks
        os.close(descriptor)
        return None
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
    found = _HELD[folder] = JobLock(folder, descriptor)
    return found


def _opened(path: Path) -> int:
    """Open the file, which another user may have made; to lock it, reading is enough."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # it holds a process id only
    except PermissionError:
        return os.open(path, os.O_RDONLY)


def holder(checkpoint: str) -> str:
    """Name the process that has the lock, as it wrote itself down."""
    try:
        return ((_local(checkpoint) or Path()) / _NAME).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return "unknown"


def _local(location: str) -> Path | None:
    """Give the folder as Hadoop writes it, with nothing quoted; None on another file system."""
    scheme, colon, below = location.partition(":")
    if not colon or "/" in scheme:
        return Path(location)
    return Path("/" + below.lstrip("/")) if scheme == "file" else None

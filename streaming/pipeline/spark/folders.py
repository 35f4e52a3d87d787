"""The folders that a job writes to: whether it can write there, and is the only run to do so.

Spark's own file systems are asked (S3, HDFS, …), with the settings and logins of the session.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from checkpoints.folders import local_path
from streaming.observe.checkpoint_files import HadoopFolder
from streaming.pipeline.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from streaming.pipeline.config.loading import LoadedJob

_LOCK = ".assignor.lock"
#: What a file's name ends with until it is complete.
_NEW = ".new"


def check_writable(spark: SparkSession, loaded: LoadedJob) -> None:
    """Check every folder that the job writes to: a small file is written and taken away again."""
    job = loaded.job
    folders = [(place, "table", table.path) for place, table in job.tables]
    for place, what, path in [*folders, ("checkpoint", "folder", job.checkpoint)]:
        if path is not None:
            with loaded.at(place, JobError, f"the {what} {path!r} cannot be written: "):
                _try_to_write(spark, path)


def qualify_path(spark: SparkSession, text: str) -> str:
    """Return a path with its file system, as Spark takes it."""
    path, files = _path(spark, text)
    return str(files.makeQualified(path).toString())


def _path(spark: SparkSession, text: str) -> tuple[Any, Any]:
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(text)
    return path, path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())


def _try_to_write(spark: SparkSession, text: str) -> None:
    folder, files = _path(spark, text)
    made = []
    above = folder
    while above is not None and not files.exists(above):
        made.append(above)
        above = above.getParent()
    probe, _ = _path(spark, f"{text.rstrip('/')}/_assignor_probe_{uuid.uuid4().hex}")
    try:
        files.create(probe, True).close()
        files.delete(probe, False)
    finally:
        for path in made:  # the innermost first; one that is not empty stays
            if files.exists(path) and not files.listStatus(path):
                files.delete(path, False)


def write_file(spark: SparkSession, text: str, line: str) -> None:
    """Write a file of one line; after a crash `read_file` returns its old content or the new."""
    path, files = _path(spark, text)
    new, _ = _path(spark, text + _NEW)
    stream = files.create(new, True)
    try:
        stream.write(bytearray(f"{line}\n".encode()))
    finally:
        stream.close()
    files.delete(path, False)
    if not files.rename(new, path):
        raise OSError(f"{text + _NEW!r} cannot be renamed")


def read_file(spark: SparkSession, text: str) -> bytes | None:
    """Read a file that `write_file` has written; None if there is none."""
    folder, _, name = text.rpartition("/")
    written = HadoopFolder(folder, spark)
    content = written.read(name)
    if content is not None:
        return content
    new = written.read(name + _NEW)
    return new if new and new.endswith(b"\n") else None


class JobLock:
    """The lock of a job's checkpoint, on a file in it; it ends with the process.

    Only a checkpoint on this machine is locked. On other file systems Spark itself ends the second
    of two queries that write one checkpoint's logs, in the middle of a batch, with nothing written
    twice.
    """

    #: What this process holds.
    _held: ClassVar[dict[Path, JobLock]] = {}

    def __init__(self, folder: Path, descriptor: int) -> None:
        self._folder = folder
        self._descriptor = descriptor
        #: Whether the job still runs: a session's user may have stopped its queries without it.
        self.is_used: Callable[[], bool] = lambda: True
        self._held[folder] = self

    def release(self) -> None:
        """Let others run the job."""
        if self._held.get(self._folder) is self:
            del self._held[self._folder]
            os.close(self._descriptor)


def lock_checkpoint(checkpoint: str) -> JobLock | None:
    """Lock a checkpoint, by its URL or path; None where it cannot be locked.

    Raise BlockingIOError when another run has the lock.
    """
    folder = local_path(checkpoint)
    if folder is None:
        return None
    folder = folder.resolve()
    before = JobLock._held.get(folder)
    if before is not None and not before.is_used():
        before.release()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _opened(folder / _LOCK)
    except OSError:  # Spark may have rights that this process has not
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise
        return None  # a file system without locks
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
    return JobLock(folder, descriptor)


def _opened(path: Path) -> int:
    """Open the file, which another user may have made; to lock it, reading is enough.

    What a link in its place points to would be emptied, and a pipe waited for.
    """
    itself = os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | itself, 0o666)  # it holds a process id only
    except PermissionError:
        return os.open(path, os.O_RDONLY | itself)


def holder(checkpoint: str) -> str:
    """Name the process that has the lock, as it wrote itself down."""
    try:
        return ((local_path(checkpoint) or Path()) / _LOCK).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return "unknown"

"""Check, read, write, and lock a job's folders.

Files are accessed through Hadoop (S3, HDFS, …), with the session's settings and credentials.
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
from streaming.pipeline.job_errors import JobError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from streaming.pipeline.config.loading import LoadedJob

_LOCK_FILE = ".assignor.lock"
#: Suffix of a file's name while the file is being written.
_NEW_SUFFIX = ".new"


def check_writable(spark: SparkSession, loaded_job: LoadedJob) -> None:
    """Raise JobError unless the job can create and delete a file in each of its folders."""
    job = loaded_job.job
    folders = [(key_path, "table", table.path) for key_path, table in job.tables]
    for key_path, noun, path in [*folders, ("checkpoint", "folder", job.checkpoint)]:
        if path is not None:
            prefix = f"the {noun} {path!r} cannot be written: "
            with loaded_job.wrap_errors(key_path, JobError, prefix):
                _try_to_write(spark, path)


def qualify_path(spark: SparkSession, location: str) -> str:
    """Return a path as Spark resolves it, with the file system's scheme."""
    path, file_system = _open_path(spark, location)
    return str(file_system.makeQualified(path).toString())


def _open_path(spark: SparkSession, location: str) -> tuple[Any, Any]:
    """Return Hadoop's `Path` and its `FileSystem`."""
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(location)
    return path, path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())


def _try_to_write(spark: SparkSession, location: str) -> None:
    folder, file_system = _open_path(spark, location)
    missing_folders = []
    ancestor = folder
    while ancestor is not None and not file_system.exists(ancestor):
        missing_folders.append(ancestor)
        ancestor = ancestor.getParent()
    probe, _ = _open_path(spark, f"{location.rstrip('/')}/_assignor_probe_{uuid.uuid4().hex}")
    try:
        file_system.create(probe, True).close()
        file_system.delete(probe, False)
    finally:
        for path in missing_folders:  # innermost first; folders that are not empty stay
            if file_system.exists(path) and not file_system.listStatus(path):
                file_system.delete(path, False)


def write_file(spark: SparkSession, location: str, line: str) -> None:
    """Write a one-line file. After a crash, `read_file` returns either the old or the new line."""
    path, file_system = _open_path(spark, location)
    new_path, _ = _open_path(spark, location + _NEW_SUFFIX)
    stream = file_system.create(new_path, True)
    try:
        stream.write(bytearray(f"{line}\n".encode()))
    finally:
        stream.close()
    file_system.delete(path, False)
    if not file_system.rename(new_path, path):
        raise OSError(f"{location + _NEW_SUFFIX!r} cannot be renamed")


def read_file(spark: SparkSession, location: str) -> bytes | None:
    """Read a file that `write_file` has written; None if it does not exist."""
    folder, _, name = location.rpartition("/")
    files = HadoopFolder(folder, spark)
    content = files.read(name)
    if content is not None:
        return content
    new_content = files.read(name + _NEW_SUFFIX)
    return new_content if new_content and new_content.endswith(b"\n") else None


class JobLock:
    """A lock on a file in a job's checkpoint; it ends with the process.

    Only local checkpoints are locked. On other file systems, if two queries use one checkpoint,
    Spark stops the second query during a batch; nothing is written twice.
    """

    #: The locks of this process, by folder.
    _lock_by_folder: ClassVar[dict[Path, JobLock]] = {}

    def __init__(self, folder: Path, descriptor: int) -> None:
        self._folder = folder
        self._descriptor = descriptor
        #: Whether the job still runs; the user may have stopped its queries directly.
        self.is_in_use: Callable[[], bool] = lambda: True
        self._lock_by_folder[folder] = self

    def release(self) -> None:
        """Release the lock, so that another run can start."""
        if self._lock_by_folder.get(self._folder) is self:
            del self._lock_by_folder[self._folder]
            os.close(self._descriptor)


def lock_folder(checkpoint: str) -> JobLock | None:
    """Lock a checkpoint, given its URL or path; return None if it cannot be locked.

    Raises BlockingIOError if another run has the lock.
    """
    folder = local_path(checkpoint)
    if folder is None:
        return None
    folder = folder.resolve()
    old_lock = JobLock._lock_by_folder.get(folder)
    if old_lock is not None and not old_lock.is_in_use():
        old_lock.release()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _open_lock_file(folder / _LOCK_FILE)
    except OSError:  # Spark may have permissions that this process does not have
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


def _open_lock_file(path: Path) -> int:
    """Open the lock file; another user's file is opened for reading, which suffices to lock it.

    Links are not followed, because their target would be truncated. A pipe does not block.
    """
    flags = os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o666)  # it has only a process id
    except PermissionError:
        return os.open(path, os.O_RDONLY | flags)


def find_owner(checkpoint: str) -> str:
    """Return the process id in the lock file, or "unknown"."""
    try:
        return ((local_path(checkpoint) or Path()) / _LOCK_FILE).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return "unknown"

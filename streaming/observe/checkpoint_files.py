"""Read checkpoints from local files or, with a Spark session, from any of its file systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assignor_bridge.errors import AssignorError, OptionError
from checkpoints import offset_log
from checkpoints.folders import (
    MAX_FILE_BYTES,
    CheckpointError,
    Folder,
    NoCheckpointError,
    check_size,
    open_folder,
)
from streaming.redaction import redact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DamagedCheckpointError(AssignorError):
    """A file of the checkpoint cannot be read."""


@dataclass(frozen=True)
class HadoopFolder:
    """A folder on any file system of a Spark session, read with its settings and credentials."""

    location: str
    spark: SparkSession

    @property
    def name(self) -> str:
        """The location."""
        return self.location

    def names(self, path: str) -> list[str]:
        """Return the sorted names of the entries, or an empty list if the folder does not exist."""
        hadoop_path, file_system = self._resolve(path)
        try:
            entries = self._call(file_system.listStatus, hadoop_path)
        except FileNotFoundError:
            return []
        return sorted(entry.getPath().getName() for entry in entries)

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""
        hadoop_path, file_system = self._resolve(path)
        try:
            stream = self._call(file_system.open, hadoop_path)
        except FileNotFoundError:
            return None
        try:
            content = bytes(self._call(stream.readNBytes, MAX_FILE_BYTES + 1))
        finally:
            stream.close()
        check_size(path, len(content))
        return content

    def below(self, path: str) -> HadoopFolder:
        """Return a subfolder."""
        return HadoopFolder(f"{self.location.rstrip('/')}/{path}", self.spark)

    def _resolve(self, path: str) -> tuple[Any, Any]:
        jvm: Any = self.spark._jvm
        root = jvm.org.apache.hadoop.fs.Path(self.location)
        hadoop_path = jvm.org.apache.hadoop.fs.Path(root, path) if path else root
        # Use the session's settings, as Spark and Delta do: credentials may be set there only.
        session: Any = self.spark._jsparkSession
        conf = session.sessionState().newHadoopConf()
        return hadoop_path, self._call(hadoop_path.getFileSystem, conf)

    @staticmethod
    def _call(method: Any, *arguments: Any) -> Any:
        """Call a method of the JVM; raise its exceptions as OSError or FileNotFoundError."""
        from py4j.protocol import Py4JJavaError

        try:
            return method(*arguments)
        except Py4JJavaError as error:
            exception = error.java_exception
            is_missing = "FileNotFound" in exception.getClass().getName()
            error_class = FileNotFoundError if is_missing else OSError
            raise error_class(0, " ".join(str(exception.toString()).split())) from error


def read_checkpoint(location: str, spark: SparkSession | None = None) -> offset_log.Checkpoint:
    """Read a query's checkpoint from its `checkpointLocation`.

    Parameters
    ----------
    spark
        A session whose file systems (HDFS, S3, …) are used; without one, the location must be
        local. Spark Connect sessions are not supported.

    Raises OptionError if the location has no checkpoint of a query with a Kafka source, and
    DamagedCheckpointError if a file of the checkpoint cannot be read.
    """
    try:
        folder: Folder = open_folder(location) if spark is None else HadoopFolder(location, spark)
        return offset_log.read_checkpoint_folder(folder)
    except NoCheckpointError as error:
        raise OptionError(redact(str(error))) from None
    except CheckpointError as error:
        raise DamagedCheckpointError(redact(str(error))) from None

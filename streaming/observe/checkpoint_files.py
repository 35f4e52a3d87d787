"""Checkpoints wherever Spark can keep them: files of this machine, or through a Spark session.

`checkpoints.offset_log` reads from any folder that lists and reads; here is the one that asks
Hadoop's file systems, with the settings and credentials of the session.
"""

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
    """A checkpoint with a file that cannot be read."""


@dataclass(frozen=True)
class HadoopFolder:
    """A folder of one of Spark's file systems."""

    location: str
    spark: SparkSession

    @property
    def name(self) -> str:
        """Its address."""
        return self.location

    def names(self, path: str) -> list[str]:
        """Names of the entries, sorted; none of a folder that does not exist."""
        place, files = self._at(path)
        try:
            entries = self._call(files.listStatus, place)
        except FileNotFoundError:
            return []
        return sorted(entry.getPath().getName() for entry in entries)

    def read(self, path: str) -> bytes | None:
        """Content of a file; None when it does not exist."""
        place, files = self._at(path)
        try:
            stream = self._call(files.open, place)
        except FileNotFoundError:
            return None
        try:
            content = bytes(self._call(stream.readNBytes, MAX_FILE_BYTES + 1))
        finally:
            stream.close()
        check_size(path, len(content))
        return content

    def below(self, path: str) -> HadoopFolder:
        """Return a folder below."""
        return HadoopFolder(f"{self.location.rstrip('/')}/{path}", self.spark)

    def _at(self, path: str) -> tuple[Any, Any]:
        jvm: Any = self.spark._jvm
        root = jvm.org.apache.hadoop.fs.Path(self.location)
        place = jvm.org.apache.hadoop.fs.Path(root, path) if path else root
        # The session's, as Spark and Delta take it: logins may be set on the session alone.
        session: Any = self.spark._jsparkSession
        return place, self._call(place.getFileSystem, session.sessionState().newHadoopConf())

    @staticmethod
    def _call(method: Any, *arguments: Any) -> Any:
        """Call into the JVM, and raise what fails there as an OSError."""
        from py4j.protocol import Py4JJavaError

        try:
            return method(*arguments)
        except Py4JJavaError as error:
            java = error.java_exception
            missing = "FileNotFound" in java.getClass().getName()
            kind = FileNotFoundError if missing else OSError
            raise kind(0, " ".join(str(java.toString()).split())) from error


def read_checkpoint(location: str, spark: SparkSession | None = None) -> offset_log.Checkpoint:
    """Read a query's checkpoint.

    Parameters
    ----------
    location
        Its `checkpointLocation`.
    spark
        A session whose file systems are asked (HDFS, S3, …); without one it must be on this
        machine. A Spark Connect session has no file systems to ask.

    Raises
    ------
    OptionError
        When it is no checkpoint of a query with a Kafka source.
    DamagedCheckpointError
        When it is one and cannot be read.
    """
    try:
        folder: Folder = open_folder(location) if spark is None else HadoopFolder(location, spark)
        return offset_log.read_checkpoint(folder)
    except NoCheckpointError as error:
        raise OptionError(redact(str(error))) from None
    except CheckpointError as error:
        raise DamagedCheckpointError(redact(str(error))) from None

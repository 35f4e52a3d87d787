"""Record the source offsets of each batch in its commit, as evidence for `assignor audit`.

The offsets come from the offset log: Spark writes `offsets/N` before batch N runs, and uses it
again after a crash. They are written to the commit's `userMetadata`, atomically with the rows. If
they cannot be read, the batch is written without them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from checkpoints.folders import LocalFolder, local_path
from checkpoints.offset_log import BatchRangeReader
from streaming.delta.user_metadata import encode_metadata, encode_ranges
from streaming.observe.checkpoint_files import HadoopFolder
from streaming.pipeline.job_errors import report_failure
from streaming.pipeline.spark.job_folders import qualify_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from checkpoints.folders import Folder

_LOG = logging.getLogger(__name__)
#: Delta's setting for the user metadata in a session's commits.
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


class CommitMetadata(NamedTuple):
    """Spark settings and offset ranges from which a commit's user metadata is made."""

    #: Spark settings for the commit; empty if metadata cannot be added.
    settings: dict[str, str]
    #: Offset ranges in JSON; None if the offset log could not be read, or without settings.
    ranges: str | None


NO_METADATA = CommitMetadata({}, None)


class AuditTrail:
    """Builds the user metadata of the commits of one query."""

    def __init__(self, label: str, checkpoint: str | None, redact: Callable[[str], str]) -> None:
        self._label = label
        self._redact = redact
        self._checkpoint = checkpoint
        self._offset_log: BatchRangeReader | None = None
        self._has_warned = False

    def build_metadata(self, spark: SparkSession, query_id: str, batch: int) -> CommitMetadata:
        """Return the metadata for a batch's commit; if a part is missing, log a warning once.

        The setting omits the ranges, because Spark copies settings into each task and event.
        """
        if self._checkpoint is None:
            return NO_METADATA
        with report_failure(self._warn):
            text = encode_metadata(query_id, batch, None, spark.conf.get(USER_METADATA, None))
            if text is not None:
                ranges = self._read_ranges(spark, self._checkpoint, batch)
                return CommitMetadata({USER_METADATA: text}, ranges)
            self._warn(f"{USER_METADATA} is set, but is not a JSON object that can be extended")
        return NO_METADATA

    def _read_ranges(self, spark: SparkSession, checkpoint: str, batch: int) -> str | None:
        ranges = None
        with report_failure(self._warn):  # the next batch tries again
            if self._offset_log is None:
                folder = _open_folder(qualify_path(spark, checkpoint), spark)
                self._offset_log = BatchRangeReader(folder)
            ranges = self._offset_log.read(batch)
            if ranges is None:
                self._warn(f"the checkpoint has no start or end offsets of batch {batch}")
        return None if ranges is None else encode_ranges(ranges)

    def _warn(self, reason: str) -> None:
        if not self._has_warned:
            message = (
                "%s: a commit was written without its offset ranges (%s): `assignor audit` may be "
                "unable to verify it; later cases in this run are not logged"
            )
            _LOG.warning(message, self._label, self._redact(reason))
        self._has_warned = True


def _open_folder(location: str, spark: Any) -> Folder:
    """Open a folder; read local ones without Hadoop, which takes milliseconds per file."""
    path = local_path(location)
    return HadoopFolder(location, spark) if path is None else LocalFolder(path.resolve())

"""What `assignor audit` proves a table by: each commit says which offsets its rows were made of.

The offset log has them: Spark writes `offsets/N` before batch N runs, and the same again after a
crash. They go into the commit's `userMetadata`, so that rows and ranges are there at once or not at
all. A failure of ours costs the audit its proof, never the query a batch.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from checkpoints.folders import CheckpointError, Folder, open_folder
from checkpoints.offset_log import read_ranges
from streaming.delta.user_metadata import encode
from streaming.observe.checkpoint_files import HadoopFolder
from streaming.pipeline.errors import first_line
from streaming.pipeline.spark.folders import absolute

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)
#: Delta's setting for the text of each commit of a session.
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


class AuditTrail:
    """The texts for the commits of one run of a query."""

    def __init__(self, place: str, checkpoint: str | None, redact: Callable[[str], str]) -> None:
        self._place = place
        #: Hides secrets in what is logged.
        self._redact = redact
        self._checkpoint = checkpoint
        self._folder: Folder | None = None

    def settings(self, spark: SparkSession, query: str, batch: int) -> dict[str, str]:
        """Return the session's setting for the commit of a batch; nothing where that cannot be."""
        if self._checkpoint is None:
            return {}
        try:
            if self._folder is None:
                self._folder = _open(absolute(spark, self._checkpoint), spark)
            ranges = read_ranges(self._folder, batch)
            if ranges is None:
                return self._give_up(f"offsets/{batch - 1} or offsets/{batch} is gone")
            text = encode(query, batch, ranges, spark.conf.get(USER_METADATA, None))
        except (CheckpointError, OSError) as error:
            return self._give_up(first_line(error))
        if text is None:
            return self._give_up(
                f"{USER_METADATA} is set and is no JSON object that they could be added to"
            )
        return {USER_METADATA: text}

    def _give_up(self, why: str) -> dict[str, str]:
        _LOG.warning(
            "%s: commits do not say which offsets they hold, so `assignor audit` cannot prove them "
            "(%s)", self._place, self._redact(why),
        )  # fmt: skip
        self._checkpoint = None
        return {}


def _open(location: str, spark: Any) -> Folder:
    """Read files of this machine without Hadoop, which takes milliseconds for each."""
    is_local = location.startswith("file:")
    return open_folder(location) if is_local else HadoopFolder(location, spark)

"""What `assignor audit` proves a table by: each commit says which offsets its rows were made of.

The offset log has them: Spark writes `offsets/N` before batch N runs, and the same again after a
crash. They go into the commit's `userMetadata`, so that rows and ranges are there at once or not at
all. A failure of ours costs the audit its proof, never the query a batch.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from checkpoints.folders import LocalFolder, local_path
from checkpoints.offset_log import BatchRangeReader
from streaming.delta.user_metadata import encode, encode_ranges
from streaming.observe.checkpoint_files import HadoopFolder
from streaming.pipeline.errors import first_line
from streaming.pipeline.spark.folders import absolute

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from checkpoints.folders import Folder

_LOG = logging.getLogger(__name__)
#: Delta's setting for the text of each commit of a session.
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


class Origin(NamedTuple):
    """What a batch was made of, for its commit."""

    #: The session's settings for the commit; none where the user has other words there.
    settings: dict[str, str]
    #: JSON; None where the offset log could not be read.
    ranges: str | None


#: Of a batch whose commit says nothing.
NOTHING = Origin({}, None)


class AuditTrail:
    """What the commits of one run of a query say of their batches."""

    def __init__(self, place: str, checkpoint: str | None, redact: Callable[[str], str]) -> None:
        self._place = place
        #: Hides secrets in what is logged.
        self._redact = redact
        self._checkpoint = checkpoint
        self._batches: BatchRangeReader | None = None
        self._has_warned = False

    def of_batch(self, spark: SparkSession, query: str, batch: int) -> Origin:
        """Return what the commit of a batch shall say; less where that cannot be.

        The ranges are no part of the setting, which Spark copies into each task and event.
        """
        if self._checkpoint is None:
            return NOTHING
        try:
            text = encode(query, batch, None, spark.conf.get(USER_METADATA, None))
            if text is None:
                self._warn(f"{USER_METADATA} is set and is no JSON object to add them to")
                return NOTHING
            return Origin({USER_METADATA: text}, self._ranges(spark, self._checkpoint, batch))
        except Exception as error:  # noqa: BLE001  (the batch is written all the same)
            self._warn(first_line(error))
            return NOTHING

    def _ranges(self, spark: SparkSession, checkpoint: str, batch: int) -> str | None:
        try:
            if self._batches is None:
                self._batches = BatchRangeReader(_open(absolute(spark, checkpoint), spark))
            ranges = self._batches.read(batch)
        except Exception as error:  # noqa: BLE001  (the next batch may have better luck)
            self._warn(first_line(error))
            return None
        if ranges is None:
            self._warn(f"offsets/{batch - 1} or offsets/{batch} is gone")
            return None
        return encode_ranges(ranges)

    def _warn(self, why: str) -> None:
        if not self._has_warned:
            _LOG.warning(
                "%s: a commit does not say which offsets it holds, so `assignor audit` may not "
                "prove it; later ones of this run are not warned of (%s)",
                self._place, self._redact(why),
            )  # fmt: skip
        self._has_warned = True


def _open(location: str, spark: Any) -> Folder:
    """Read files of this machine without Hadoop, which takes milliseconds for each."""
    local = local_path(location)
    return HadoopFolder(location, spark) if local is None else LocalFolder(local.resolve())

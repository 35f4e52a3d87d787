"""Append batches, and read the table's log at most once a run.

To skip a batch that is in the table, Delta up to 4.4 runs a job over the table's log in each batch.
Only the first batch of a run was perhaps written before; it goes that way. For later ones the
bridge's jar lets Delta look into the checksum of the newest commit, in which another driver of this
query (one that was thought dead) would show as well. Where that cannot be, all go Delta's way.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaPackage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streaming.pipeline.delta.table import Table

_LOG = logging.getLogger(__name__)


class Appender:
    """Appends the batches of one run; the session's settings hold the transaction id."""

    def __init__(self, table: Table, place: str) -> None:
        self._table = table
        self._place = place
        self._has_written = False
        #: Why checksums cannot be asked here.
        self.misfit: str | None = None

    def append(self, rows: DataFrame, *, grows: bool) -> None:
        """Append a batch, adding columns where the table may grow."""
        writer: Any = rows.write.format("delta").mode("append")
        if grows:
            writer = writer.option("mergeSchema", "true")
        if self._has_written and self.misfit is None:
            self.misfit = self._append_by_checksum(writer)
            if self.misfit is None:
                return
            _LOG.warning(
                "%s: each batch reads the table's log, as this Delta is another one (%s)",
                self._place, self.misfit,
            )  # fmt: skip
        # What was perhaps written just now is skipped.
        if self._table.path is not None:
            writer.save(self._table.path)
        else:
            writer.saveAsTable(self._table.name or "")
        self._has_written = True

    def _append_by_checksum(self, writer: Any) -> str | None:
        """Append, and return None; or return what the jar or this Delta lacks."""
        bridge = writer._spark._jvm.io.assignorbridge.DeltaAppend
        if isinstance(bridge, JavaPackage):
            return "the session's jar has no DeltaAppend"
        misfit: str | None = bridge.save(writer._jwrite, self._table.path, self._table.name)
        return misfit

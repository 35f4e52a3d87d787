"""Write each batch once, and ask the table's log which it has at most once a run.

To skip a batch that is in the table, Delta up to 4.4 runs a job over the table's log in each batch.
Only the first batch of a run was perhaps written before; it is asked for that way. For later ones
the bridge's jar lets Delta look into the checksum of the newest commit, in which another driver of
this query (one that was thought dead) would show as well. It also writes the checkpoints of the
table's log beside the batches, and how many records a batch had into its commit. Where that cannot
be, all go Delta's way.
"""

from __future__ import annotations

import contextlib
import logging
import re
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError, Py4JJavaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from delta.tables import DeltaMergeBuilder
    from pyspark.sql import DataFrame

    from streaming.pipeline.delta.table import Table

_LOG = logging.getLogger(__name__)
_NO_METHOD = re.compile(r"Method (append|merge)\(.*\) does not exist")


class OnceWriter:
    """Writes the batches of one run; the session's settings hold the transaction id."""

    def __init__(self, table: Table, place: str) -> None:
        self._table = table
        self._place = place
        #: Why checksums cannot be asked here.
        self.misfit: str | None = None
        #: The jar's part.
        self._writes: Any = None

    def append(
        self, rows: DataFrame, *, grows: bool, execution: Any = None, ranges: str | None = None
    ) -> None:
        """Append a batch, adding columns where the table may grow; it must be there.

        `execution` is Spark's own of the batch, which counts its records; `ranges` are what its
        commit says it read, which without the jar's part it leaves out.
        """
        writer: Any = rows.write.format("delta").mode("append")
        if grows:
            writer = writer.option("mergeSchema", "true")
        path, name = self._table.path, self._table.name or ""
        self._write(
            writer._spark,
            lambda: writer.save(path) if path is not None else writer.saveAsTable(name),
            lambda bridge: bridge.append(writer._jwrite, path, name, execution, ranges),
        )

    def merge(
        self, merge: DeltaMergeBuilder, execution: Any = None, ranges: str | None = None
    ) -> None:
        """Merge a batch."""
        builder: Any = merge
        self._write(
            builder._spark,
            builder.execute,
            lambda bridge: bridge.merge(builder._jbuilder, execution, ranges),
        )

    def _write(
        self, spark: Any, plain: Callable[[], Any], by_checksum: Callable[[Any], str | None]
    ) -> None:
        if self.misfit is None:
            self.misfit = self._by_checksum(spark._jvm, by_checksum)
            if self.misfit is None:
                return
            _LOG.warning(
                "%s: each batch reads the table's log, as this Delta is another one (%s)",
                self._place, self.misfit,
            )  # fmt: skip
        if not self._table.exists(spark):
            raise FileNotFoundError(f"the table {self._table.where!r} is gone")
        plain()  # what was perhaps written just now is skipped

    def _by_checksum(self, jvm: Any, write: Callable[[Any], str | None]) -> str | None:
        """Write, and return None; or return what the jar or this Delta lacks."""
        if self._writes is None:
            bridge = jvm.io.assignorbridge.delta.DeltaWrites
            if isinstance(bridge, JavaPackage):
                return "the session's jar has no DeltaWrites"
            self._writes = bridge()
        try:
            return write(self._writes)
        except Py4JError as error:
            # Py4J looks for the method before it calls anything: the jar is of another version.
            if isinstance(error, Py4JJavaError) or not _NO_METHOD.search(str(error)):
                raise
            return "the session's jar is of another version"

    def finish(self) -> None:
        """Wait for what is still written beside the batches: a checkpoint of the table's log."""
        if self._writes is not None:
            with contextlib.suppress(Exception):  # Spark is gone, and the thread with it
                self._writes.finish()
            self._writes = None

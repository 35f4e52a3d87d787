"""Append or merge each batch exactly once, without reading the table's log for each batch.

To skip a batch that is in the table, Delta up to 4.4 runs a job over the table's log in each batch.
Only the first batch of a run may have been written before, so only that batch is checked this way.
For later batches, the bridge's jar makes Delta read the checksum of the newest commit, which also
reveals another driver that still runs this query. The jar also writes log checkpoints in the
background, and record counts into commits. Without jar or checksum, Delta checks every batch.
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

    from streaming.pipeline.delta.sink_table import Table

_LOG = logging.getLogger(__name__)
_NO_METHOD = re.compile(r"Method (append|merge)\(.*\) does not exist")


class OnceWriter:
    """Writes the batches of one run; each batch's transaction id is in the session's settings."""

    def __init__(self, table: Table, label: str) -> None:
        self._table = table
        self._label = label
        #: Why the jar cannot be used; None if it can, or before the first batch.
        self.unsupported_reason: str | None = None
        #: The jar's `DeltaWrites`.
        self._jar_writer: Any = None

    def append(
        self, rows: DataFrame, *, evolve: bool, execution: Any = None, ranges: str | None = None
    ) -> None:
        """Append a batch to the existing table; `evolve` adds new columns.

        `execution` is Spark's execution of the batch, which counts its records; `ranges` are the
        batch's source offsets. Only the jar uses them; None omits them from the commit.
        """
        writer: Any = rows.write.format("delta").mode("append")
        if evolve:
            writer = writer.option("mergeSchema", "true")
        path, name = self._table.path, self._table.name or ""
        self._write(
            writer._spark,
            lambda: writer.save(path) if path is not None else writer.saveAsTable(name),
            lambda jar: jar.append(writer._jwrite, path, name, execution, ranges),
        )

    def merge(
        self, merge_builder: DeltaMergeBuilder, execution: Any = None, ranges: str | None = None
    ) -> None:
        """Execute the merge of a batch; for `execution` and `ranges`, see `append`."""
        builder: Any = merge_builder
        self._write(
            builder._spark,
            builder.execute,
            lambda jar: jar.merge(builder._jbuilder, execution, ranges),
        )

    def _write(
        self, spark: Any, use_delta: Callable[[], Any], use_jar: Callable[[Any], str | None]
    ) -> None:
        if self.unsupported_reason is None:
            self.unsupported_reason = self._try_jar(spark._jvm, use_jar)
            if self.unsupported_reason is None:
                return
            message = "%s: each batch reads the table's log, because the jar cannot be used (%s)"
            _LOG.warning(message, self._label, self.unsupported_reason)
        if not self._table.exists(spark):
            raise FileNotFoundError(f"the table {self._table.title!r} no longer exists")
        use_delta()  # Delta skips the batch if the table has it already

    def _try_jar(self, jvm: Any, write: Callable[[Any], str | None]) -> str | None:
        """Write with the jar and return None, or return why it cannot be used."""
        if self._jar_writer is None:
            java_class = jvm.io.assignorbridge.delta.DeltaWrites
            if isinstance(java_class, JavaPackage):
                return "the session has no assignor-bridge jar, or an old one"
            self._jar_writer = java_class()
        try:
            return write(self._jar_writer)
        except Py4JError as error:
            # Py4J looks the method up before any call, so nothing was written.
            if isinstance(error, Py4JJavaError) or not _NO_METHOD.search(str(error)):
                raise
            return "the session's jar has another version"

    def finish(self) -> None:
        """Wait until the jar has written a log checkpoint that it has started in the background."""
        if self._jar_writer is not None:
            with contextlib.suppress(Exception):  # Spark and its threads may have ended
                self._jar_writer.finish()
            self._jar_writer = None

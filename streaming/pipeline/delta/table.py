"""A sink's Delta table, made or checked before a query starts, so that a misfit fails at once.

What does not fit is a `TableError`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from assignor_bridge.errors import elide
from streaming.pipeline.errors import TableError, first_line
from streaming.pipeline.spark.columns import quoted, unquoted
from streaming.pipeline.spark.folders import absolute

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta.tables import DeltaTable
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

    from streaming.pipeline.config.sinks import DeltaSink

#: The title of these columns in `DESCRIBE TABLE`.
_PARTITIONS = "# Partition Information"
#: What Spark shows in place of a value (`Utils.REDACTION_REPLACEMENT_TEXT`).
_HIDDEN = "*********(redacted)"
#: The feature of Delta that columns of type TIMESTAMP_NTZ need.
_NTZ = "delta.feature.timestampNtz"


class Table(NamedTuple):
    """A Delta table by path or by name."""

    path: str | None
    name: str | None

    @property
    def where(self) -> str:
        """The table as messages name it."""
        return self.path or self.name or ""

    def open(self, spark: SparkSession) -> DeltaTable:
        """Return the handle for merges and compaction."""
        from delta.tables import DeltaTable

        if self.path is not None:
            return DeltaTable.forPath(spark, self.path)
        return DeltaTable.forName(spark, self.name or "")

    def location(self, spark: SparkSession) -> str:
        """Return the folder of a table that is there."""
        if self.path is not None:
            return absolute(spark, self.path)
        described = spark.sql(f"DESCRIBE TABLE EXTENDED {self.name}").collect()
        return next(str(r.data_type) for r in reversed(described) if r.col_name == "Location")

    def partition_columns(self, spark: SparkSession) -> list[str]:
        """Return the columns that an existing table is partitioned by."""
        described = spark.sql(f"DESCRIBE TABLE {self._sql(spark)}").collect()
        names = iter([row.col_name for row in described])
        if _PARTITIONS not in names:
            return []
        columns = itertools.takewhile(bool, names)
        return [unquoted(name) for name in columns if not name.startswith("#")]

    def properties(self, spark: SparkSession) -> dict[str, str]:
        """Return the properties of a table that is there.

        Spark hides those that look secret to it, as `["url"]` does. Delta's details hide none, and
        take seconds in a new JVM.
        """
        rows = spark.sql(f"SHOW TBLPROPERTIES {self._sql(spark)}").collect()
        if all(row.value != _HIDDEN for row in rows):
            return {row.key: row.value for row in rows}
        [details] = self.open(spark).detail().collect()
        properties: dict[str, str] = details["properties"]
        return properties

    def set_properties(self, spark: SparkSession, properties: Mapping[str, str]) -> None:
        """Write properties; the others stay."""
        pairs = ", ".join(f"{_text(key)} = {_text(value)}" for key, value in properties.items())
        spark.sql(f"ALTER TABLE {self._sql(spark)} SET TBLPROPERTIES ({pairs})")

    def _sql(self, spark: SparkSession) -> str:
        if self.path is None:
            return self.name or ""
        return f"delta.{quoted(absolute(spark, self.path))}"

    def exists(self, spark: SparkSession) -> bool:
        """Return whether the table is there."""
        from delta.tables import DeltaTable

        if self.path is not None:
            return DeltaTable.isDeltaTable(spark, self.path)
        return spark.catalog.tableExists(self.name or "")

    def schema(self, spark: SparkSession) -> StructType | None:
        """Return the columns, None when there is no table yet."""
        try:
            return self.open(spark).toDF().schema if self.exists(spark) else None
        except Exception as error:
            words = f"the table {self.where!r} cannot be read: {first_line(error)}"
            raise TableError(words) from error

    def create(
        self,
        spark: SparkSession,
        sink: DeltaSink,
        schema: StructType,
        properties: Mapping[str, str],
    ) -> None:
        """Make the empty table, when it is not there."""
        from delta.tables import DeltaTable

        nullable = [StructField(f.name, f.dataType, True, f.metadata) for f in schema.fields]
        builder: Any = DeltaTable.createIfNotExists(spark).addColumns(StructType(nullable))
        builder = builder.tableName(self._sql(spark))  # of a path: in quotes, and also as it is
        if self.path is not None:
            builder = builder.location(absolute(spark, self.path))
        for key, value in properties.items():
            builder = builder.property(key, value)
        if sink.partition_by:
            builder = builder.partitionedBy(*sink.partition_by)
        if sink.cluster_by:
            builder = builder.clusterBy(*map(quoted, sink.cluster_by))
        builder.execute()

    def check_layout(self, spark: SparkSession, sink: DeltaSink) -> None:
        """Check that a table that is there is partitioned and clustered as the sink says."""
        if not sink.partition_by and not sink.cluster_by:
            return  # to ask Delta for details takes seconds in a new JVM
        detail = self.open(spark).detail().collect()[0].asDict()
        for what, columns, key in (
            ("partition_by", sink.partition_by, "partitionColumns"),
            ("cluster_by", sink.cluster_by, "clusteringColumns"),
        ):
            actual = tuple(map(unquoted, detail.get(key) or ()))
            if columns and [c.lower() for c in actual] != [c.lower() for c in columns]:
                raise TableError(
                    f"{what} is {', '.join(columns)}, but the table {self.where!r} has "
                    f"{', '.join(actual) or 'none'}: it cannot be changed here"
                )


def missing_table(where: str, checkpoint: str, completed: int) -> TableError:
    """Make the error for a table that is gone after its query has completed a batch."""
    return TableError(
        f"the table {where!r} is gone, but the checkpoint {checkpoint!r} has completed batch "
        f"{completed}: what was read is not read again; put the table back, or give the job a new "
        "checkpoint, which makes the table again"
    )


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def check_columns(where: str, table: StructType, rows: StructType, evolves: bool) -> None:
    """Check that rows fit a table that is there: no column is missing or of another type."""
    by_name = {field.name.lower(): field for field in table.fields}
    new = [field.name for field in rows.fields if field.name.lower() not in by_name]
    if new and not evolves:
        raise TableError(
            f"the table {where!r} lacks the columns {elide(new, 5)}: leave them out, or set "
            "schema_evolution: on"
        )
    for field in rows.fields:
        known = by_name.get(field.name.lower())
        if known is None or _fits(known.dataType, field.dataType, evolves):
            continue
        was, now = known.dataType.simpleString(), field.dataType.simpleString()
        can_evolve = not evolves and _fits(known.dataType, field.dataType, True)
        cure = "; schema_evolution: on adds fields" if can_evolve else ""
        raise TableError(f"column {field.name!r} is {was} in the table {where!r}, {now} here{cure}")


def check_timestamps(
    where: str, table: StructType, rows: StructType, properties: Mapping[str, str]
) -> None:
    """Check that a new TIMESTAMP_NTZ column has the feature of Delta that it needs.

    Delta adds this feature to new tables alone, and refuses the column in the first batch.
    """
    had, has = ('ype":"timestamp_ntz"' in schema.json() for schema in (table, rows))
    # Delta's details have no features, and no version of the protocol.
    if has and not had and "delta.minReaderVersion" in properties and _NTZ not in properties:
        raise TableError(
            f"the table {where!r} cannot have columns of type TIMESTAMP_NTZ yet: run ALTER TABLE … "
            f"SET TBLPROPERTIES ('{_NTZ}' = 'supported'), or use another type"
        )


def _fits(table: DataType, rows: DataType, evolves: bool) -> bool:
    """Whether values of a type can be written: Delta compares names of fields without case.

    With schema evolution it adds new fields and fills those that the rows lack with null.
    """
    if isinstance(table, StructType) and isinstance(rows, StructType):
        was = {field.name.lower(): field.dataType for field in table.fields}
        now = {field.name.lower(): field.dataType for field in rows.fields}
        if not evolves and list(was) != list(now):
            return False
        return all(_fits(was[name], now[name], evolves) for name in was.keys() & now.keys())
    if isinstance(table, ArrayType) and isinstance(rows, ArrayType):
        return _fits(table.elementType, rows.elementType, evolves)
    if isinstance(table, MapType) and isinstance(rows, MapType):
        return _fits(table.keyType, rows.keyType, False) and _fits(
            table.valueType, rows.valueType, evolves
        )
    return table.simpleString() == rows.simpleString()

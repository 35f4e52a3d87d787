"""Create a sink's Delta table, or raise TableError if the existing table does not fit."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from assignor_bridge.errors import elide
from streaming.pipeline.errors import TableError, summarize
from streaming.pipeline.spark.columns import quote_name, unquote_name
from streaming.pipeline.spark.folders import qualify_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta.tables import DeltaTable
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

    from streaming.pipeline.config.sinks import DeltaSink

#: Heading of the partition columns in `DESCRIBE TABLE`.
_PARTITIONS = "# Partition Information"
#: Text with which Spark replaces a secret value (`Utils.REDACTION_REPLACEMENT_TEXT`).
_HIDDEN = "*********(redacted)"
#: The table feature that columns of type TIMESTAMP_NTZ need.
_NTZ = "delta.feature.timestampNtz"


class Table(NamedTuple):
    """A Delta table by path or by name."""

    path: str | None
    name: str | None

    @property
    def title(self) -> str:
        """The path or name, for messages."""
        return self.path or self.name or ""

    def open(self, spark: SparkSession) -> DeltaTable:
        """Return a Delta handle for the table."""
        from delta.tables import DeltaTable

        if self.path is not None:
            return DeltaTable.forPath(spark, self.path)
        return DeltaTable.forName(spark, self.name or "")

    def location(self, spark: SparkSession) -> str:
        """Return the folder of an existing table."""
        if self.path is not None:
            return qualify_path(spark, self.path)
        described = spark.sql(f"DESCRIBE TABLE EXTENDED {self.name}").collect()
        return next(str(r.data_type) for r in reversed(described) if r.col_name == "Location")

    def partition_columns(self, spark: SparkSession) -> list[str]:
        """Return the columns that an existing table is partitioned by."""
        described = spark.sql(f"DESCRIBE TABLE {self._sql(spark)}").collect()
        names = iter([row.col_name for row in described])
        if _PARTITIONS not in names:
            return []
        columns = itertools.takewhile(bool, names)
        return [unquote_name(name) for name in columns if not name.startswith("#")]

    def properties(self, spark: SparkSession) -> dict[str, str]:
        """Return the properties of an existing table.

        Spark's SQL masks values that it takes for secrets, such as `["url"]`. Only in that case,
        read Delta's details, which mask nothing but take seconds in a new JVM.
        """
        rows = spark.sql(f"SHOW TBLPROPERTIES {self._sql(spark)}").collect()
        if all(row.value != _HIDDEN for row in rows):
            return {row.key: row.value for row in rows}
        [details] = self.open(spark).detail().collect()
        properties: dict[str, str] = details["properties"]
        return properties

    def set_properties(self, spark: SparkSession, properties: Mapping[str, str]) -> None:
        """Set these properties, and leave the others unchanged."""
        pairs = ", ".join(f"{_quote(key)} = {_quote(value)}" for key, value in properties.items())
        spark.sql(f"ALTER TABLE {self._sql(spark)} SET TBLPROPERTIES ({pairs})")

    def _sql(self, spark: SparkSession) -> str:
        if self.path is None:
            return self.name or ""
        return f"delta.{quote_name(qualify_path(spark, self.path))}"

    def exists(self, spark: SparkSession) -> bool:
        """Return whether the table exists."""
        from delta.tables import DeltaTable

        if self.path is not None:
            return DeltaTable.isDeltaTable(spark, self.path)
        return spark.catalog.tableExists(self.name or "")

    def schema(self, spark: SparkSession) -> StructType | None:
        """Return the columns; None if the table does not exist."""
        try:
            return self.open(spark).toDF().schema if self.exists(spark) else None
        except Exception as error:
            message = f"the table {self.title!r} cannot be read: {summarize(error)}"
            raise TableError(message) from error

    def create(
        self,
        spark: SparkSession,
        sink: DeltaSink,
        schema: StructType,
        properties: Mapping[str, str],
    ) -> None:
        """Create an empty table, unless the table exists."""
        from delta.tables import DeltaTable

        nullable = [StructField(f.name, f.dataType, True, f.metadata) for f in schema.fields]
        builder: Any = DeltaTable.createIfNotExists(spark).addColumns(StructType(nullable))
        builder = builder.tableName(self._sql(spark))  # a path must be set as the location, too
        if self.path is not None:
            builder = builder.location(qualify_path(spark, self.path))
        for key, value in properties.items():
            builder = builder.property(key, value)
        if sink.partition_by:
            builder = builder.partitionedBy(*sink.partition_by)
        if sink.cluster_by:
            builder = builder.clusterBy(*map(quote_name, sink.cluster_by))
        builder.execute()

    def check_layout(self, spark: SparkSession, sink: DeltaSink) -> None:
        """Check that an existing table has the sink's partitioning and clustering."""
        if not sink.partition_by and not sink.cluster_by:
            return  # Delta's details take seconds in a new JVM
        detail = self.open(spark).detail().collect()[0].asDict()
        for key, columns, detail_key in (
            ("partition_by", sink.partition_by, "partitionColumns"),
            ("cluster_by", sink.cluster_by, "clusteringColumns"),
        ):
            actual = tuple(map(unquote_name, detail.get(detail_key) or ()))
            if columns and [c.lower() for c in actual] != [c.lower() for c in columns]:
                raise TableError(
                    f"{key} is {', '.join(columns)}, but the table {self.title!r} has "
                    f"{', '.join(actual) or 'none'}: change {key}, or use a new table"
                )


def lost_table_error(name: str, checkpoint: str, completed: int) -> TableError:
    """Return the error for a table that was removed after its query completed a batch."""
    return TableError(
        f"the table {name!r} no longer exists, but the checkpoint {checkpoint!r} has "
        f"completed batch {completed}, so its records are not read again: restore the table, or "
        "give the job a new checkpoint, which creates the table again"
    )


def _quote(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def check_columns(name: str, table: StructType, rows: StructType, schema_evolution: bool) -> None:
    """Check that rows fit an existing table: no column is missing or has another type."""
    by_name = {field.name.lower(): field for field in table.fields}
    new_columns = [repr(field.name) for field in rows.fields if field.name.lower() not in by_name]
    if new_columns and not schema_evolution:
        raise TableError(
            f"the table {name!r} does not have the columns {elide(new_columns, 5)}: remove them "
            "from the rows, or set schema_evolution: on"
        )
    for field in rows.fields:
        existing = by_name.get(field.name.lower())
        if existing is None or _fits(existing.dataType, field.dataType, schema_evolution):
            continue
        table_type, row_type = existing.dataType.simpleString(), field.dataType.simpleString()
        can_evolve = not schema_evolution and _fits(existing.dataType, field.dataType, True)
        remedy = "; schema_evolution: on adds fields" if can_evolve else ""
        problem = f"column {field.name!r} is {table_type} in the table {name!r}, but {row_type}"
        raise TableError(f"{problem} in the rows{remedy}")


def check_timestamps(
    name: str, table: StructType, rows: StructType, properties: Mapping[str, str]
) -> None:
    """Check that a table with a new TIMESTAMP_NTZ column has the table feature for it.

    Delta adds the feature only to new tables, and would refuse the column in the first batch.
    """
    was_used, is_used = ('ype":"timestamp_ntz"' in schema.json() for schema in (table, rows))
    # Properties from Delta's details omit the protocol's version and features.
    is_new = is_used and not was_used
    if is_new and "delta.minReaderVersion" in properties and _NTZ not in properties:
        raise TableError(
            f"the table {name!r} cannot have columns of type TIMESTAMP_NTZ yet: run ALTER TABLE "
            f"… SET TBLPROPERTIES ('{_NTZ}' = 'supported'), or use another type"
        )


def _fits(table: DataType, rows: DataType, schema_evolution: bool) -> bool:
    """Return whether the table's type accepts the rows' type; Delta ignores the case of fields.

    With schema evolution, Delta adds new fields and fills missing ones with null.
    """
    if isinstance(table, StructType) and isinstance(rows, StructType):
        old = {field.name.lower(): field.dataType for field in table.fields}
        new = {field.name.lower(): field.dataType for field in rows.fields}
        if not schema_evolution and list(old) != list(new):
            return False
        return all(_fits(old[x], new[x], schema_evolution) for x in old.keys() & new.keys())
    if isinstance(table, ArrayType) and isinstance(rows, ArrayType):
        return _fits(table.elementType, rows.elementType, schema_evolution)
    if isinstance(table, MapType) and isinstance(rows, MapType):
        return _fits(table.keyType, rows.keyType, False) and _fits(
            table.valueType, rows.valueType, schema_evolution
        )
    return table.simpleString() == rows.simpleString()

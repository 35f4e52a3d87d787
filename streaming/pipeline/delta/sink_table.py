"""Create a sink's Delta table, or raise TableError if the existing table does not fit."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from assignor_bridge.errors import elide
from streaming.pipeline.job_errors import TableError, summarize
from streaming.pipeline.spark.column_names import quote_name, unquote_name
from streaming.pipeline.spark.job_folders import qualify_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta.tables import DeltaTable
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

    from streaming.pipeline.config.sinks import DeltaSink

#: Heading of the partition columns in `DESCRIBE TABLE`.
_PARTITION_HEADING = "# Partition Information"
#: Text with which Spark replaces a secret value (`Utils.REDACTION_REPLACEMENT_TEXT`).
_REDACTED_VALUE = "*********(redacted)"
#: The table feature that columns of type TIMESTAMP_NTZ need.
_NTZ_FEATURE = "delta.feature.timestampNtz"


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

    def find_location(self, spark: SparkSession) -> str:
        """Return the folder of an existing table."""
        if self.path is not None:
            return qualify_path(spark, self.path)
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {self.name}").collect()
        return next(str(row.data_type) for row in reversed(rows) if row.col_name == "Location")

    def list_partition_columns(self, spark: SparkSession) -> list[str]:
        """Return the columns that an existing table is partitioned by."""
        rows = spark.sql(f"DESCRIBE TABLE {self._to_sql(spark)}").collect()
        names = iter([row.col_name for row in rows])
        if _PARTITION_HEADING not in names:
            return []
        columns = itertools.takewhile(bool, names)
        return [unquote_name(name) for name in columns if not name.startswith("#")]

    def read_properties(self, spark: SparkSession) -> dict[str, str]:
        """Return the properties of an existing table.

        Spark's SQL masks values that it takes for secrets, such as `["url"]`. Only in that case,
        read Delta's details, which mask nothing but take seconds in a new JVM.
        """
        rows = spark.sql(f"SHOW TBLPROPERTIES {self._to_sql(spark)}").collect()
        if all(row.value != _REDACTED_VALUE for row in rows):
            return {row.key: row.value for row in rows}
        [details] = self.open(spark).detail().collect()
        properties: dict[str, str] = details["properties"]
        return properties

    def set_properties(self, spark: SparkSession, properties: Mapping[str, str]) -> None:
        """Set these properties, and leave the others unchanged."""
        pairs = ", ".join(f"{_quote(key)} = {_quote(value)}" for key, value in properties.items())
        spark.sql(f"ALTER TABLE {self._to_sql(spark)} SET TBLPROPERTIES ({pairs})")

    def _to_sql(self, spark: SparkSession) -> str:
        if self.path is None:
            return self.name or ""  # as in the config, with its quotes
        return f"delta.{quote_name(qualify_path(spark, self.path))}"

    def exists(self, spark: SparkSession) -> bool:
        """Return whether the table exists."""
        from delta.tables import DeltaTable

        if self.path is not None:
            return DeltaTable.isDeltaTable(spark, self.path)
        return spark.catalog.tableExists(self.name or "")

    def read_schema(self, spark: SparkSession) -> StructType | None:
        """Return the schema; None without a table. Raise TableError if it cannot be read."""
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
        """Create an empty table with nullable columns, unless the table exists."""
        from delta.tables import DeltaTable

        nullable_fields = [StructField(f.name, f.dataType, True, f.metadata) for f in schema.fields]
        builder: Any = DeltaTable.createIfNotExists(spark).addColumns(StructType(nullable_fields))
        builder = builder.tableName(self._to_sql(spark))  # a path must be set as the location, too
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
        """Raise TableError if the sink sets other partition or cluster columns than the table's."""
        if not sink.partition_by and not sink.cluster_by:
            return  # Delta's details take seconds in a new JVM
        details = self.open(spark).detail().collect()[0].asDict()
        for key, columns, detail_key in (
            ("partition_by", sink.partition_by, "partitionColumns"),
            ("cluster_by", sink.cluster_by, "clusteringColumns"),
        ):
            table_columns = tuple(map(unquote_name, details.get(detail_key) or ()))
            if columns and [c.lower() for c in table_columns] != [c.lower() for c in columns]:
                raise TableError(
                    f"{key} is {', '.join(columns)}, but the table {self.title!r} has "
                    f"{', '.join(table_columns) or 'none'}: change {key}, or use a new table"
                )


def make_lost_table_error(title: str, checkpoint: str, completed_batch: int) -> TableError:
    """Return the error for a table that was removed after its query completed a batch."""
    return TableError(
        f"the table {title!r} no longer exists, but according to checkpoint {checkpoint!r}, its "
        f"query has completed batch {completed_batch}, so records up to that batch are not read "
        "again: restore the table, or start with a new checkpoint"
    )


def _quote(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def check_columns(
    title: str, table_schema: StructType, row_schema: StructType, schema_evolution: bool
) -> None:
    """Raise TableError if rows do not fit a table; new columns fit only with `schema_evolution`."""
    field_by_name = {field.name.lower(): field for field in table_schema.fields}
    new_columns = [repr(x.name) for x in row_schema.fields if x.name.lower() not in field_by_name]
    if new_columns and not schema_evolution:
        raise TableError(
            f"the table {title!r} lacks columns of the rows ({elide(new_columns, 5)}): select only "
            "the table's columns, or set schema_evolution: on"
        )
    for field in row_schema.fields:
        table_field = field_by_name.get(field.name.lower())
        if table_field is None or _fits(table_field.dataType, field.dataType, schema_evolution):
            continue
        table_type, row_type = table_field.dataType, field.dataType
        remedy = "cast it, or use a new table"
        if not schema_evolution and _fits(table_type, row_type, True):
            remedy = "set schema_evolution: on, which adds fields"
        types = [data_type.simpleString() for data_type in (table_type, row_type)]
        problem = f"column {field.name!r} is {types[0]} in the table {title!r}, but {types[1]}"
        raise TableError(f"{problem} in the rows: {remedy}")


def check_timestamps(
    title: str, table_schema: StructType, row_schema: StructType, properties: Mapping[str, str]
) -> None:
    """Raise TableError if rows add a first TIMESTAMP_NTZ column to a table without its feature.

    Delta adds the feature only to new tables, and would refuse the column in the first batch.
    """
    was_used, is_used = ('ype":"timestamp_ntz"' in x.json() for x in (table_schema, row_schema))
    # Properties from Delta's details omit the protocol's version and features.
    is_new = is_used and not was_used
    if is_new and "delta.minReaderVersion" in properties and _NTZ_FEATURE not in properties:
        raise TableError(
            f"the table {title!r} cannot have columns of type TIMESTAMP_NTZ yet: run ALTER TABLE "
            f"… SET TBLPROPERTIES ('{_NTZ_FEATURE}' = 'supported'), or use another type"
        )


def _fits(table_type: DataType, row_type: DataType, schema_evolution: bool) -> bool:
    """Return whether the table's type accepts the rows' type; Delta ignores the case of fields.

    With schema evolution, Delta adds new fields and fills missing ones with null. Otherwise, and in
    map keys, structs need the same fields in the same order.
    """
    if isinstance(table_type, StructType) and isinstance(row_type, StructType):
        table_types = {field.name.lower(): field.dataType for field in table_type.fields}
        row_types = {field.name.lower(): field.dataType for field in row_type.fields}
        if not schema_evolution and list(table_types) != list(row_types):
            return False
        names = table_types.keys() & row_types.keys()
        return all(_fits(table_types[x], row_types[x], schema_evolution) for x in names)
    if isinstance(table_type, ArrayType) and isinstance(row_type, ArrayType):
        return _fits(table_type.elementType, row_type.elementType, schema_evolution)
    if isinstance(table_type, MapType) and isinstance(row_type, MapType):
        return _fits(table_type.keyType, row_type.keyType, False) and _fits(
            table_type.valueType, row_type.valueType, schema_evolution
        )
    return table_type.simpleString() == row_type.simpleString()

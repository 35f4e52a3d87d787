"""A sink's Delta table: made or checked before a query starts, so that a misfit fails at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streaming.pipeline.failures import first_line
from streaming.pipeline.names import quoted
from streaming.pipeline.places import absolute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from delta.tables import DeltaTable
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


class TableError(ValueError):
    """A table that cannot be written as the sink asks."""


@dataclass(frozen=True, slots=True)
class Table:
    """A Delta table by path or by name."""

    path: str | None
    name: str | None

    @property
    def where(self) -> str:
        """The table as messages name it."""
        return self.path or self.name or ""

    def open(self, spark: SparkSession) -> DeltaTable:
        """Give the handle for merges and compaction."""
        from delta.tables import DeltaTable

        if self.path is not None:
            return DeltaTable.forPath(spark, self.path)
        return DeltaTable.forName(spark, self.name or "")

    def append(self, rows: DataFrame, **options: str) -> None:
        """Append a batch."""
        writer = rows.write.format("delta").mode("append").options(**options)
        if self.path is not None:
            writer.save(self.path)
        else:
            writer.saveAsTable(self.name or "")

    def location(self, spark: SparkSession) -> str:
        """Give the folder of a table that is there."""
        if self.path is not None:
            return absolute(spark, self.path)
        described = spark.sql(f"DESCRIBE TABLE EXTENDED {self.name}").collect()
        return next(str(r.data_type) for r in reversed(described) if r.col_name == "Location")

    def properties(self, spark: SparkSession) -> dict[str, str]:
        """Give the properties of a table that is there."""
        return {
            row.key: row.value
            for row in spark.sql(f"SHOW TBLPROPERTIES {self._sql(spark)}").collect()
        }

    def set_properties(self, spark: SparkSession, properties: Mapping[str, str]) -> None:
        """Write properties; the others stay."""
        pairs = ", ".join(f"{_text(key)} = {_text(value)}" for key, value in properties.items())
        spark.sql(f"ALTER TABLE {self._sql(spark)} SET TBLPROPERTIES ({pairs})")

    def _sql(self, spark: SparkSession) -> str:
        if self.path is None:
            return self.name or ""
        return f"delta.{quoted(absolute(spark, self.path))}"

    def schema(self, spark: SparkSession) -> StructType | None:
        """Give the columns, None when there is no table yet.

        Raises
        ------
        TableError
            When Spark takes it for no table, or no name of one.
        """
        from delta.tables import DeltaTable

        try:
            if self.path is not None:
                if not DeltaTable.isDeltaTable(spark, self.path):
                    return None
            elif not spark.catalog.tableExists(self.name or ""):
                return None
            return self.open(spark).toDF().schema
        except Exception as error:
            raise TableError(
                f"the table {self.where!r} cannot be read: {first_line(error)}"
            ) from error

    def create(
        self, spark: SparkSession, schema: StructType, partitions: tuple[str, ...],
        clusters: tuple[str, ...], properties: Mapping[str, str],
    ) -> None:  # fmt: skip
        """Make the empty table, when it is not there."""
        from delta.tables import DeltaTable
        from pyspark.sql.types import StructField, StructType

        nullable = StructType(
            [StructField(f.name, f.dataType, True, f.metadata) for f in schema.fields]
        )
        builder: Any = DeltaTable.createIfNotExists(spark).addColumns(nullable)
        if self.path:
            builder = builder.location(absolute(spark, self.path))  # Delta takes no other here
        else:
            builder = builder.tableName(self.name)
        for key, value in properties.items():
            builder = builder.property(key, value)
        if partitions:
            builder = builder.partitionedBy(*partitions)
        if clusters:
            builder = builder.clusterBy(*clusters)
        builder.execute()

    def check(
        self,
        spark: SparkSession,
        schema: StructType,
        *,
        evolves: bool,
        partitions: tuple[str, ...],
        clusters: tuple[str, ...],
        check_kept: Callable[[StructType], None],
    ) -> bool:
        """Check that rows of this schema fit; False when there is no table yet.

        `check_kept` is given the columns of the table that is there, before they are compared.

        Raises
        ------
        TableError
            When a column is missing or of another type, or the table is laid out otherwise.
        """
        names = {field.name.lower() for field in schema.fields}
        for what, columns in (("partition_by", partitions), ("cluster_by", clusters)):
            for column in columns:
                if column.lower() not in names:
                    raise TableError(f"{what}: {column!r} is no column of the rows")
        there = self.schema(spark)
        if there is None:
            return False
        check_kept(there)
        _compare(self.where, there, schema, evolves)
        if not partitions and not clusters:
            return True  # to ask Delta for details takes seconds in a new JVM
        detail = self.open(spark).detail().collect()[0].asDict()
        for what, columns, key in (
            ("partition_by", partitions, "partitionColumns"),
            ("cluster_by", clusters, "clusteringColumns"),
        ):
            found = tuple(detail.get(key) or ())
            if columns and [c.lower() for c in found] != [c.lower() for c in columns]:
                raise TableError(
                    f"{what} is {', '.join(columns)}, but the table {self.where!r} has "
                    f"{', '.join(found) or 'none'}: it cannot be changed here"
                )
        return True


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _compare(where: str, there: StructType, rows: StructType, evolves: bool) -> None:
    by_name = {field.name.lower(): field for field in there.fields}
    new = [field.name for field in rows.fields if field.name.lower() not in by_name]
    if new and not evolves:
        raise TableError(
            f"the table {where!r} lacks the columns {', '.join(new[:5])}: leave them out, or set "
            "schema_evolution: on"
        )
    for field in rows.fields:
        known = by_name.get(field.name.lower())
        if known is None:
            continue
        if not _fits(known.dataType, field.dataType, evolves):
            was, now = known.dataType.simpleString(), field.dataType.simpleString()
            cure = ""
            if not evolves and _fits(known.dataType, field.dataType, True):
                cure = "; schema_evolution: on adds fields"
            raise TableError(
                f"column {field.name!r} is {was} in the table {where!r}, {now} here{cure}"
            )


def _fits(there: DataType, rows: DataType, evolves: bool) -> bool:
    """Whether values of a type can be written: Delta compares names of fields without case.

    With schema evolution it adds new fields and fills those that the rows lack with null.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(there, StructType) and isinstance(rows, StructType):
        was = {field.name.lower(): field.dataType for field in there.fields}
        now = {field.name.lower(): field.dataType for field in rows.fields}
        if not evolves and list(was) != list(now):
            return False
        return all(_fits(was[name], now[name], evolves) for name in was.keys() & now.keys())
    if isinstance(there, ArrayType) and isinstance(rows, ArrayType):
        return _fits(there.elementType, rows.elementType, evolves)
    if isinstance(there, MapType) and isinstance(rows, MapType):
        return _fits(there.keyType, rows.keyType, False) and _fits(
            there.valueType, rows.valueType, evolves
        )
    return there.simpleString() == rows.simpleString()

"""Parse schemas, and compare and quote column names as the running Spark does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from streaming.pipeline.config.referenced_files import parse_schema_json
from streaming.pipeline.job_errors import summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType

_CASE_SENSITIVE = "spark.sql.caseSensitive"
#: Folder name that Hive gives to a partition whose value is null.
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def parse_schema(text: str) -> StructType:
    """Parse DDL or Spark's JSON with the running Spark; raise ValueError if it is invalid."""
    try:
        if text.lstrip().startswith("{"):
            return StructType.fromJson(parse_schema_json(text))
        schema = StructType.fromDDL(" ".join(text.split()))
    except (PySparkException, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the schema cannot be read: {summarize(error)}") from None
    if isinstance(schema, StructType):
        return schema
    raise ValueError("the schema is a type without columns: write columns such as 'id BIGINT'")


def get_name_normalizer(spark: SparkSession) -> Callable[[str], str]:
    """Return a function that normalizes names; names that Spark treats as equal become equal."""
    is_case_sensitive = str(spark.conf.get(_CASE_SENSITIVE, "false")).lower() == "true"
    return str if is_case_sensitive else str.lower


def quote_name(name: str) -> str:
    """Quote a name for SQL, so that a dot in it does not select a field of a struct.

    >>> quote_name("a.b`c")
    '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


def unquote_name(name: str) -> str:
    """Return a name without the quotes that Spark adds to unusual names.

    >>> unquote_name("a"), unquote_name("`a.b``c`")
    ('a', 'a.b`c')
    """
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def check_reserved_names(
    names: Iterable[str], reserved_names: Iterable[str], normalize: Callable[[str], str]
) -> None:
    """Raise ValueError if Spark would treat a name as equal to a reserved name.

    >>> check_reserved_names(["id", "_Kafka"], ["_kafka"], str.lower)
    Traceback (most recent call last):
    ValueError: the column '_Kafka' has a reserved name: use another
    """
    for name in names:
        if normalize(name) in map(normalize, reserved_names):
            raise ValueError(f"the column {name!r} has a reserved name: use another")


def survives_partitioning(column: Column, data_type: DataType) -> Column:
    """Return a condition that is true if a partition column can store the value unchanged.

    Delta writes it as text into a folder name, where empty text and Hive's name stand for null. A
    timestamp is written as local time, which is ambiguous for an hour when clocks are set back, and
    years need four digits. The condition is null for null.
    """
    if isinstance(data_type, (StringType, BinaryType)):
        text = column.cast("string")
        return ~text.isin("", _HIVE_NULL) & f.is_valid_utf8(text)
    if isinstance(data_type, (DateType, TimestampType, TimestampNTZType)):
        return (column.cast("string").cast(data_type) == column) & f.year(column).between(1, 9999)
    return f.lit(True)


def to_hashable(column: Column, data_type: DataType) -> Column:
    """Convert maps and variants, which Spark cannot hash, to values that it can hash.

    A map becomes the sorted list of its entries, a variant its JSON, whose fields Spark sorts.
    """
    if _is_hashable(data_type):
        return column
    if isinstance(data_type, StructType):
        fields = data_type.fields
        return f.struct(*(to_hashable(column.getField(x.name), x.dataType) for x in fields))
    if isinstance(data_type, ArrayType):
        return f.transform(column, lambda item: to_hashable(item, data_type.elementType))
    if isinstance(data_type, MapType):
        entries = f.transform(
            f.map_entries(column),
            lambda entry: f.struct(
                to_hashable(entry.getField("key"), data_type.keyType).alias("key"),
                to_hashable(entry.getField("value"), data_type.valueType).alias("value"),
            ),
        )
        return f.array_sort(entries)
    return f.to_json(column)


def _is_hashable(data_type: DataType) -> bool:
    if isinstance(data_type, StructType):
        return all(_is_hashable(field.dataType) for field in data_type.fields)
    if isinstance(data_type, ArrayType):
        return _is_hashable(data_type.elementType)
    return not isinstance(data_type, (MapType, VariantType))

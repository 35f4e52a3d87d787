"""Columns: read from DDL, and their names compared as the running Spark compares them."""

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

from streaming.pipeline.config.files import schema_json
from streaming.pipeline.errors import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType

_CASE_SENSITIVE = "spark.sql.caseSensitive"
#: The folder of a partition whose value is null.
_HIVES_NULL = "__HIVE_DEFAULT_PARTITION__"


def columns(text: str) -> StructType:
    """Read DDL, or Spark's JSON, with the running Spark; a ValueError says what is wrong."""
    try:
        if text.lstrip().startswith("{"):
            return StructType.fromJson(schema_json(text))
        kind = StructType.fromDDL(" ".join(text.split()))
    except (PySparkException, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the schema cannot be read: {first_line(error)}") from None
    if not isinstance(kind, StructType):
        raise ValueError(  # noqa: TRY004  (the text is wrong, not its type)
            "the schema names a type, but no columns: 'id BIGINT' is expected"
        )
    return kind


def get_name_normalizer(spark: SparkSession) -> Callable[[str], str]:
    """Return the function that makes names equal which Spark takes for one."""
    sensitive = str(spark.conf.get(_CASE_SENSITIVE, "false")).lower() == "true"
    return str if sensitive else str.lower


def quote_name(name: str) -> str:
    """Quote a name for SQL; a dot in it is then no step into a struct.

    >>> quote_name("a.b`c")
    '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


def unquote_name(name: str) -> str:
    """Return a name without the quotes that Spark puts around an unusual one.

    >>> unquote_name("a"), unquote_name("`a.b``c`")
    ('a', 'a.b`c')
    """
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def check_reserved_names(
    names: Iterable[str], ours: Iterable[str], fold: Callable[[str], str]
) -> None:
    """Raise ValueError when Spark takes one of the names for one of ours.

    >>> check_reserved_names(["id", "_Kafka"], ["_kafka"], str.lower)
    Traceback (most recent call last):
    ValueError: the column '_Kafka' has a reserved name: use another
    """
    for name in names:
        if fold(name) in map(fold, ours):
            raise ValueError(f"the column {name!r} has a reserved name: use another")


def survives_partitioning(column: Column, kind: DataType) -> Column:
    """Return whether a partition column of a Delta table gives the value back unchanged.

    Delta writes it as text into the name of a folder, where empty text and Hive's name stand for
    null, and a timestamp has the session's wall clock, which repeats an hour when clocks go back.
    """
    if isinstance(kind, (StringType, BinaryType)):
        text = column.cast("string")
        return ~text.isin("", _HIVES_NULL) & f.is_valid_utf8(text)
    if isinstance(kind, (DateType, TimestampType, TimestampNTZType)):
        return (column.cast("string").cast(kind) == column) & f.year(column).between(1, 9999)
    return f.lit(True)


def to_hashable(column: Column, kind: DataType) -> Column:
    """Return a column of the same content that Spark can hash; it hashes no map and no variant.

    A map becomes the sorted list of its entries, since equal maps may list them in another order,
    and a variant its JSON, whose fields Spark sorts.
    """
    if _is_hashable(kind):
        return column
    if isinstance(kind, StructType):
        parts = (to_hashable(column.getField(part.name), part.dataType) for part in kind.fields)
        return f.struct(*parts)
    if isinstance(kind, ArrayType):
        return f.transform(column, lambda item: to_hashable(item, kind.elementType))
    if isinstance(kind, MapType):
        entries = f.transform(
            f.map_entries(column),
            lambda entry: f.struct(
                to_hashable(entry.getField("key"), kind.keyType).alias("key"),
                to_hashable(entry.getField("value"), kind.valueType).alias("value"),
            ),
        )
        return f.array_sort(entries)
    return f.to_json(column)


def _is_hashable(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_is_hashable(part.dataType) for part in kind.fields)
    if isinstance(kind, ArrayType):
        return _is_hashable(kind.elementType)
    return not isinstance(kind, (MapType, VariantType))

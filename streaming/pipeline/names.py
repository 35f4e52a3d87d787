"""Names of columns compare as the running Spark compares them: by `spark.sql.caseSensitive`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession

_CASE_SENSITIVE = "spark.sql.caseSensitive"


def folding(spark: SparkSession) -> Callable[[str], str]:
    """Give the function that makes names equal which Spark takes for one."""
    sensitive = str(spark.conf.get(_CASE_SENSITIVE, "false")).lower() == "true"
    return str if sensitive else str.lower


def quoted(name: str) -> str:
    """Quote a name for SQL; a dot in it is then no step into a struct.

    >>> quoted("a.b`c")
    '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


def clashing(names: Iterable[str], ours: Iterable[str], fold: Callable[[str], str]) -> list[str]:
    """Give the names that Spark takes for one of ours.

    >>> clashing(["id", "_Kafka"], ["_kafka"], str.lower)
    ['_Kafka']
    """
    taken = {fold(name) for name in ours}
    return [name for name in names if fold(name) in taken]

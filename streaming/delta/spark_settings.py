"""Configure Spark for Delta: Maven coordinate and settings."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from assignor_bridge.errors import OptionError
from assignor_bridge.installed_spark import spark_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_VERSION = "4.4.0"
EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
#: Minor versions of Spark, oldest first.
_SPARK_VERSIONS_WITH_DELTA = ((4, 0), (4, 1), (4, 2))


def delta_coordinate(spark: str | None = None) -> str:
    """Return Delta's Maven coordinate for Spark's version `spark` (default: the installed one).

    A newer Spark gets the newest build; an older one without a build raises OptionError.

    >>> delta_coordinate("4.0.4"), delta_coordinate("4.9.1")
    ('io.delta:delta-spark_4.0_2.13:4.4.0', 'io.delta:delta-spark_4.2_2.13:4.4.0')
    """
    spark = spark or spark_version()
    major, minor = min(_parse_minor_version(spark), _SPARK_VERSIONS_WITH_DELTA[-1])
    if (major, minor) not in _SPARK_VERSIONS_WITH_DELTA:
        versions = " or ".join(f"{major}.{minor}" for major, minor in _SPARK_VERSIONS_WITH_DELTA)
        raise OptionError(f"no Delta version is known for Spark {spark}: use Spark {versions}")
    return f"io.delta:delta-spark_{major}.{minor}_2.13:{DELTA_VERSION}"


def describe_unknown_spark(spark: str) -> str | None:
    """Return a warning if Spark's version `spark` is newer than all known Delta builds, or None.

    >>> print(describe_unknown_spark("4.9.1"))
    no Delta is known for Spark 4.9.1: io.delta:delta-spark_4.2_2.13:4.4.0 may not work with it
    """
    if _parse_minor_version(spark) <= _SPARK_VERSIONS_WITH_DELTA[-1]:
        return None
    delta = delta_coordinate(spark)
    return f"no Delta is known for Spark {spark}: {delta} may not work with it"


def _parse_minor_version(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def configure_delta(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add Delta to a builder without `spark.jars.packages`; call `configure_spark` afterwards.

    Warns if the installed Spark is newer than Delta's builds; raises OptionError if it is older.
    """
    if warning := describe_unknown_spark(spark_version()):
        warnings.warn(warning, UserWarning, stacklevel=2)
    builder = builder.config("spark.jars.packages", delta_coordinate())
    builder = builder.config("spark.sql.extensions", EXTENSION)
    return builder.config("spark.sql.catalog.spark_catalog", _CATALOG)


def start_local_session(app_name: str) -> SparkSession:
    """Start a local Spark to read Delta tables, or return the running session."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName(app_name)
    builder = builder.config("spark.ui.enabled", "false")
    return configure_delta(builder.config("spark.ui.showConsoleProgress", "false")).getOrCreate()

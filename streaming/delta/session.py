"""Delta and the bridge: the coordinate that fits the Spark that will run, and the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge.errors import OptionError
from assignor_bridge.installed_spark import spark_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DELTA_VERSION = "4.4.0"
EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_LINES = ("4.0", "4.1", "4.2")


def delta_coordinate(spark: str | None = None) -> str:
    """Coordinate of the Delta that was built for this line of Spark.

    >>> delta_coordinate("4.0.4")
    'io.delta:delta-spark_4.0_2.13:4.4.0'
    """
    version = spark or spark_version()
    line = ".".join(version.split(".")[:2])
    if line not in _LINES:
        raise OptionError(
            f"no Delta version is known for Spark {version}, only for {', '.join(_LINES)}"
        )
    return f"io.delta:delta-spark_{line}_2.13:{_DELTA_VERSION}"


def configure_delta(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add Delta to a builder that has no packages yet; `configure_spark` then adds to them."""
    return (
        builder.config("spark.jars.packages", delta_coordinate())
        .config("spark.sql.extensions", EXTENSION)
        .config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
    )


def local_session(name: str) -> SparkSession:
    """Start Spark on this machine to read Delta tables, or join one that runs."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName(name)
    builder = builder.config("spark.ui.enabled", "false")
    return configure_delta(builder.config("spark.ui.showConsoleProgress", "false")).getOrCreate()

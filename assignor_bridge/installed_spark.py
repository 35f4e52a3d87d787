"""Which Spark will run: the one that SPARK_HOME names, else pip's pyspark.

pyspark starts the JVM from SPARK_HOME, of whatever version it is itself. What goes into that JVM
(the connector, Delta) must be of the JVM's version.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
from pathlib import Path

from assignor_bridge import ivy

#: The jar that every Spark has. Vendors add a word of their own behind the version.
_CORE = re.compile(r"spark-core_[\d.]+-(\d+\.\d+\.\d+).*\.jar")


def spark_home() -> Path:
    """Return the Spark whose `spark-submit` pyspark will run."""
    home = os.environ.get("SPARK_HOME")
    return Path(home) if home else ivy.pyspark_home()


def spark_version() -> str:
    """Return the version of the Spark that will run.

    Raises JarError when SPARK_HOME names no Spark, PackageNotFoundError without Spark and pyspark.
    """
    if not os.environ.get("SPARK_HOME"):
        return importlib.metadata.version("pyspark")
    home = spark_home()
    for jar in (home / "jars").glob("spark-core_*.jar"):
        if named := _CORE.fullmatch(jar.name):
            return named[1]
    raise ivy.JarError(
        f"SPARK_HOME ({home}) holds no Spark (no jars/spark-core_2.13-*.jar): "
        "correct it, or unset it to use pip's pyspark"
    )


def describe_mismatch() -> str | None:
    """Return a sentence when SPARK_HOME's Spark is of another version than pip's pyspark."""
    version = spark_version()
    try:
        pip = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return None
    if pip == version:
        return None
    return f"SPARK_HOME ({spark_home()}) holds Spark {version}, and pip's pyspark is {pip}"

"""Find the Spark installation that will run: the one in SPARK_HOME, or else pip's pyspark.

pyspark starts the JVM from SPARK_HOME, even if the versions differ. The jars in that JVM (the
connector, Delta) must match the version in SPARK_HOME.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
from pathlib import Path

from assignor_bridge import ivy

#: Name of the Spark core jar, with Spark's version. Vendors may append a suffix to the version.
_CORE_JAR = re.compile(r"spark-core_[\d.]+-(\d+\.\d+\.\d+).*\.jar")


def spark_home() -> Path:
    """Return the Spark folder whose `spark-submit` pyspark will run; raise JarError if none."""
    home = os.environ.get("SPARK_HOME")
    return Path(home) if home else ivy.pyspark_home()


def spark_version() -> str:
    """Return the Spark version that will run; raise JarError or PackageNotFoundError if none."""
    if not os.environ.get("SPARK_HOME"):
        return importlib.metadata.version("pyspark")
    home = spark_home()
    for jar in (home / "jars").glob("spark-core_*.jar"):
        if match := _CORE_JAR.fullmatch(jar.name):
            return match[1]
    raise ivy.JarError(
        f"SPARK_HOME ({home}) has no Spark (no jars/spark-core_2.13-*.jar): "
        "correct it, or unset it to use pip's pyspark"
    )


def describe_mismatch() -> str | None:
    """Return a warning if SPARK_HOME and an installed pyspark differ in version, or else None."""
    version = spark_version()
    try:
        pip_version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return None
    if pip_version == version:
        return None
    return f"SPARK_HOME ({spark_home()}) has Spark {version}, but pip's pyspark is {pip_version}"

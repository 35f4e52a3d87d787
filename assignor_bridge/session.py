"""`configure_spark`: add the bridge to a `SparkSession.builder`, next to what the user set there.

Spark fetches packages when its JVM starts, so this must happen before the first session. Under
`spark-submit` the JVM is there already: the flags that `assignor jars` prints do it then. Here
they are fetched before the JVM starts, so that a package that cannot be had is one line.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from assignor_bridge import spark_packages
from assignor_bridge.errors import OptionError
from assignor_bridge.installed_spark import spark_home, spark_version
from assignor_bridge.jars import prepare_packages
from assignor_bridge.tested_spark import describe_untested

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES = "spark.jars.packages"
_REPOSITORIES = "spark.jars.repositories"
_PYTHON = "spark.assignor.python"
_ENTRY_POINT = "io.assignorbridge.AssignorExtensions"
_ADVICE = (
    "spark.jars.repositories can name a mirror, "
    "and spark.jars.packages another version of the connector"
)
#: What is set on the builder of a JVM that runs has no effect.
_TOO_LATE = (
    "configure_spark cannot add assignor-bridge to the JVM that spark-submit has started: "
    "give it the flags that `assignor jars` prints, `spark-submit $(assignor jars) job.py`"
)


def configure_spark(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add the bridge's jar, Spark's Kafka connector and the planner's interpreter to a builder.

    The user's own packages, repositories and extensions stay (those of `spark-defaults.conf` too).
    Call it after other helpers that set packages, such as `configure_spark_with_delta_pip`, which
    replace what is there. The bridge does nothing until a stream or the session names an assignor.

    Parameters
    ----------
    builder
        A `SparkSession.builder` on which `getOrCreate` was not called yet.

    Returns
    -------
    SparkSession.Builder
        The same builder.

    Raises
    ------
    OptionError
        When `spark.jars` is set on the builder too (Spark would then lose all packages on the
        executors), or when a session of this process has started a JVM without the bridge.
    JarError
        When the jar is not built, or a package cannot be fetched.

    Warns
    -----
    UserWarning
        When the bridge was not tested on the Spark that will run; under spark-submit, when its JVM
        does not have the bridge.

    Examples
    --------
    With Delta, and packages of one's own::

        builder = SparkSession.builder.config("spark.jars.packages", "org.example:udfs:1.0")
        spark = configure_spark(configure_spark_with_delta_pip(builder)).getOrCreate()
    """
    options: dict[str, str] = getattr(builder, "_options", {})
    builder = builder.config(_PYTHON, options.get(_PYTHON) or sys.executable)
    # The jars of a client of Spark Connect belong on its server.
    is_client = bool(options.get("spark.remote") or os.environ.get("SPARK_REMOTE"))
    if _is_submitted():
        if not is_client and not _has_bridge():
            warnings.warn(_TOO_LATE, UserWarning, stacklevel=2)
        return builder
    if _jvm_is_running():
        return builder
    if options.get("spark.jars"):
        raise OptionError(
            "spark.jars is set on the builder: Spark would then lose the packages (the Kafka "
            "connector, assignor-bridge) on its executors. Name those jars in spark.jars.packages, "
            "or give them to spark-submit with --jars"
        )
    ours = prepare_packages()
    # A value on the builder would replace that of spark-defaults.conf.
    settings = read_spark_defaults() | {key: value for key, value in options.items() if value}
    coordinates = _listed(settings.get(_PACKAGES))
    # A user who named another version of the connector keeps it.
    named = {_module(coordinate) for coordinate in coordinates}
    coordinates += [c for c in ours.coordinates if _module(c) not in named]
    repositories = _listed(settings.get(_REPOSITORIES))
    if ours.repository not in repositories:
        repositories.append(ours.repository)
    added = {_PACKAGES: ",".join(coordinates), _REPOSITORIES: ",".join(repositories)}
    if untested := describe_untested(spark_version()):
        warnings.warn(untested, UserWarning, stacklevel=2)
    if not is_client:
        spark_packages.resolve(settings | added, _ADVICE)
    for key, value in added.items():
        builder = builder.config(key, value)
    return builder


def _jvm_is_running() -> bool:
    """Return whether this process has a JVM already; raise when it lacks the bridge."""
    from pyspark import SparkContext

    if SparkContext._gateway is None:
        return False
    if not _has_bridge():
        raise OptionError(
            "Spark's JVM is running in this process without assignor-bridge: call configure_spark "
            "before the first session of the process (a stopped session leaves its JVM running)"
        )
    return True


def _is_submitted() -> bool:
    """Return whether spark-submit has started this process, and before it a JVM by its flags."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _has_bridge() -> bool:
    """Return whether the JVM of this process sees our jar."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()  # under spark-submit: connect to it
    gateway = SparkContext._gateway
    if gateway is None:
        return False
    loader = gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(_ENTRY_POINT.replace(".", "/") + ".class") is not None


def _listed(text: str | None) -> list[str]:
    return [item.strip() for item in (text or "").split(",") if item.strip()]


def _module(coordinate: str) -> str:
    return coordinate.rpartition(":")[0]


def read_spark_defaults() -> dict[str, str]:
    """Read `spark-defaults.conf` of the Spark that will run."""
    folder = os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf"
    path = Path(folder, "spark-defaults.conf")
    if not path.is_file():
        return {}
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    pairs = (re.split(r"\s*=\s*|\s+", line.strip(), maxsplit=1) for line in lines)
    return {pair[0]: pair[1] for pair in pairs if len(pair) > 1 and not pair[0].startswith("#")}

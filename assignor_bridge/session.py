"""`configure_spark`: add the bridge to a `SparkSession.builder` and keep the user's settings.

Spark fetches packages when its JVM starts, so call it before the first session. `spark-submit`
starts the JVM itself, so pass `spark-submit` the flags that `assignor jars` prints. This module
fetches the packages before the JVM starts, so a missing package gives a one-line error.
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
#: The builder's settings have no effect on a running JVM.
_TOO_LATE = (
    "configure_spark cannot add assignor-bridge to the JVM that spark-submit has started: "
    "pass the flags that `assignor jars` prints, as in `spark-submit $(assignor jars) job.py`"
)


def configure_spark(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add the bridge's jar, Spark's Kafka connector and the planner's interpreter to a builder.

    Your packages, repositories and extensions are kept, including those in `spark-defaults.conf`.
    Call it after helpers that replace the packages, such as `configure_spark_with_delta_pip`. The
    bridge does nothing until a stream or the session names an assignor. If a JVM with the bridge is
    already running, only the interpreter is added.

    Parameters
    ----------
    builder
        A `SparkSession.builder` on which `getOrCreate` has not been called.

    Returns
    -------
    SparkSession.Builder
        The same builder.

    Raises
    ------
    OptionError
        If the builder also sets `spark.jars` (all packages would then be missing on the executors),
        or if this process has started a JVM without the bridge.
    JarError
        If the jar is not built, Java, Spark, or a package is missing, or the cache is not usable.

    Warns
    -----
    UserWarning
        If the bridge was not tested on the Spark version that will run, or if spark-submit has
        started a JVM without the bridge.

    Examples
    --------
    With Delta and another package::

        builder = SparkSession.builder.config("spark.jars.packages", "org.example:udfs:1.0")
        spark = configure_spark(configure_spark_with_delta_pip(builder)).getOrCreate()
    """
    options: dict[str, str] = getattr(builder, "_options", {})
    builder = builder.config(_PYTHON, options.get(_PYTHON) or sys.executable)
    # With Spark Connect, the server needs the jars and the client does not.
    is_client = bool(options.get("spark.remote") or os.environ.get("SPARK_REMOTE"))
    if _is_submitted():
        if not is_client and not _has_bridge():
            warnings.warn(_TOO_LATE, UserWarning, stacklevel=2)
        return builder
    if _jvm_is_running():
        return builder
    if options.get("spark.jars"):
        raise OptionError(
            "spark.jars is set on the builder, so the executors would not get the packages (the "
            "Kafka connector, assignor-bridge): move its jars to spark.jars.packages, or pass them "
            "to spark-submit with --jars"
        )
    bridge_packages = prepare_packages()
    # A value on the builder replaces the one in spark-defaults.conf, so merge them.
    settings = read_spark_defaults() | {key: value for key, value in options.items() if value}
    coordinates = _split_list(settings.get(_PACKAGES))
    # Keep the user's version of a module that both lists name, such as the connector.
    user_modules = {_get_module(coordinate) for coordinate in coordinates}
    coordinates += [c for c in bridge_packages.coordinates if _get_module(c) not in user_modules]
    repositories = _split_list(settings.get(_REPOSITORIES))
    if bridge_packages.repository not in repositories:
        repositories.append(bridge_packages.repository)
    added_settings = {_PACKAGES: ",".join(coordinates), _REPOSITORIES: ",".join(repositories)}
    if warning := describe_untested(spark_version()):
        warnings.warn(warning, UserWarning, stacklevel=2)
    if not is_client:
        spark_packages.resolve(settings | added_settings, _ADVICE)
    for key, value in added_settings.items():
        builder = builder.config(key, value)
    return builder


def _jvm_is_running() -> bool:
    """Return whether this process has a JVM; raise OptionError if the JVM has no bridge jar."""
    from pyspark import SparkContext

    if SparkContext._gateway is None:
        return False
    if not _has_bridge():
        raise OptionError(
            "this process has started Spark's JVM without assignor-bridge: call configure_spark "
            "before the first session of the process (a stopped session leaves its JVM running)"
        )
    return True


def _is_submitted() -> bool:
    """Return whether spark-submit has started this process and its JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _has_bridge() -> bool:
    """Return whether the bridge jar is on the class path of this process's JVM."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()  # connects to the JVM of spark-submit
    gateway = SparkContext._gateway
    if gateway is None:
        return False
    loader = gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(_ENTRY_POINT.replace(".", "/") + ".class") is not None


def _split_list(text: str | None) -> list[str]:
    return [item.strip() for item in (text or "").split(",") if item.strip()]


def _get_module(coordinate: str) -> str:
    return coordinate.rpartition(":")[0]


def read_spark_defaults() -> dict[str, str]:
    """Return the settings in `spark-defaults.conf`, if any, of the Spark that will run."""
    folder = os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf"
    path = Path(folder, "spark-defaults.conf")
    if not path.is_file():
        return {}
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    pairs = (re.split(r"\s*=\s*|\s+", line.strip(), maxsplit=1) for line in lines)
    return {pair[0]: pair[1] for pair in pairs if len(pair) > 1 and not pair[0].startswith("#")}

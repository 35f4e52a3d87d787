"""Look at what the bridge needs on this machine; Spark's packages are fetched if need be.

Whether a package can be had shows only by fetching it, and the first start needs it anyway.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from assignor_bridge import ivy, jars, spark_packages, tested_spark
from assignor_bridge.errors import AssignorError
from assignor_bridge.installed_spark import describe_mismatch, spark_version
from streaming.delta.session import delta_coordinate, describe_unknown_spark
from streaming.observe.check import Check

if TYPE_CHECKING:
    from collections.abc import Callable

    from streaming.kafka.brokers import Brokers

_JAVAS = ("17", "21")


def examine() -> list[Check]:
    """Check each thing that is needed."""
    return [
        _python(),
        _java(),
        _spark(),
        _jar(),
        _folders(),
        _package("Spark's Kafka connector", jars.connector_coordinate),
        _delta(),
    ]


def _python() -> Check:
    version = platform.python_version()
    return Check(
        "Python 3.10 or later", sys.version_info >= (3, 10), f"{version}, {sys.executable}"
    )


def _java() -> Check:
    what = "Java 17 or 21"
    try:
        java = ivy.find_tool("java")
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except (ivy.JarError, OSError) as error:
        return Check(what, False, str(error))
    text = answer.stderr.strip()
    version = re.search(r'version "(\d+)', text)
    fits = version is not None and version[1] in _JAVAS
    compiler = ""
    try:
        ivy.find_tool("javac")
    except ivy.JarError:
        compiler = "; without javac, which the embedded broker and `make jar` need"
    first = text.splitlines()[0] if text else "java prints nothing"
    return Check(what, fits, f"{first}, {java}{compiler}")


def _folders() -> Check:
    """Look whether jars can be kept and a log written; a run needs both."""
    what = "the cache for jars can be written"
    try:
        with ivy.lock_cache("doctor"):
            return Check(what, True, str(ivy.cache_folder()))
    except ivy.JarError as error:
        return Check(what, False, str(error))


def _spark() -> Check:
    what = "Spark 4.0.1 or later"
    try:
        version = spark_version()
    except importlib.metadata.PackageNotFoundError:
        return Check(what, False, f"not installed: {tested_spark.INSTALL}")
    except ivy.JarError as error:
        return Check(what, False, str(error))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    details = tested_spark.describe_untested(version) or describe_mismatch() or version
    return Check(what, numbers >= (4, 0, 1), details)


def _jar() -> Check:
    what = "the bridge's jar is built"
    try:
        return Check(what, True, jars.find_built_jar().name)
    except ivy.JarError as error:
        return Check(what, False, str(error))


def _package(what: str, coordinate_of: Callable[[], str]) -> Check:
    """Have Spark resolve a package as its first start would."""
    try:
        coordinate = coordinate_of()
        was_there = spark_packages.resolve(
            {"spark.jars.packages": coordinate}, "spark.jars.repositories can name a mirror"
        )
    except importlib.metadata.PackageNotFoundError:
        return Check(what, False, "unknown without pyspark")
    except AssignorError as error:
        return Check(what, False, str(error))
    return Check(what, True, f"{coordinate}, {'in the cache' if was_there else 'fetched now'}")


def _delta() -> Check:
    what = "Delta (for assignor run)"
    if importlib.util.find_spec("delta") is None:
        return Check(what, True, "not installed: only jobs need the extra 'delta'")
    check = _package(what, delta_coordinate)
    other = describe_unknown_spark(spark_version()) if check.holds else None
    return Check(check.name, check.holds, f"{check.details}; {other}") if other else check


def brokers_answer(brokers: Brokers) -> Check:
    """Return the check of brokers that let us in."""
    topics = len(brokers.list_all_partitions())
    return Check("brokers answer", True, f"{brokers.count} brokers, {topics} topics")

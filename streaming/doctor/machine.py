"""Check the requirements of assignor-bridge on this machine.

Spark's packages are downloaded to check that they are available. Spark needs them anyway.
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
from assignor_bridge.errors import AssignorError, pluralize
from assignor_bridge.installed_spark import describe_mismatch, spark_version
from streaming.delta.spark_settings import delta_coordinate, describe_unknown_spark
from streaming.observe.check_result import Check

if TYPE_CHECKING:
    from collections.abc import Callable

    from streaming.kafka.brokers import Brokers

_JAVA_VERSIONS = ("17", "21")


def examine_machine() -> list[Check]:
    """Check each requirement."""
    return [
        _check_python(),
        _check_java(),
        _check_spark(),
        _check_jar(),
        _check_cache_folder(),
        _check_package("Spark's Kafka connector", jars.connector_coordinate),
        _check_delta(),
    ]


def _check_python() -> Check:
    details = f"{platform.python_version()}, {sys.executable}"
    return Check("Python 3.10 or later", sys.version_info >= (3, 10), details)


def _check_java() -> Check:
    name = "Java 17 or 21"
    try:
        java = ivy.find_tool("java")
        process = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except (ivy.JarError, OSError) as error:
        return Check(name, False, str(error))
    text = process.stderr.strip()
    version_match = re.search(r'version "(\d+)', text)
    is_supported = version_match is not None and version_match[1] in _JAVA_VERSIONS
    javac_note = ""
    try:
        ivy.find_tool("javac")
    except ivy.JarError:
        javac_note = "; javac is missing (the embedded broker and `make jar` need it)"
    first_line = text.splitlines()[0] if text else "`java -version` printed nothing"
    return Check(name, is_supported, f"{first_line}, {java}{javac_note}")


def _check_cache_folder() -> Check:
    name = "the jar cache is writable"
    try:
        with ivy.lock_cache("doctor"):
            return Check(name, True, str(ivy.cache_folder()))
    except ivy.JarError as error:
        return Check(name, False, str(error))


def _check_spark() -> Check:
    name = "Spark 4.0.1 or later"
    try:
        version = spark_version()
    except importlib.metadata.PackageNotFoundError:
        return Check(name, False, f"not installed: {tested_spark.INSTALL}")
    except ivy.JarError as error:
        return Check(name, False, str(error))
    version_numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    mismatch = describe_mismatch()
    if mismatch is not None:
        mismatch += f": install pyspark=={version}, or unset SPARK_HOME"
    details = tested_spark.describe_untested(version) or mismatch or version
    return Check(name, version_numbers >= (4, 0, 1), details)


def _check_jar() -> Check:
    name = "the assignor-bridge jar is built"
    try:
        return Check(name, True, jars.find_built_jar().name)
    except ivy.JarError as error:
        return Check(name, False, str(error))


def _check_package(name: str, get_coordinate: Callable[[], str]) -> Check:
    """Let Spark resolve a package, as at its first start with it; not if the cache is read-only."""
    try:
        coordinate = get_coordinate()
        was_cached = spark_packages.resolve(
            {"spark.jars.packages": coordinate}, "spark.jars.repositories can name a mirror"
        )
    except importlib.metadata.PackageNotFoundError:
        return Check(name, False, "unknown, because pyspark is not installed")
    except AssignorError as error:
        return Check(name, False, str(error))
    cache_state = "in the cache" if was_cached else "not in the cache before"
    return Check(name, True, f"{coordinate}, {cache_state}")


def _check_delta() -> Check:
    name = "Delta (for assignor run)"
    if importlib.util.find_spec("delta") is None:
        return Check(name, True, "not installed: `assignor run` needs the extra 'delta'")
    check = _check_package(name, delta_coordinate)
    note = describe_unknown_spark(spark_version()) if check.holds else None
    return Check(check.name, check.holds, f"{check.details}; {note}") if note else check


def check_brokers(brokers: Brokers) -> Check:
    """Check that the brokers list their topics, or raise BrokerUnreachableError."""
    topics = pluralize(len(brokers.list_all_partitions()), "topic")
    return Check("brokers answer", True, f"{pluralize(brokers.broker_count, 'broker')}, {topics}")

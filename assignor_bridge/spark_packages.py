"""Resolve Spark's packages into Spark's Ivy cache before a driver starts.

Spark resolves `spark.jars.packages` while its JVM starts. Ivy does not lock its cache, so two
drivers that start at once on a new machine can break each other's downloads. A missing package
fails with sixty lines of Ivy output and JAVA_GATEWAY_EXITED. So Spark's own code first resolves the
packages, under a lock, unless assignor-bridge's cache has a list of their jars, which all exist.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from assignor_bridge import ivy
from assignor_bridge.installed_spark import spark_home

if TYPE_CHECKING:
    from collections.abc import Mapping

_JARS_SETTINGS = ("packages", "repositories", "excludes", "ivy", "ivySettings")
#: Spark settings that determine the packages, the repositories, the cache, and any proxy.
SETTINGS = (*(f"spark.jars.{name}" for name in _JARS_SETTINGS), "spark.driver.extraJavaOptions")
#: A main class that every Spark contains and that only prints Hadoop's version.
_HARMLESS_MAIN = "org.apache.hadoop.util.VersionInfo"
_ENV_FILE = "spark-env.sh"
_STORED_FOLDER = re.compile(r"^The jars for the packages stored in: (.+)$", re.MULTILINE)


def resolve(settings: Mapping[str, str], advice: str) -> bool:
    """Resolve `spark.jars.packages` into Spark's Ivy cache; return whether they were already there.

    Uses only `SETTINGS`. If assignor-bridge's cache is read-only, resolve nothing and return False.
    Raises JarError if Java is missing, or a package (with the repositories' answers and `advice`).
    """
    if not Path(os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf", _ENV_FILE).is_file():
        ivy.find_tool("java")  # without this file, Spark finds Java in the same way; fail early
    relevant_settings = {key: settings[key] for key in SETTINGS if settings.get(key)}
    spark_path = str(spark_home().resolve())
    settings_hash = hashlib.sha256(
        json.dumps([spark_path, sorted(relevant_settings.items())]).encode()
    ).hexdigest()[:24]
    jar_list = ivy.cache_folder() / "spark-packages" / f"{settings_hash}.json"
    if _is_resolved(jar_list):
        return True
    try:
        with ivy.lock_cache("spark-packages"):
            if not _is_resolved(jar_list):
                ivy.retry(partial(_run_spark_submit, relevant_settings, jar_list, advice))
    except ivy.CacheError:
        pass  # read-only, as in a container; Spark then resolves the packages itself
    return False


def _is_resolved(jar_list: Path) -> bool:
    """Return whether the list and all jars in it exist."""
    try:
        jars = json.loads(jar_list.read_text(encoding="utf-8"))["jars"]
        return all(Path(jar).is_file() for jar in jars)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _run_spark_submit(settings: Mapping[str, str], jar_list: Path, advice: str) -> None:
    home = spark_home()
    # Spark's own script applies the same proxies and other settings as a normal start.
    command = [str(home / "bin" / "spark-submit"), "--master", "local"]
    command += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    command += ["--class", _HARMLESS_MAIN, "spark-internal"]
    env = {**os.environ, "SPARK_HOME": str(home)}
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    except OSError as error:
        problem = f"cannot run {command[0]} ({error.strerror}): check SPARK_HOME or pip's pyspark"
        raise ivy.JarError(problem) from None
    output = process.stdout + process.stderr
    stored_match = _STORED_FOLDER.search(output)
    if process.returncode != 0 or stored_match is None:
        raise ivy.make_resolution_error(output, settings["spark.jars.packages"], advice)
    folder = Path(stored_match[1].strip())
    expected_jars = [folder / _make_jar_name(c) for c in settings["spark.jars.packages"].split(",")]
    jars = [str(jar) for jar in expected_jars if jar.is_file()]  # a package may have only a POM
    ivy.write_file(jar_list, json.dumps({"jars": jars}).encode())


def _make_jar_name(coordinate: str) -> str:
    """Return the file name of a package's jar in Spark's Ivy folder.

    >>> _make_jar_name(" io.delta:delta-spark_4.0_2.13:4.4.0")
    'io.delta_delta-spark_4.0_2.13-4.4.0.jar'
    """
    group, artifact, version = coordinate.strip().replace("/", ":").split(":")
    return f"{group}_{artifact}-{version}.jar"

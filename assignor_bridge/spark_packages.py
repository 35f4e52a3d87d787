"""Have Spark's packages in Spark's own Ivy cache before a driver starts.

Spark resolves `spark.jars.packages` while its JVM starts. Ivy does not lock that cache, so two
drivers that start at once on a new machine can break each other's downloads; and when a package
cannot be had, the user gets sixty lines of Ivy and a bare JAVA_GATEWAY_EXITED. So the resolution
is done once beforehand, by Spark's own code with the same settings, under a lock. What was resolved
is noted in our cache, and later starts only look at the note.
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

#: Settings of Spark that decide what is resolved, from where and into which cache.
SETTINGS = (
    "spark.jars.packages", "spark.jars.repositories", "spark.jars.excludes",
    "spark.jars.ivy", "spark.jars.ivySettings", "spark.driver.extraJavaOptions",
)  # fmt: skip
#: A main class that Spark always carries and that does nothing but print Hadoop's version.
_HARMLESS_MAIN = "org.apache.hadoop.util.VersionInfo"
_ENV = "spark-env.sh"
_STORED = re.compile(r"^The jars for the packages stored in: (.+)$", re.MULTILINE)


def resolve(settings: Mapping[str, str], advice: str) -> bool:
    """Resolve `spark.jars.packages` into Spark's Ivy cache; return whether it was done before.

    Of Spark's `settings` only those in `SETTINGS` matter. Raises JarError, which ends with
    `advice`, when a package cannot be fetched: which, from where, and what the repositories
    answered; also when there is no Java to start Spark with.
    """
    if not Path(os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf", _ENV).is_file():
        ivy.find_tool("java")  # else that file may name one; its absence is a better message here
    chosen = {key: settings[key] for key in SETTINGS if settings.get(key)}
    spark = str(spark_home().resolve())
    key = hashlib.sha256(json.dumps([spark, sorted(chosen.items())]).encode()).hexdigest()[:24]
    note = ivy.cache_folder() / "spark-packages" / f"{key}.json"
    if _is_resolved(note):
        return True
    try:
        with ivy.lock_cache("spark-packages"):
            if not _is_resolved(note):
                ivy.retry(partial(_resolve_now, chosen, note, advice))
    except ivy.CacheError:
        pass  # read-only, as in a container; Spark resolves into a cache of its own
    return False


def _is_resolved(note: Path) -> bool:
    """Return whether the note exists, and all the jars that it names."""
    try:
        jars = json.loads(note.read_text(encoding="utf-8"))["jars"]
        return all(Path(jar).is_file() for jar in jars)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _resolve_now(chosen: Mapping[str, str], note: Path, advice: str) -> None:
    home = spark_home()
    # By Spark's own script, so that proxies and what else its start is given hold here, too.
    command = [str(home / "bin" / "spark-submit"), "--master", "local"]
    command += [word for key, value in chosen.items() for word in ("--conf", f"{key}={value}")]
    command += ["--class", _HARMLESS_MAIN, "spark-internal"]
    environment = {**os.environ, "SPARK_HOME": str(home)}
    try:
        spark = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment
        )
    except OSError as error:
        raise ivy.JarError(f"{command[0]} cannot be run: {error.strerror}") from None
    output = spark.stdout + spark.stderr
    stored = _STORED.search(output)
    if spark.returncode != 0 or stored is None:
        raise ivy.resolution_error(output, chosen["spark.jars.packages"], advice)
    folder = Path(stored[1].strip())
    named = [folder / _file_name(c) for c in chosen["spark.jars.packages"].split(",")]
    jars = [str(jar) for jar in named if jar.is_file()]  # a package may be a POM alone
    ivy.write_file(note, json.dumps({"jars": jars}).encode())


def _file_name(coordinate: str) -> str:
    """Return the name under which Spark keeps a package's jar next to its Ivy cache.

    >>> _file_name(" io.delta:delta-spark_4.0_2.13:4.4.0")
    'io.delta_delta-spark_4.0_2.13-4.4.0.jar'
    """
    group, artifact, version = coordinate.strip().replace("/", ":").split(":")
    return f"{group}_{artifact}-{version}.jar"

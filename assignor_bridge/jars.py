"""Find the built jar and write it into a local Maven repository, from which Spark fetches it.

Spark ships packages to executors in every deploy mode. `spark.jars` does not work: if a builder
sets it together with `spark.jars.packages`, the packages are missing on the executors.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assignor_bridge import ivy
from assignor_bridge.installed_spark import spark_version
from assignor_bridge.tested_spark import connector_version

GROUP = "io.assignorbridge"
ARTIFACT = "assignor-bridge"
JARS_FOLDER = Path(__file__).parent / "jars"
_POM = """<?xml version="1.0" encoding="UTF-8"?>
<project><modelVersion>4.0.0</modelVersion>
<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
<name>{artifact}</name>
<description>{description}</description>
<licenses><license><name>Apache-2.0</name></license></licenses>
</project>
"""
_DESCRIPTION = "Plans what Spark's Kafka source reads; requires that source"


@dataclass(frozen=True, slots=True)
class Packages:
    """Coordinates for `spark.jars.packages`, and the URL of the Maven repository with the jar."""

    coordinates: tuple[str, ...]
    repository: str


def connector_coordinate(for_spark_version: str | None = None) -> str:
    """Return the Kafka connector's coordinate for a Spark version (default: the one that runs)."""
    connector = connector_version(for_spark_version or spark_version())
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{connector}"


def find_built_jar() -> Path:
    """Return the newest jar, from `make jar` or the wheel; raise JarError if there is none."""
    jars = sorted(JARS_FOLDER.glob(f"{ARTIFACT}-*.jar"), key=lambda path: path.stat().st_mtime)
    if not jars:
        raise ivy.JarError(
            f"the jar is not built: no {ARTIFACT}-*.jar in {JARS_FOLDER}. "
            "In a checkout run `make jar`; an installed wheel includes it"
        )
    return jars[-1]


def write_repository(
    repository: Path,
    jar: bytes,
    version: str,
    artifact: str = ARTIFACT,
    description: str = _DESCRIPTION,
) -> Path:
    """Write the jar and its POM into a Maven repository and return their folder."""
    folder = repository.joinpath(*GROUP.split("."), artifact, version)
    pom = _POM.format(group=GROUP, artifact=artifact, version=version, description=description)
    ivy.write_file(folder / f"{artifact}-{version}.jar", jar)
    ivy.write_file(folder / f"{artifact}-{version}.pom", pom.encode())
    return folder


def prepare_packages() -> Packages:
    """Write the jar into a repository in the cache and return the packages, or raise JarError."""
    jar = find_built_jar()
    version = jar.stem.removeprefix(f"{ARTIFACT}-")
    repository = ivy.cache_folder() / "maven"
    try:
        write_repository(repository, jar.read_bytes(), version)
    except OSError as error:
        raise ivy.CacheError.of(ivy.cache_folder(), error) from error
    return Packages(
        (connector_coordinate(), f"{GROUP}:{ARTIFACT}:{version}"), repository.resolve().as_uri()
    )

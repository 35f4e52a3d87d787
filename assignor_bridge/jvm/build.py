"""Build the jar that runs inside Spark: `python -m assignor_bridge.jvm.build`, or `make jar`.

It runs `javac --release 17` against Delta, the oldest tested Kafka connector, and Spark of that
version, not the installed pyspark; no build tool is needed. The jar's version ends with a hash of
the sources, because Ivy caches by version. The zip's timestamps are fixed, so that the same sources
give the same bytes. Commits with the same Java sources share the compiled classes.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from assignor_bridge import ivy
from assignor_bridge.jars import ARTIFACT, JARS_FOLDER, connector_coordinate
from assignor_bridge.tested_spark import TESTED_SPARKS
from assignor_bridge.version import read_version

SOURCES = Path(__file__).parent / "src"
RESOURCES = Path(__file__).parent / "resources"
_PACKAGE = Path("io", "assignorbridge")
_SPARK, _CONNECTOR = next(iter(TESTED_SPARKS.items()))
#: Coordinates of the jars on javac's class path.
_CLASS_PATH = (
    connector_coordinate(_SPARK),
    f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{_CONNECTOR}",
    "org.apache.kafka:kafka-clients:3.9.0",
    *(
        f"org.apache.spark:spark-{name}_2.13:{_CONNECTOR}"
        for name in ("catalyst", "common-utils", "core", "launcher", "sql", "sql-api", "unsafe")
    ),
    "org.scala-lang:scala-library:2.13.16",
    "org.scala-lang:scala-reflect:2.13.16",
    "org.apache.hadoop:hadoop-client-api:3.4.1",
    "com.fasterxml.jackson.core:jackson-annotations:2.18.2",
    "com.fasterxml.jackson.core:jackson-core:2.18.2",
    "com.fasterxml.jackson.core:jackson-databind:2.18.2",
    "com.esotericsoftware:kryo-shaded:4.0.2",
    "org.apache.avro:avro:1.12.0",
    "org.slf4j:slf4j-api:2.0.16",
    "io.delta:delta-spark_4.0_2.13:4.4.0",
    "io.delta:delta-storage:4.4.0",
)
#: A constant pool entry that names a Spark class or its member, as javap prints it.
_SPARK_MEMBER = re.compile(
    r"= (?:Class|Fieldref|Methodref|InterfaceMethodref) .*"
    r"// (org/apache/spark/[\w/$]+)(?:\.\"?([\w$<>]+)\"?:(\S+))?$",
    re.MULTILINE,
)
#: Class files that name one of these are used only by jobs, not by streams.
_JOB_ONLY_NAMES = (
    "org/apache/spark/sql/delta/",
    "org/apache/spark/sql/api/java/UDF1",
    "io/assignorbridge/records/OrderConflicts",
)
#: Name of a class in the jar that extends a Spark class.
_SPARK_SUBCLASS = re.compile(
    r"^  this_class: .*// (\S+)\n  super_class: .*// org/apache/spark/\S+$", re.MULTILINE
)


def hash_sources() -> str:
    """Return a hash of the Java sources, the resources, and this file."""
    digest = hashlib.sha256()
    for path in (*_list_inputs(), Path(__file__)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:10]


def build(folder: Path = JARS_FOLDER) -> Path:
    """Build the current version's jar unless it exists; return its path, or raise JarError.

    1. Compile the sources, or copy the classes from a jar with the same sources.
    2. Add the version, pack the jar, and remove the jars of other versions.
    3. Write the version for the package (`read_jar_version`).
    """
    sources_hash = hash_sources()
    version = f"{read_version()}-{sources_hash}"
    jar = folder / f"{ARTIFACT}-{version}.jar"
    if not jar.exists():
        with tempfile.TemporaryDirectory() as scratch:
            # 1.
            compiled_jar = next(folder.glob(f"{ARTIFACT}-*-{sources_hash}.jar"), None)
            if compiled_jar:
                _unpack_classes(compiled_jar, Path(scratch))
            else:
                _compile(Path(scratch))
            # 2.
            _write_version(Path(scratch), version)
            _pack(jar, Path(scratch), RESOURCES)
        for old_jar in folder.glob(f"{ARTIFACT}-*.jar"):
            if old_jar != jar:
                old_jar.unlink(missing_ok=True)
    # 3.
    ivy.write_file(folder / "version.txt", version.encode())
    return jar


def _unpack_classes(jar: Path, folder: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith("io/")])


def _write_version(classes: Path, version: str) -> None:
    """Write the version where JarVersion.java reads it, and into the manifest."""
    manifest = (
        f"Manifest-Version: 1.0\r\nImplementation-Title: {ARTIFACT}\r\n"
        f"Implementation-Version: {version.rpartition('-')[0]}\r\n\r\n"
    )
    ivy.write_file(classes / "META-INF" / "MANIFEST.MF", manifest.encode())
    ivy.write_file(classes / _PACKAGE / "version.txt", version.encode())


def _compile(folder: Path) -> None:
    """Compile the sources, or raise JarError; write the list of Spark members that they use."""
    jars = [jar for coordinate in _CLASS_PATH for jar in ivy.fetch(coordinate, transitive=False)]
    command = [ivy.find_tool("javac"), "--release", "17", "-encoding", "UTF-8", "-Werror"]
    command += ["-Xlint:all,-processing,-classfile,-serial,-path"]
    command += ["-cp", ":".join(map(str, jars)), "-d", str(folder)]
    command += [str(path) for path in sorted(SOURCES.rglob("*.java"))]
    javac = subprocess.run(command, capture_output=True, text=True, check=False)
    if javac.returncode != 0:
        raise ivy.JarError(f"javac failed:\n{javac.stderr}{javac.stdout}")
    members = "\n".join(_list_spark_members(folder))
    (folder / _PACKAGE / "spark-members.txt").write_text(members, encoding="utf-8")


def pack_sources(jar: Path) -> None:
    """Write the sources jar, which also has the resources."""
    _pack(jar, SOURCES, RESOURCES)


def _list_inputs() -> list[Path]:
    return sorted([*SOURCES.rglob("*.java"), *(p for p in RESOURCES.rglob("*") if p.is_file())])


def _list_spark_members(classes: Path) -> list[str]:
    """Return the Spark members that the class files use: `owner`, or `owner name descriptor`.

    It lists the bridge's subclasses of Spark classes too, and skips class files that only jobs use.
    """
    command = [ivy.find_tool("javap"), "-v", "-p", *map(str, sorted(classes.rglob("*.class")))]
    javap = subprocess.run(command, capture_output=True, text=True, check=True)
    members: set[str] = set()
    for text in javap.stdout.split("\nClassfile "):
        if not any(name in text for name in _JOB_ONLY_NAMES):
            members.update(" ".join(filter(None, entry)) for entry in _SPARK_MEMBER.findall(text))
            members.update(_SPARK_SUBCLASS.findall(text))
    return sorted(members)


def _pack(jar: Path, *roots: Path) -> None:
    jar.parent.mkdir(parents=True, exist_ok=True)
    partial_jar = jar.with_suffix(".tmp")
    with zipfile.ZipFile(partial_jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for root in roots:
            for path in sorted(p for p in root.rglob("*") if p.is_file()):
                entry = zipfile.ZipInfo(path.relative_to(root).as_posix(), (2020, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, path.read_bytes())
    partial_jar.replace(jar)


if __name__ == "__main__":
    try:
        print(build())
    except ivy.JarError as error:
        sys.exit(str(error))

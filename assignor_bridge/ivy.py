"""Fetch jars by Maven coordinate with the Ivy that pyspark carries, once, into the user's cache.

The jar build needs Spark's Kafka connector to compile against and the embedded broker needs Kafka
itself; neither is on PyPI. Ivy resolves from the repositories it is set up for by default.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from assignor_bridge.errors import AssignorError

if TYPE_CHECKING:
    from collections.abc import Callable


class JarError(AssignorError):
    """A jar that is needed could not be found, fetched or built."""


def cache_folder() -> Path:
    """Where fetched jars are kept: `ASSIGNOR_BRIDGE_CACHE`, else the platform's user cache."""
    chosen = os.environ.get("ASSIGNOR_BRIDGE_CACHE")
    return Path(chosen) if chosen else platformdirs.user_cache_path("assignor-bridge")


def pyspark_home() -> Path:
    """Folder of the installed pyspark (found without importing it)."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JarError("pyspark is not installed in this Python: pip install 'pyspark>=4.0.1,<4.3'")
    return Path(spec.submodule_search_locations[0])


def java_tool(name: str) -> str:
    """Path of `java` or `javac`: of `JAVA_HOME` if set, else of the PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=str(Path(home) / "bin") if home else None)
    if found is None:
        where = f"JAVA_HOME ({home})" if home else "the PATH"
        raise JarError(f"{name!r} was not found in {where}: install a JDK 17 or 21")
    return found


def fetch(
    coordinate: str,
    *,
    transitive: bool = True,
    on_line: Callable[[str], None] | None = None,
) -> list[Path]:
    """Fetch one artefact with its dependencies and give the jars' paths, sorted.

    Parameters
    ----------
    coordinate
        `group:artifact:version`, as in `spark.jars.packages`.
    transitive
        False fetches the artefact alone.
    on_line
        Called with each line that Ivy prints while it resolves and downloads.

    Raises
    ------
    JarError
        When Ivy cannot resolve the coordinate; the message ends with Ivy's last lines.
    """
    group, artifact, version = coordinate.split(":")
    root = cache_folder() / "jars"
    target = root / (f"{group}.{artifact}-{version}" + ("" if transitive else "-alone"))
    if not target.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".fetching-", dir=root))
        try:
            _retrieve(coordinate, scratch, transitive, on_line)
            try:
                (scratch / "jars").rename(target)
            except OSError:
                if not target.is_dir():  # else another process was faster, with the same jars
                    raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return sorted(target.glob("*.jar"))


def _retrieve(
    coordinate: str,
    scratch: Path,
    transitive: bool,
    on_line: Callable[[str], None] | None,
) -> None:
    ivy = next(iter(sorted((pyspark_home() / "jars").glob("ivy-*.jar"))), None)
    if ivy is None:
        raise JarError(f"the installed pyspark ({pyspark_home()}) carries no ivy-*.jar")
    command = [
        java_tool("java"), "-cp", str(ivy), "org.apache.ivy.Main",
        "-cache", str(cache_folder() / "ivy"), "-dependency", *coordinate.split(":"),
        "-confs", "default", *([] if transitive else ["-notransitive"]),
        "-retrieve", f"{scratch}/jars/[artifact]-[revision](-[classifier]).[ext]",
    ]  # fmt: skip
    tail: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101  (PIPE was asked for)
        for line in process.stdout:
            tail = [*tail[-7:], line.rstrip()]
            if on_line:
                on_line(line.rstrip())
    if process.returncode != 0 or not any((scratch / "jars").glob("*.jar")):
        raise JarError(
            f"{coordinate} could not be fetched, is a Maven repository reachable? "
            + " | ".join(tail)
        )

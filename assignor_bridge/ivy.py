"""Fetch jars by Maven coordinate with the Ivy that pyspark carries, once, into the user's cache.

The jar build needs Spark's Kafka connector to compile against and the embedded broker needs Kafka
itself; neither is on PyPI. Ivy resolves from the repositories it is set up for by default, or as
the file in `ASSIGNOR_BRIDGE_IVY_SETTINGS` says. Ivy does not lock its cache, so we do.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import filelock
import platformdirs
import tenacity

from assignor_bridge.errors import AssignorError
from assignor_bridge.ivy_output import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: How long one process waits for another that is fetching into the same cache.
_LOCK_TIMEOUT_S = 1200
_ATTEMPTS = 3


class JarError(AssignorError):
    """A jar that is needed could not be found, fetched or built."""


class CacheError(JarError):
    """The folder for fetched jars cannot be written."""


class RepositoryTroubleError(JarError):
    """A repository did not answer properly: another attempt may succeed."""


def cache_folder() -> Path:
    """Where fetched jars are kept: `ASSIGNOR_BRIDGE_CACHE`, else the platform's user cache."""
    chosen = os.environ.get("ASSIGNOR_BRIDGE_CACHE")
    return Path(chosen) if chosen else platformdirs.user_cache_path("assignor-bridge")


def pyspark_home() -> Path:
    """Folder of the installed pyspark (found without importing it)."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JarError("pyspark is not installed here: pip install 'pyspark>=4.0.1,<=4.2.0'")
    return Path(spec.submodule_search_locations[0])


def java_tool(name: str) -> str:
    """Path of `java` or `javac`: of `JAVA_HOME` if set, else of the PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=str(Path(home) / "bin") if home else None)
    if found is None:
        where = f"JAVA_HOME ({home})" if home else "the PATH"
        raise JarError(f"{name!r} was not found in {where}: install a JDK 17 or 21")
    return found


def unwritable(folder: Path, error: OSError) -> CacheError:
    """Make the error of a cache that cannot be written."""
    return CacheError(
        f"the cache {folder} cannot be written ({error.strerror or error}): "
        "set ASSIGNOR_BRIDGE_CACHE to another folder"
    )


@contextmanager
def exclusive(what: str) -> Iterator[None]:
    """Hold the cache's lock of this name, so that one process at a time fetches.

    The operating system lets go of it when the process ends, however that happens.

    Raises
    ------
    CacheError
        When the cache cannot be written.
    JarError
        When another process holds the lock for 20 minutes.
    """
    path = cache_folder() / f"{what}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path)
        lock.acquire(timeout=_LOCK_TIMEOUT_S)
    except filelock.Timeout:
        raise JarError(
            f"another process has been fetching jars for {_LOCK_TIMEOUT_S // 60} minutes "
            f"({path} is locked): wait for it or end it"
        ) from None
    except OSError as error:
        raise unwritable(path.parent, error) from error
    try:
        yield
    finally:
        lock.release()


def with_retries(attempt: Callable[[], None]) -> None:
    """Call until it raises no `RepositoryTroubleError`: at most three times, with pauses."""
    tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        wait=tenacity.wait_exponential(multiplier=1, max=8),
        retry=tenacity.retry_if_exception_type(RepositoryTroubleError),
        reraise=True,
    )(attempt)


def fetched_folder(coordinate: str, *, transitive: bool = True) -> Path:
    """Return where `fetch` keeps an artefact; the folder is there when it was fetched whole."""
    group, artifact, version = coordinate.split(":")
    name = f"{group}.{artifact}-{version}" + ("" if transitive else "-alone")
    return cache_folder() / "jars" / name


def fetch(
    coordinate: str,
    *,
    transitive: bool = True,
    on_line: Callable[[str], None] | None = None,
) -> list[Path]:
    """Fetch one artefact with its dependencies and return the jars' paths, sorted.

    Any number of processes may call it at once; one fetches, the others wait.

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
        When Ivy cannot resolve the coordinate, after three attempts if a repository was in
        trouble; the message names the repositories and what they answered.
    """
    target = fetched_folder(coordinate, transitive=transitive)
    if not target.is_dir():
        with exclusive("ivy"):
            if not target.is_dir():  # else another process fetched it while this one waited
                with_retries(lambda: _fetch_whole(coordinate, target, transitive, on_line))
    return sorted(target.glob("*.jar"))


def _fetch_whole(
    coordinate: str, target: Path, transitive: bool, on_line: Callable[[str], None] | None
) -> None:
    """Retrieve into a scratch folder and rename it, so that a folder is whole or not there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".fetching-", dir=target.parent))
    try:
        arguments = ["-dependency", *coordinate.split(":"), "-confs", "default"]
        arguments += [] if transitive else ["-notransitive"]
        pattern = f"{scratch}/jars/[artifact]-[revision](-[classifier]).[ext]"
        run_ivy([*arguments, "-retrieve", pattern], coordinate, on_line)
        if not any((scratch / "jars").glob("*.jar")):
            raise JarError(f"{coordinate} could not be fetched: it holds no jar")
        (scratch / "jars").rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def run_ivy(arguments: list[str], what: str, on_line: Callable[[str], None] | None = None) -> None:
    """Run the Ivy that pyspark carries on our cache; the caller holds `exclusive("ivy")`.

    Raises
    ------
    JarError
        When it fails, with one line that says why `what` did not come.
    """
    ivy = next(iter(sorted((pyspark_home() / "jars").glob("ivy-*.jar"))), None)
    if ivy is None:
        raise JarError(f"the installed pyspark ({pyspark_home()}) carries no ivy-*.jar")
    settings = os.environ.get("ASSIGNOR_BRIDGE_IVY_SETTINGS")
    command = [
        java_tool("java"), "-cp", str(ivy), "org.apache.ivy.Main",
        *(["-settings", settings] if settings else []),
        "-cache", str(cache_folder() / "ivy"), *arguments,
    ]  # fmt: skip
    output: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101  (PIPE was asked for)
        for line in process.stdout:
            output.append(line.rstrip())
            if on_line:
                on_line(line.rstrip())
    if process.returncode != 0:
        raise resolution_error(
            "\n".join(output),
            what,
            "ASSIGNOR_BRIDGE_IVY_SETTINGS can name an Ivy settings file with a mirror",
        )


def resolution_error(output: str, what: str, advice: str) -> JarError:
    """Make the one-line error of a failed resolution from all that Ivy printed."""
    why = failure(output)
    if not why.missing and not why.troubles:
        last = " | ".join(line for line in output.splitlines()[-5:] if line.strip())
        return JarError(f"{what} could not be fetched: {last or 'Ivy gave no reason'}")
    kind = RepositoryTroubleError if any(map(_may_pass, why.troubles.values())) else JarError
    needed_by = "" if what in why.missing else f" (needed for {what})"
    return kind(f"{why}{needed_by}. Is the repository reachable and the version there? {advice}")


def _may_pass(trouble: str) -> bool:
    """Whether it is worth another attempt; a machine without a network should hear so at once."""
    return trouble != "host not found" and "timed out" not in trouble.lower()

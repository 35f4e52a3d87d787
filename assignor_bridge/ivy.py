"""Fetch jars by Maven coordinate with the Ivy that pyspark carries, once, into the user's cache.

The jar build needs Spark's Kafka connector to compile against and the embedded broker needs Kafka
itself; neither is on PyPI. Ivy resolves from the repositories it is set up for by default, or as
the file in `ASSIGNOR_BRIDGE_IVY_SETTINGS` says. Ivy does not lock its cache, so we do.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import filelock
import platformdirs

from assignor_bridge.errors import AssignorError
from assignor_bridge.tested_spark import INSTALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: How long one process waits for another that is fetching into the same cache.
_LOCK_TIMEOUT_S = 1200
#: Seconds before the second attempt to fetch and before the third.
_RETRY_PAUSES_S = (1, 2)

_MISSING = re.compile(r"^\s*::\s+([^\s#]+)#([^\s;]+);([^\s:!]+)(?:: not found|!)", re.MULTILINE)
_TRIED = re.compile(r"^\s+((?:https?|file):\S+)$", re.MULTILINE)
_UNKNOWN_HOST = re.compile(r"^\s*Host \S+ not found\. url=(\S+)", re.MULTILINE)
_NO_ACCESS = re.compile(r"Server access error at url (\S+) \((.*)\)")
_REFUSED = re.compile(r"((?:SERVER|CLIENT) ERROR: .*) url=(\S+)")
_NO_HOST = "host not found"
_BROKEN = re.compile(r"\[FAILED\s*\] .*: (.*?) \(\d+ms\)")


class JarError(AssignorError):
    """A jar that is needed could not be found, fetched or built."""


class CacheError(JarError):
    """The folder for fetched jars cannot be written."""

    @classmethod
    def of(cls, folder: Path, error: OSError) -> CacheError:
        """Return the error for a folder that fails so."""
        return cls(
            f"the cache {folder} cannot be written ({error.strerror or error}): "
            "set ASSIGNOR_BRIDGE_CACHE to another folder"
        )


class RepositoryTroubleError(JarError):
    """A repository did not answer properly: another attempt may succeed."""


def cache_folder() -> Path:
    """Return where fetched jars are kept: `ASSIGNOR_BRIDGE_CACHE`, or the platform's user cache."""
    chosen = os.environ.get("ASSIGNOR_BRIDGE_CACHE")
    return Path(chosen) if chosen else platformdirs.user_cache_path("assignor-bridge")


def pyspark_home() -> Path:
    """Return the folder of the installed pyspark (found without importing it)."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JarError(f"pyspark is not installed here: {INSTALL}")
    return Path(spec.submodule_search_locations[0])


def find_tool(name: str) -> str:
    """Return the path of a JDK's tool: of `JAVA_HOME` if set, else of the PATH."""
    home = os.environ.get("JAVA_HOME")
    tool = shutil.which(name, path=str(Path(home) / "bin") if home else None)
    if home and not Path(home).is_dir():
        raise JarError(f"JAVA_HOME names no folder: {home}; set it to that of a JDK, or unset it")
    if tool is None:
        where = f"JAVA_HOME ({home})" if home else "the PATH"
        raise JarError(f"{name!r} was not found in {where}: install a JDK 17 or 21")
    return tool


@contextmanager
def lock_cache(name: str) -> Iterator[None]:
    """Hold the cache's lock of this name, which also ends with the process.

    Raises CacheError when the cache cannot be written, JarError when another process holds the lock
    for 20 minutes.
    """
    path = cache_folder() / f"{name}.lock"
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
        raise CacheError.of(path.parent, error) from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def create_folder(target: Path) -> Iterator[Path]:
    """Yield a scratch folder that becomes `target` at the end, so that it is whole or absent."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=target.parent) as scratch:
        made = Path(scratch, target.name)
        made.mkdir()
        yield made
        try:
            made.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster
                raise


def write_file(path: Path, content: bytes) -> None:
    """Write a file that other processes may read or write: whole, and only if it differs."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(prefix=".writing-", dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(scratch).chmod(0o644)
    Path(scratch).replace(path)


def retry(fetch_once: Callable[[], None]) -> None:
    """Call a function until it succeeds, at most three times, while a repository is in trouble.

    The pauses are one second, then two. Raises the third `RepositoryTroubleError`, and at once
    every other error.
    """
    for pause_s in _RETRY_PAUSES_S:
        try:
            fetch_once()
        except RepositoryTroubleError:
            time.sleep(pause_s)
        else:
            return
    fetch_once()


def fetch(
    coordinate: str, *, transitive: bool = True, on_line: Callable[[str], None] | None = None
) -> list[Path]:
    """Fetch `group:artifact:version` with its dependencies; return the jars' paths, sorted.

    Any number of processes may call it at once; one fetches, the others wait. `on_line` is called
    with each line that Ivy prints. Raises JarError when Ivy cannot resolve the coordinate, after
    three attempts if a repository was in trouble; it names the repositories and their answers.
    """
    group, artifact, version = coordinate.split(":")
    name = f"{group}.{artifact}-{version}" + ("" if transitive else "-alone")
    target = cache_folder() / "jars" / name
    if not target.is_dir():
        with lock_cache("ivy"):
            if not target.is_dir():  # else another process fetched it while this one waited
                retry(partial(_fetch_whole, coordinate, target, transitive, on_line))
    return sorted(target.glob("*.jar"))


def _fetch_whole(
    coordinate: str, target: Path, transitive: bool, on_line: Callable[[str], None] | None
) -> None:
    arguments = ["-dependency", *coordinate.split(":"), "-confs", "default"]
    arguments += [] if transitive else ["-notransitive"]
    with create_folder(target) as folder:
        pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
        run_ivy([*arguments, "-retrieve", pattern], coordinate, on_line)
        if not any(folder.glob("*.jar")):
            raise JarError(f"{coordinate} could not be fetched: it has no jar")


def run_ivy(arguments: list[str], what: str, on_line: Callable[[str], None] | None = None) -> None:
    """Run the Ivy that pyspark carries on our cache; the caller holds `lock_cache("ivy")`.

    Raises JarError, with one line that says why `what` did not come.
    """
    ivy = next(iter(sorted((pyspark_home() / "jars").glob("ivy-*.jar"))), None)
    if ivy is None:
        raise JarError(f"the installed pyspark ({pyspark_home()}) carries no ivy-*.jar")
    settings = os.environ.get("ASSIGNOR_BRIDGE_IVY_SETTINGS")
    command = [
        find_tool("java"), "-cp", str(ivy), "org.apache.ivy.Main",
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
        advice = "ASSIGNOR_BRIDGE_IVY_SETTINGS can name an Ivy settings file with a mirror"
        raise resolution_error("\n".join(output), what, advice)


def resolution_error(output: str, what: str, advice: str) -> JarError:
    """Return the one-line error of a failed resolution, from the sixty lines that Ivy printed.

    Ivy alone and Spark's `spark.jars.packages` print the same text.

    >>> print(resolution_error('''
    ...   :: org.foo#bar;1.0: not found
    ...   http://one.example/org/foo/bar/1.0/bar-1.0.pom
    ...   http://two.example/org/foo/bar/1.0/bar-1.0.pom
    ... Host two.example not found. url=http://two.example/org/foo/bar/1.0/bar-1.0.pom
    ... ''', "org.foo:bar:1.0", "Name a mirror.").args[0].partition(". ")[0])
    org.foo:bar:1.0 could not be fetched (one.example: not there; two.example: host not found)
    """
    missing = dict.fromkeys(":".join(match) for match in _MISSING.findall(output))
    # By host, what it answered other than "not there"; downloads that broke off are under "".
    troubles = {_host(url): _NO_HOST for url in _UNKNOWN_HOST.findall(output)}
    troubles |= {_host(url): reason for url, reason in _NO_ACCESS.findall(output)}
    troubles |= {_host(url): reason for reason, url in _REFUSED.findall(output)}
    if broken := _BROKEN.search(output):
        troubles[""] = f"a download failed: {broken[1]}"
    if not missing and not troubles:
        last = " | ".join(line for line in output.splitlines()[-5:] if line.strip())
        return JarError(f"{what} could not be fetched: {last or 'Ivy gave no reason'}")
    hosts = [_host(url) for url in _TRIED.findall(output) if not url.startswith("file:")]
    places = dict.fromkeys(hosts, "not there") | troubles
    answers = [f"{host}: {answer}" if host else answer for host, answer in places.items()]
    needed_by = "" if what in missing else f" (needed for {what})"
    # Another attempt may help, but a machine without a network should hear so at once.
    may_pass = any(t != _NO_HOST and "timed out" not in t.lower() for t in troubles.values())
    return (RepositoryTroubleError if may_pass else JarError)(
        f"{', '.join(missing) or 'a package'} could not be fetched "
        f"({'; '.join(answers) or 'no repository was asked'}){needed_by}. "
        f"Is the repository reachable and the version there? {advice}"
    )


def _host(url: str) -> str:
    """Return the host of an address, without the login that it may hold."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or url

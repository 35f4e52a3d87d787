"""Fetch jars by Maven coordinate into the user's cache, with pyspark's Ivy.

The assignor-bridge jar is compiled against Spark's Kafka connector, and the embedded broker needs
Kafka's jars; neither is on PyPI. Ivy uses its default repositories, or the settings file in
`ASSIGNOR_BRIDGE_IVY_SETTINGS`. Ivy does not lock its cache, so this module does.
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

#: Seconds to wait for another process that is fetching into the same cache.
_LOCK_TIMEOUT_S = 1200
#: Seconds to pause before the second and the third attempt to fetch.
_RETRY_PAUSES_S = (1, 2)
_MISSING = re.compile(r"^\s*::\s+([^\s#]+)#([^\s;]+);([^\s:!]+)(?:: not found|!)", re.MULTILINE)
_TRIED_URL = re.compile(r"^\s+((?:https?|file):\S+)$", re.MULTILINE)
_UNKNOWN_HOST = re.compile(r"^\s*Host \S+ not found\. url=(\S+)", re.MULTILINE)
_NO_ACCESS = re.compile(r"Server access error at url (\S+) \((.*)\)")
_HTTP_ERROR = re.compile(r"((?:SERVER|CLIENT) ERROR: .*) url=(\S+)")
_NO_HOST = "host not found"
_FAILED_DOWNLOAD = re.compile(r"\[FAILED\s*\] .*: (.*?) \(\d+ms\)")


class JarError(AssignorError):
    """A required jar or tool could not be found, fetched, or built."""


class CacheError(JarError):
    """The folder for fetched jars cannot be written."""

    @classmethod
    def of(cls, folder: Path, error: OSError) -> CacheError:
        """Create the error from the folder and its cause."""
        return cls(
            f"the cache {folder} cannot be written ({error.strerror or error}): "
            "set ASSIGNOR_BRIDGE_CACHE to another folder"
        )


class RepositoryTroubleError(JarError):
    """A repository failed temporarily; another attempt may succeed."""


def cache_folder() -> Path:
    """Return the folder for fetched jars: `ASSIGNOR_BRIDGE_CACHE`, or the user cache."""
    folder = os.environ.get("ASSIGNOR_BRIDGE_CACHE")
    return Path(folder) if folder else platformdirs.user_cache_path("assignor-bridge")


def pyspark_home() -> Path:
    """Return the installed pyspark's folder, without importing it; raise JarError if none."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JarError(f"pyspark is not installed here: {INSTALL}")
    return Path(spec.submodule_search_locations[0])


def find_tool(name: str) -> str:
    """Return a JDK tool's path: in `$JAVA_HOME/bin` if set, else on the PATH; or raise JarError."""
    home = os.environ.get("JAVA_HOME")
    tool = shutil.which(name, path=str(Path(home) / "bin") if home else None)
    if home and not Path(home).is_dir():
        raise JarError(f"JAVA_HOME is not a folder: {home}; set it to a JDK's folder, or unset it")
    if tool is None:
        location = f"JAVA_HOME ({home})" if home else "the PATH"
        advice = "install a JDK 17 or 21" + (" and set JAVA_HOME to its folder" if home else "")
        raise JarError(f"{name!r} was not found in {location}: {advice}")
    return tool


@contextmanager
def lock_cache(name: str) -> Iterator[None]:
    """Hold a named lock on the cache; if the process dies, the system releases the lock.

    Raises CacheError if the cache cannot be written, JarError if the lock is held for 20 minutes.
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
    """Yield a temporary folder, then rename it to `target`, so `target` is never incomplete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=target.parent) as scratch:
        new_folder = Path(scratch, target.name)
        new_folder.mkdir()
        yield new_folder
        try:
            new_folder.rename(target)
        except OSError:
            if not target.is_dir():  # otherwise another process created it first
                raise


def write_file(path: Path, content: bytes) -> None:
    """Write a shared file atomically, unless it already has this content."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(prefix=".writing-", dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(scratch).chmod(0o644)
    Path(scratch).replace(path)


def retry(fetch_once: Callable[[], None]) -> None:
    """Call a function, and again up to twice while it raises RepositoryTroubleError."""
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
    """Fetch `group:artifact:version` and, if `transitive`, its dependencies; return sorted paths.

    Concurrent processes wait for the first one. `on_line` receives each line that Ivy prints.
    Raises JarError, with the repositories' answers if Ivy fails; temporary failures are retried.
    """
    group, artifact, version = coordinate.split(":")
    folder_name = f"{group}.{artifact}-{version}" + ("" if transitive else "-alone")
    target = cache_folder() / "jars" / folder_name
    if not target.is_dir():
        with lock_cache("ivy"):
            if not target.is_dir():  # otherwise another process fetched it meanwhile
                retry(partial(_fetch_into_folder, coordinate, target, transitive, on_line))
    return sorted(target.glob("*.jar"))


def _fetch_into_folder(
    coordinate: str, target: Path, transitive: bool, on_line: Callable[[str], None] | None
) -> None:
    arguments = ["-dependency", *coordinate.split(":"), "-confs", "default"]
    arguments += [] if transitive else ["-notransitive"]
    with create_folder(target) as folder:
        pattern = f"{folder}/[artifact]-[revision](-[classifier]).[ext]"
        run_ivy([*arguments, "-retrieve", pattern], coordinate, on_line)
        if not any(folder.glob("*.jar")):
            raise JarError(f"{coordinate} could not be fetched: it has no jar")


def run_ivy(args: list[str], package: str, on_line: Callable[[str], None] | None = None) -> None:
    """Run pyspark's Ivy; raise JarError about `package` if it fails. The caller locks the cache."""
    ivy_jar = next(iter(sorted((pyspark_home() / "jars").glob("ivy-*.jar"))), None)
    if ivy_jar is None:
        raise JarError(f"the installed pyspark ({pyspark_home()}) has no ivy-*.jar: {INSTALL}")
    settings = os.environ.get("ASSIGNOR_BRIDGE_IVY_SETTINGS")
    command = [find_tool("java"), "-cp", str(ivy_jar), "org.apache.ivy.Main"]
    command += ["-settings", settings] if settings else []
    command += ["-cache", str(cache_folder() / "ivy"), *args]
    output: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            output.append(line.rstrip())
            if on_line:
                on_line(line.rstrip())
    if process.returncode != 0:
        advice = "ASSIGNOR_BRIDGE_IVY_SETTINGS can name an Ivy settings file with a mirror"
        raise make_resolution_error("\n".join(output), package, advice)


def make_resolution_error(output: str, package: str, advice: str) -> JarError:
    """Summarize the sixty lines that Ivy prints for a failed resolution in a one-line error.

    Spark prints the same lines. The error is a RepositoryTroubleError if a retry may succeed.

    >>> print(make_resolution_error('''
    ...   :: org.foo#bar;1.0: not found
    ...   http://one.example/org/foo/bar/1.0/bar-1.0.pom
    ...   http://two.example/org/foo/bar/1.0/bar-1.0.pom
    ... Host two.example not found. url=http://two.example/org/foo/bar/1.0/bar-1.0.pom
    ... ''', "org.foo:bar:1.0", "Name a mirror.").args[0].partition(". ")[0])
    org.foo:bar:1.0 could not be fetched (one.example: not there; two.example: host not found)
    """
    missing_coordinates = dict.fromkeys(":".join(match) for match in _MISSING.findall(output))
    # Errors by host, other than "not there"; failed downloads have the key "".
    error_by_host = {_get_host(url): _NO_HOST for url in _UNKNOWN_HOST.findall(output)}
    error_by_host |= {_get_host(url): reason for url, reason in _NO_ACCESS.findall(output)}
    error_by_host |= {_get_host(url): reason for reason, url in _HTTP_ERROR.findall(output)}
    if failed_download := _FAILED_DOWNLOAD.search(output):
        error_by_host[""] = f"a download failed: {failed_download[1]}"
    if not missing_coordinates and not error_by_host:
        last_lines = " | ".join(line for line in output.splitlines()[-5:] if line.strip())
        return JarError(f"{package} could not be fetched: {last_lines or 'Ivy gave no reason'}")
    hosts = [_get_host(url) for url in _TRIED_URL.findall(output) if not url.startswith("file:")]
    answer_by_host = dict.fromkeys(hosts, "not there") | error_by_host
    answers = [f"{host}: {answer}" if host else answer for host, answer in answer_by_host.items()]
    unavailable_packages = missing_coordinates or {package: None}
    needed_by = "" if package in unavailable_packages else f" (needed for {package})"
    # Do not retry without a network: unknown hosts and timeouts are treated as permanent.
    may_succeed_later = any(
        error != _NO_HOST and "timed out" not in error.lower() for error in error_by_host.values()
    )
    return (RepositoryTroubleError if may_succeed_later else JarError)(
        f"{', '.join(unavailable_packages)} could not be fetched "
        f"({'; '.join(answers) or 'no remote repository was tried'}){needed_by}. "
        f"Check that the repository is reachable and the version exists. {advice}"
    )


def _get_host(url: str) -> str:
    """Return a URL's host and port, without credentials, or the whole URL if it has no host."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or url

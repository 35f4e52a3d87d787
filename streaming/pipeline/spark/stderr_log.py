"""Redirect the stderr of Spark's JVM (Ivy, log4j, the JVM itself) to a log file.

Users need this output only if something fails. A thread hides secrets in it, line by line.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_log_path

from assignor_bridge.errors import AssignorError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import RawIOBase

_STDERR_FD = 2
_PRIVATE_MODE = 0o600
#: Maximum time to wait for the last output of a JVM that has ended.
_LAST_OUTPUT_TIMEOUT_S = 3.0
_UNCAUGHT = "Exception in thread "
#: Environment variable with JVM options.
_JAVA_OPTIONS = "JDK_JAVA_OPTIONS"
#: By default, the JVM reports errors on stdout, and Delta names files with the locale's digits.
_ADDED_OPTIONS = "-XX:+DisplayVMOutputToStderr -Duser.language=en"
#: Starts of lines that Java's launcher prints after the reason for a failure.
_LAUNCHER_LINES = ("Error: Could not create the Java", "Error: A fatal exception has occurred")


class SparkLog:
    """One run's log file: `path`, or else `name`.log in the user's log folder, or a temporary file.

    Raises AssignorError if `path` cannot be written.
    """

    def __init__(self, path: Path | None, name: str, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._readers: list[threading.Thread] = []
        self._fatal_line = self._last_line = ""
        if path is None:
            self.path = create_log(f"{name}.log")
            return
        try:
            _create_private_file(path)
        except OSError as error:
            raise AssignorError(f"--log {path}: it cannot be written ({error.strerror})") from None
        self.path = path

    @contextlib.contextmanager
    def redirect_stderr(self) -> Iterator[None]:
        """Send the stderr of processes started in the block to the log, until they end."""
        read_fd, write_fd = os.pipe()
        log = self.path.open("ab", buffering=0)
        reader = threading.Thread(target=self._copy_lines, args=(read_fd, log), daemon=True)
        reader.start()
        self._readers.append(reader)
        sys.stderr.flush()
        original_stderr = os.dup(_STDERR_FD)
        os.dup2(write_fd, _STDERR_FD)
        os.close(write_fd)
        java_options = os.environ.get(_JAVA_OPTIONS)
        os.environ[_JAVA_OPTIONS] = f"{java_options or ''} {_ADDED_OPTIONS}".strip()
        try:
            yield
        finally:
            if java_options is None:
                del os.environ[_JAVA_OPTIONS]
            else:
                os.environ[_JAVA_OPTIONS] = java_options
            os.dup2(original_stderr, _STDERR_FD)
            os.close(original_stderr)

    def find_error(self) -> str:
        """Return the log's first uncaught exception, or else its last message; empty if none."""
        for reader in self._readers:
            reader.join(_LAST_OUTPUT_TIMEOUT_S)
        return self._fatal_line or self._last_line

    def _copy_lines(self, descriptor: int, log: RawIOBase) -> None:
        """Copy each line to the log; write errors are ignored, so that the JVM never blocks."""
        with open(descriptor, "rb") as lines, log:
            for raw in lines:
                line = self._redact(raw.decode("utf-8", "replace"))
                with contextlib.suppress(OSError):
                    log.write(line.encode())
                if line.strip() and not line.startswith((*_LAUNCHER_LINES, "\tat ")):
                    self._last_line = line.strip()
                if line.startswith(_UNCAUGHT) and not self._fatal_line:
                    self._fatal_line = line.removeprefix(_UNCAUGHT).partition(" ")[2].strip()


def create_log(name: str) -> Path:
    """Create a log in the user's log folder, keeping the old one, or else a temporary file."""
    folder = user_log_path("assignor-bridge")
    path = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            path.replace(path.with_suffix(".log.1"))
        _create_private_file(path)
    except OSError:
        descriptor, temporary_path = tempfile.mkstemp(prefix="assignor-", suffix=f"-{name}")
        os.close(descriptor)
        return Path(temporary_path)
    return path


def _create_private_file(path: Path) -> None:
    """Create a file that only its owner can read, or check that an existing one is writable."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _PRIVATE_MODE))

"""The file for what Spark's JVM writes to stderr: Ivy, log4j, the JVM itself.

A person who runs a job wants none of it, and all of it when something fails. It goes through a
pipe and a thread of ours, so that secrets can be taken out line by line.
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

_STDERR = 2
_MODE = 0o600
#: How long is waited for the last words of a JVM that has ended.
_LAST_WORDS_S = 3.0
_FATAL = "Exception in thread "
#: The JVM tells of settings that it cannot start with on stdout, unless it is asked not to.
_JAVA = "JDK_JAVA_OPTIONS"
#: Delta names files by the digits of the locale, which only some languages' are ASCII.
_OPTIONS = "-XX:+DisplayVMOutputToStderr -Duser.language=en"
#: What Java's launcher says last, after the reason.
_LAUNCHER = ("Error: Could not create the Java", "Error: A fatal exception has occurred")


class SparkLog:
    """A log of one run, at a path or by its name in the user's folder; the one before is kept.

    Raises AssignorError when it cannot be written.
    """

    def __init__(self, path: Path | None, name: str, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._readers: list[threading.Thread] = []
        self._fatal = self._last = ""
        if path is None:
            self.path = new_log(f"{name}.log")
            return
        try:
            _make(path)
        except OSError as error:
            raise AssignorError(f"--log {path}: it cannot be written ({error.strerror})") from None
        self.path = path

    @contextlib.contextmanager
    def taking_stderr(self) -> Iterator[None]:
        """Have processes that are started meanwhile write here for all their time."""
        reading, writing = os.pipe()
        log = self.path.open("ab", buffering=0)
        reader = threading.Thread(target=self._copy, args=(reading, log), daemon=True)
        reader.start()
        self._readers.append(reader)
        sys.stderr.flush()
        before = os.dup(_STDERR)
        os.dup2(writing, _STDERR)
        os.close(writing)
        java = os.environ.get(_JAVA)
        os.environ[_JAVA] = f"{java or ''} {_OPTIONS}".strip()
        try:
            yield
        finally:
            if java is None:
                del os.environ[_JAVA]
            else:
                os.environ[_JAVA] = java
            os.dup2(before, _STDERR)
            os.close(before)

    def last_words(self) -> str:
        """Return what a process that has ended complained of, in a line; empty for nothing."""
        for reader in self._readers:
            reader.join(_LAST_WORDS_S)
        return self._fatal or self._last

    def _copy(self, descriptor: int, log: RawIOBase) -> None:
        """Take each line; whatever happens to the file, the JVM must not wait for us."""
        with open(descriptor, "rb") as lines, log:
            for raw in lines:
                line = self._redact(raw.decode("utf-8", "replace"))
                with contextlib.suppress(OSError):
                    log.write(line.encode())
                if line.strip() and not line.startswith((*_LAUNCHER, "\tat ")):
                    self._last = line.strip()
                if line.startswith(_FATAL) and not self._fatal:
                    self._fatal = line.removeprefix(_FATAL).partition(" ")[2].strip()


def new_log(name: str) -> Path:
    """Make a file in the user's folder, or where temporary files are if that cannot be."""
    folder = user_log_path("assignor-bridge")
    path = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            path.replace(path.with_suffix(".log.1"))
        _make(path)
    except OSError:
        descriptor, made = tempfile.mkstemp(prefix="assignor-", suffix=f"-{name}")
        os.close(descriptor)
        return Path(made)
    return path


def _make(path: Path) -> None:
    """Make a file that is readable by its owner alone, or make sure that one can be written to."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _MODE))

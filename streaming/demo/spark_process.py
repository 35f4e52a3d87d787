"""Start the demo's Spark half, hear its events, and end every process that it started."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from assignor_bridge import ivy
from assignor_bridge.errors import AssignorError
from streaming.demo.spark_home import linked_spark_home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.demo.job import Settings

_SILENCE_LIMIT_S = 900.0
_END_LIMIT_S = 20.0


class SparkProcessError(AssignorError):
    """The demo's Spark failed, or did not end."""


class SparkProcess:
    """`streaming.demo.job` in a process group of its own."""

    def __init__(self, settings: Settings, log_file: Path) -> None:
        self._log_file = log_file
        folder = Path(settings.folder)
        ivy.java_tool("java")  # says in one line that a JDK is missing
        environment = {
            **os.environ,
            "SPARK_HOME": str(linked_spark_home(folder)),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        if settings.master is None:
            environment["SPARK_LOCAL_IP"] = "127.0.0.1"
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR"):
            environment.pop(name, None)
        with log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streaming.demo.job"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                env=environment, cwd=folder, start_new_session=True,
            )  # fmt: skip
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        assert self._process.stdin is not None  # noqa: S101  (PIPE was asked for)
        with contextlib.suppress(BrokenPipeError):  # it has ended: the events tell
            self._process.stdin.write(orjson.dumps(asdict(settings)) + b"\n")
            self._process.stdin.flush()
        threading.Thread(target=self._hear, daemon=True).start()

    def events(self) -> Iterator[dict[str, Any]]:
        """Give events until the process ends; a failure is raised with Spark's last words."""
        while True:
            try:
                event = self._events.get(timeout=_SILENCE_LIMIT_S)
            except queue.Empty:
                raise SparkProcessError(f"Spark was silent for {_SILENCE_LIMIT_S:g} s") from None
            if event is None:
                break
            if event["event"] == "error":
                raise SparkProcessError(event["message"])
            yield event
        if self._process.wait() != 0:
            code = self._process.returncode
            raise SparkProcessError(f"Spark ended with exit code {code}: {self._last_words()}")

    def end(self) -> bool:
        """End all processes; whether they had ended, or did so when they were asked to."""
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()  # the end of the pipe asks them to
        deadline = time.monotonic() + _END_LIMIT_S
        while self._is_running() and time.monotonic() < deadline:
            time.sleep(0.05)
        by_itself = not self._is_running()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        return by_itself

    def _is_running(self) -> bool:
        """Whether any process of the group is left: the child, its JVM, the executors."""
        self._process.poll()
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def _hear(self) -> None:
        assert self._process.stdout is not None  # noqa: S101  (PIPE was asked for)
        with contextlib.suppress(ValueError):  # closed by end()
            for line in self._process.stdout:
                self._events.put(orjson.loads(line))
        self._events.put(None)

    def _last_words(self) -> str:
        lines = self._log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        told = [line.strip() for line in lines if line.strip() and not line.startswith("\tat ")]
        telling = [line for line in told if "Exception" in line or "Error" in line]
        return (telling or told or ["it said nothing"])[-1]

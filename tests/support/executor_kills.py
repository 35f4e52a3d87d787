"""List the executors of this driver, and kill one after a partly read shuffle."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.processes import has_ended, read_command_line
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import SparkSession

_LIMIT_S = 300


class Executors:
    """The executors of a session; there are `count` unless one has just died."""

    def __init__(self, spark: SparkSession, count: int) -> None:
        self._count = count
        self._tracker = spark.sparkContext.statusTracker()
        self._backend: Any = spark.sparkContext._jsc.sc().schedulerBackend()  # type: ignore[union-attr]
        self._driver_port = spark.sparkContext.getConf().get("spark.driver.port")

    def wait_for_all(self) -> None:
        wait_until(lambda: len(self.processes()) == self._count, "all executors", _LIMIT_S)

    def processes(self) -> dict[str, int]:
        """Return the process of each executor that the scheduler uses, by id."""
        processes = {}
        for entry in Path("/proc").glob("[0-9]*"):
            words = read_command_line(int(entry.name)).split("\0")
            if "--executor-id" in words and any(w.endswith(f":{self._driver_port}") for w in words):
                processes[words[words.index("--executor-id") + 1]] = int(entry.name)
        return {executor: processes[executor] for executor in self._in_use() & set(processes)}

    def kill(self, executor: str) -> None:
        """Kill an executor, and wait until the scheduler has removed it."""
        pid = self.processes()[executor]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: has_ended(pid), "the end of an executor")
        wait_until(lambda: executor not in self._in_use(), "its removal", _LIMIT_S)

    @contextlib.contextmanager
    def kill_one(
        self, choose: Callable[[dict[str, int]], str], tasks: int, completed: int, killed: Path
    ) -> Iterator[None]:
        """Kill an executor once this number of tasks of a stage of `tasks` tasks are completed.

        Then the file `killed` is created; `hold_until` makes the other tasks wait for it.
        """

        def kill() -> None:
            wait_until(lambda: self._has_completed(tasks, completed), "completed tasks", _LIMIT_S)
            self.kill(choose(self.processes()))
            killed.touch()

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        yield
        killer.join(_LIMIT_S)
        assert killed.exists(), "no executor was killed"

    def _has_completed(self, tasks: int, completed: int) -> bool:
        stages = map(self._tracker.getStageInfo, self._tracker.getActiveStageIds())
        return any(s and s.numTasks == tasks and s.numCompletedTasks >= completed for s in stages)

    def _in_use(self) -> set[str]:
        executors = self._backend.getExecutorIds()
        return {str(executors.apply(i)) for i in range(executors.size())}


def hold_until(killed: Path, first: int) -> Callable[[int, Iterable[Any]], Iterator[Any]]:
    """Return a function for `RDD.mapPartitionsWithIndex` that delays tasks from `first` on."""

    def hold(task: int, rows: Iterable[Any]) -> Iterator[Any]:
        if task >= first:
            wait_until(killed.exists, "the end of an executor", _LIMIT_S)
        return iter(rows)

    return hold

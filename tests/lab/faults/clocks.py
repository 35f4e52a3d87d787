"""Clocks that jump: the time of day of driver, planner and executors, by a library of our own.

They inherit it by LD_PRELOAD, so that the session must be started with it; the brokers keep the
right time. (libfaketime 0.9.10 moves the deadlines of waits, too: a JVM spins with it.)
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.faults.harm import CLUSTER, Kind
from tests.support.small_disk import NotPossibleError
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.faults.harm import Harm

NAME = "clock steps of an hour"
_OFFSET = "CLOCK_OFFSET_FILE"
_SOURCE = Path(__file__).parents[2] / "support" / "clock.c"
_LIBRARY = "libclock.so"
_HOUR = 3600
#: For `spark.assignor.env`, without which the planner would not inherit them.
VARIABLES = f"LD_PRELOAD,{_OFFSET}"


def clock_steps(harm: Harm) -> None:
    """Set the clock of driver, planner and executors an hour ahead, right, an hour back, right."""
    offset = Path(harm.scene.setting("assignor.test.clock"))
    planners, executors = harm.scene.planners(), harm.scene.executors()
    assert planners
    assert executors
    for pid in (harm.scene.driver(), *planners, *executors):
        assert _has_our_clock(pid, offset), f"process {pid} has the right time"
    for step in (_HOUR, 0, -_HOUR, 0):
        offset.write_text(f"{step:+d}")
        wait_until(lambda step=step: abs(_ahead_s(harm) - step) < 60, f"a step of {step} s")
        harm.note("clock steps")
        harm.scene.wait_for_batches(3)


def _has_our_clock(pid: int, offset: Path) -> bool:
    process = Path("/proc", str(pid))
    variables = (process / "environ").read_bytes().split(b"\0")
    return (
        f"{_OFFSET}={offset}".encode() in variables and _LIBRARY in (process / "maps").read_text()
    )


def _ahead_s(harm: Harm) -> float:
    """By how much the driver's clock is ahead of ours."""
    millis: int = harm.scene.jvm.java.lang.System.currentTimeMillis()
    return millis / 1000 - time.time()


@contextlib.contextmanager
def can_jump(folder: Path) -> Iterator[str]:
    """Start processes whose clock can be moved, within; the file that says by how much."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise NotPossibleError("clock steps need a compiler of C (cc)")
    library, offset = folder / _LIBRARY, folder / "offset"
    flags = ["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(library)]
    subprocess.run([compiler, *flags, str(_SOURCE), "-ldl"], check=True)
    offset.write_text("+0")
    settings = {"LD_PRELOAD": str(library), _OFFSET: str(offset)}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield str(offset)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


KINDS = (Kind(NAME, CLUSTER, clock_steps, alone="clock", long=False),)

"""A real Spark standalone cluster on this machine: a master and workers as child processes.

Workers have loopback addresses of their own, 127.0.0.2 and on, so that they are different hosts to
Spark.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from typing import TYPE_CHECKING

from assignor_bridge.ivy import java_tool, pyspark_home
from tests.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DEPLOY = "org.apache.spark.deploy"


@contextlib.contextmanager
def standalone_cluster(folder: Path, cores_of_workers: tuple[int, ...]) -> Iterator[str]:
    """Start a master and workers with so many cores; give the master's URL."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        log = _started(stack, folder, "master.Master", "127.0.0.1", "--port", "0")
        url = wait_until(lambda: _found(log, r"Starting Spark master at (spark://\S+)"), "a master")
        for number, cores in enumerate(cores_of_workers, start=2):
            log = _started(
                stack, folder, "worker.Worker", f"127.0.0.{number}",
                "--cores", str(cores), "--memory", f"{cores}g",
                "--work-dir", str(folder / f"worker{number}"), url,
            )  # fmt: skip
            wait_until(lambda log=log: _found(log, r"(registered with master)"), "a worker")
        yield url


def _started(
    stack: contextlib.ExitStack, folder: Path, name: str, host: str, *arguments: str
) -> Path:
    log = folder / f"{name}-{host}.log"
    settings = {  # what Spark's own shell scripts export
        "SPARK_LOCAL_IP": host, "SPARK_HOME": str(pyspark_home()), "SPARK_SCALA_VERSION": "2.13",
    }  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                java_tool("java"), "-Xmx256m", "-cp", f"{pyspark_home()}/jars/*",
                f"{_DEPLOY}.{name}", "--host", host, "--webui-port", "0", *arguments,
            ],
            stdout=out, stderr=subprocess.STDOUT,
            env=os.environ | settings,
        )  # fmt: skip
    stack.callback(_stop, process)
    return log


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End it; a worker ends its executors."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _found(log: Path, pattern: str) -> str | None:
    text = log.read_text(encoding="utf-8", errors="replace")
    match = re.search(pattern, text)
    return match[1] if match else None

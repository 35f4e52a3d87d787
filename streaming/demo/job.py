"""The demo's Spark: started with its executors in a process group of its own, and ended."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from assignor_bridge import ivy
from assignor_bridge.errors import AssignorError
from streaming.observe.spark_ui import SparkUi
from streaming.observe.web import Address, WebError
from streaming.pipeline.errors import first_line
from streaming.pipeline.spark.jvm import start_context, started_jvm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

#: The log of Spark, in the demo's folder.
LOG = "spark.log"
#: Options of the driver and the executors in both modes: short runs spend most of their processor
#: time on the optimizing compiler and on verifying classes.
JVM_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
#: Task slots of each executor.
SLOTS = 2
_EXECUTORS_LIMIT_S = 90.0
_END_LIMIT_S = 20.0
#: Of the environment, what would change the demo's Spark.
_NOT_OURS = (
    "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_PUBLIC_DNS",
)  # fmt: skip


class DemoError(AssignorError):
    """The demo's Spark failed."""


@contextlib.contextmanager
def failures_in_a_line(folder: Path) -> Iterator[None]:
    """Raise what Spark or py4j fails with as a line; the rest is in the log."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        why = _last_words(folder) if "JAVA_GATEWAY_EXITED" in str(error) else first_line(error)
        raise DemoError(f"Spark failed: {why}") from error


def start(folder: Path, workers: int, master: str | None) -> SparkSession:
    """Start Spark and wait for its executors; what its processes write goes into `LOG`."""
    from pyspark.sql import SparkSession

    from assignor_bridge import configure_spark
    from streaming.delta.session import configure_delta

    ivy.java_tool("java")  # says in one line that a JDK is missing
    logging.basicConfig(filename=folder / LOG)  # what py4j complains of
    for name in _NOT_OURS:
        os.environ.pop(name, None)
    os.environ["no_proxy"] = "*"  # the UI is asked by HTTP
    os.environ["SPARK_HOME"] = str(linked_spark_home(folder))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master(master or f"local-cluster[{workers},{SLOTS},1024]")
        .appName("assignor demo")
        .config("spark.cores.max", str(workers * SLOTS))
        .config("spark.executor.cores", str(SLOTS))
        .config("spark.executor.memory", "1g")
        .config("spark.ui.port", "0")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"{JVM_OPTIONS} -Dderby.system.home={folder}")
        .config("spark.executor.extraJavaOptions", JVM_OPTIONS)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
    )
    if master is None:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        builder = builder.config("spark.driver.host", "127.0.0.1")
    builder = configure_spark(configure_delta(builder))
    with (folder / LOG).open("ab") as output:
        process = {"stdout": output, "stderr": output, "cwd": folder, "start_new_session": True}
        start_context(builder._options, builder._options, process)
    spark = builder.getOrCreate()
    deadline, present = time.monotonic() + _EXECUTORS_LIMIT_S, 0
    while present < workers:
        if time.monotonic() > deadline:
            raise DemoError(f"{present} of {workers} executors came within 90 s")
        time.sleep(0.1)
        with contextlib.suppress(WebError):  # a machine that is busy answers later
            present = sum(executor.is_worker for executor in ui_of(spark).executors())
    _warm_up(spark, folder / "warm-up", workers)
    return spark


def _warm_up(spark: SparkSession, table: Path, workers: int) -> None:
    """Load Delta's classes on all executors in parallel; jobs of one task do it one by one."""
    tasks = 2 * workers * SLOTS
    rows = spark.range(0, tasks, 1, tasks)
    rows.write.format("delta").save(str(table))
    spark.read.format("delta").load(str(table)).agg({"id": "sum"}).collect()


def linked_spark_home(folder: Path) -> Path:
    """Make a SPARK_HOME in `folder` that links to all of the installed pyspark but its `work`.

    `local-cluster` copies all jars for each executor to `$SPARK_HOME/work`. For a pyspark from PyPI
    that lies inside site-packages, grows by half a gigabyte a session and is never emptied.
    """
    home = folder / "spark-home"
    home.mkdir(parents=True)
    for entry in sorted(ivy.pyspark_home().iterdir()):
        if entry.name != "work":
            (home / entry.name).symlink_to(entry, target_is_directory=entry.is_dir())
    return home


def ui_of(spark: SparkSession) -> SparkUi:
    """Return the UI of a session of this process."""
    return SparkUi(Address.parse(str(spark.sparkContext.uiWebUrl)))


def end() -> bool:
    """End Spark's processes, if it was started; whether they ended when they were asked to."""
    process: Any = started_jvm()
    if process is None:
        return True
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()  # the end of the pipe asks the JVM to end
    deadline = time.monotonic() + _END_LIMIT_S
    while _is_running(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    by_itself = not _is_running(process)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return by_itself


def _is_running(process: Any) -> bool:
    """Whether any process of the group exists: the JVM, the executors."""
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _last_words(folder: Path) -> str:
    lines = (folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    words = [line.strip() for line in lines if line.strip() and not line.startswith("\tat ")]
    errors = [line for line in words if "Exception" in line or "Error" in line]
    return (errors or words or ["its log is empty"])[-1]

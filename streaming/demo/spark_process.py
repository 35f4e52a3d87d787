"""Start and stop the demo's Spark in its own process group."""

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
from streaming.pipeline.job_errors import summarize
from streaming.pipeline.spark.jvm import get_started_jvm, start_context

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

LOG_NAME = "spark.log"
#: Options of the driver and the executors in both modes. Without them, a short run would spend most
#: of its CPU time in the optimizing compiler and the bytecode verifier.
JVM_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
EXECUTOR_SLOTS = 2
_EXECUTORS_LIMIT_S = 90.0
_STOP_LIMIT_S = 20.0
#: Environment variables to remove, because they would change how the demo's Spark starts.
_REMOVED_VARIABLES = (
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_PUBLIC_DNS",
)


class DemoError(AssignorError):
    """Spark failed, or did not finish a step of the demo in time."""


@contextlib.contextmanager
def summarize_spark_errors(folder: Path) -> Iterator[None]:
    """Convert Spark and py4j errors to a one-line DemoError; Spark's log has the details."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        is_exit = "JAVA_GATEWAY_EXITED" in str(error)
        reason = _find_last_error(folder) if is_exit else summarize(error)
        raise DemoError(f"Spark failed: {reason}") from error


def start_spark(folder: Path, workers: int, master: str | None) -> SparkSession:
    """Start Spark, logging to `folder`; raise DemoError if not all executors start in time."""
    from pyspark.sql import SparkSession

    from assignor_bridge import configure_spark
    from streaming.delta.spark_settings import configure_delta

    ivy.find_tool("java")  # raises a clear error if no JDK is installed
    logging.basicConfig(filename=folder / LOG_NAME)  # py4j logs its errors
    for name in _REMOVED_VARIABLES:
        os.environ.pop(name, None)
    os.environ["no_proxy"] = "*"  # requests to the UI must not go through a proxy
    os.environ["SPARK_HOME"] = str(link_spark_home(folder))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master(master or f"local-cluster[{workers},{EXECUTOR_SLOTS},1024]")
        .appName("assignor demo")
        .config("spark.cores.max", str(workers * EXECUTOR_SLOTS))
        .config("spark.executor.cores", str(EXECUTOR_SLOTS))
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
    with (folder / LOG_NAME).open("ab") as output:
        popen_args = {"stdout": output, "stderr": output, "cwd": folder, "start_new_session": True}
        start_context(builder._options, builder._options, popen_args)
    spark = builder.getOrCreate()
    deadline_s, executor_count = time.monotonic() + _EXECUTORS_LIMIT_S, 0
    while executor_count < workers:
        if time.monotonic() > deadline_s:
            raise DemoError(f"executors that started within 90 s: {executor_count} of {workers}")
        time.sleep(0.1)
        with contextlib.suppress(WebError):  # the UI may respond late on a busy machine
            executor_count = sum(e.is_running_worker for e in get_ui(spark).fetch_executors())
    _warm_up(spark, folder / "warm-up", workers)
    return spark


def _warm_up(spark: SparkSession, table: Path, workers: int) -> None:
    """Load Delta's classes on all executors at once; a job with one task would warm up only one."""
    task_count = 2 * workers * EXECUTOR_SLOTS
    spark.range(0, task_count, 1, task_count).write.format("delta").save(str(table))
    spark.read.format("delta").load(str(table)).agg({"id": "sum"}).collect()


def link_spark_home(folder: Path) -> Path:
    """Create a SPARK_HOME in `folder` with links to all of the installed pyspark except `work`.

    For each executor, `local-cluster` copies all jars to `$SPARK_HOME/work`. If pyspark is from
    PyPI, this folder is in site-packages, grows by 0.5 GB per session, and is never emptied.
    """
    home = folder / "spark-home"
    home.mkdir(parents=True)
    for entry in sorted(ivy.pyspark_home().iterdir()):
        if entry.name != "work":
            (home / entry.name).symlink_to(entry, target_is_directory=entry.is_dir())
    return home


def get_ui(spark: SparkSession) -> SparkUi:
    """Return a client for the session's UI."""
    return SparkUi(Address.parse(str(spark.sparkContext.uiWebUrl)))


def stop_spark() -> bool:
    """Stop Spark if it was started; return False if its processes had to be killed."""
    process: Any = get_started_jvm()
    if process is None:
        return True
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()  # the JVM exits when this pipe is closed
    deadline_s = time.monotonic() + _STOP_LIMIT_S
    while _is_running(process) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    stopped_cleanly = not _is_running(process)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return stopped_cleanly


def _is_running(process: Any) -> bool:
    """Return whether any process of the group (the JVM and the executors) is running."""
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _find_last_error(folder: Path) -> str:
    """Return the last line of Spark's log that names an error, or else its last message."""
    lines = (folder / LOG_NAME).read_text(encoding="utf-8", errors="replace").splitlines()
    messages = [line.strip() for line in lines if line.strip() and not line.startswith("\tat ")]
    error_lines = [line for line in messages if "Exception" in line or "Error" in line]
    return (error_lines or messages or ["its log is empty"])[-1]

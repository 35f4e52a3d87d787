"""Spark's JVM: its process is known from the first moment, so that it never outlives a command."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_END_LIMIT_S = 5.0
#: What this process has started.
_STARTED: list[subprocess.Popen[bytes]] = []


def start_context(
    settings: Mapping[str, Any], shown: Mapping[str, Any], process: Mapping[str, Any] | None = None
) -> None:
    """Start the JVM, unless it runs, and Spark's context, unless there is one.

    Only the settings `shown` are on the JVM's command line; `process` goes to `subprocess.Popen`.
    """
    from pyspark import SparkConf, SparkContext

    if SparkContext._active_spark_context is not None:
        return
    if SparkContext._gateway is None:
        conf = SparkConf(loadDefaults=False).setAll([(k, str(v)) for k, v in shown.items()])
        SparkContext._ensure_initialized(gateway=_launch(conf, process))
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        SparkContext(conf=SparkConf().setAll([(k, str(v)) for k, v in settings.items()]))
    finally:
        signal.signal(signal.SIGINT, on_interrupt)  # pyspark's calls the JVM amid another call


def _launch(conf: Any, process: Mapping[str, Any] | None) -> Any:
    """Start the JVM by pyspark, which gives its process away only once it is up."""
    from pyspark import java_gateway

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        _STARTED.append(subprocess.Popen(*arguments, **options))
        return _STARTED[-1]

    module: Any = java_gateway
    before, module.Popen = module.Popen, start
    try:
        return module.launch_gateway(conf, dict(process or {}))
    finally:
        module.Popen = before


def started_jvm() -> subprocess.Popen[bytes] | None:
    """Return the process of the JVM that this process has started; None for none."""
    return _STARTED[-1] if _STARTED else None


def end_jvm() -> None:
    """End the JVM that this process has started, whatever it is doing."""
    process = started_jvm()
    if process is None:
        return
    with contextlib.suppress(OSError):
        process.stdin.close()  # type: ignore[union-attr]
    process.terminate()
    try:
        process.wait(_END_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

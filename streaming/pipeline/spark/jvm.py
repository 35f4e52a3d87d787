"""Start Spark's JVM and keep its process handle, so that the JVM never outlives a command."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_STOP_TIMEOUT_S = 5.0
_STARTED_JVMS: list[subprocess.Popen[bytes]] = []


def start_context(
    settings: Mapping[str, Any],
    public_settings: Mapping[str, Any],
    popen_options: Mapping[str, Any] | None = None,
) -> None:
    """Start the JVM and Spark's context, unless they are running.

    The JVM's command line, which all users can read, has only the `public_settings`.
    """
    from pyspark import SparkConf, SparkContext

    if SparkContext._active_spark_context is not None:
        return
    if SparkContext._gateway is None:
        pairs = [(key, str(value)) for key, value in public_settings.items()]
        conf = SparkConf(loadDefaults=False).setAll(pairs)
        SparkContext._ensure_initialized(gateway=_launch_jvm(conf, popen_options))
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        SparkContext(conf=SparkConf().setAll([(k, str(v)) for k, v in settings.items()]))
    finally:
        # pyspark's handler would call the JVM during another call.
        signal.signal(signal.SIGINT, on_interrupt)


def _launch_jvm(conf: Any, popen_options: Mapping[str, Any] | None) -> Any:
    """Start the JVM through pyspark, and keep the process before pyspark returns it."""
    from pyspark import java_gateway

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        _STARTED_JVMS.append(subprocess.Popen(*arguments, **options))
        return _STARTED_JVMS[-1]

    module: Any = java_gateway
    original_popen, module.Popen = module.Popen, start
    try:
        return module.launch_gateway(conf, dict(popen_options or {}))
    finally:
        module.Popen = original_popen


def get_started_jvm() -> subprocess.Popen[bytes] | None:
    """Return the process of the JVM that this process has started; None if there is none."""
    return _STARTED_JVMS[-1] if _STARTED_JVMS else None


def stop_jvm() -> None:
    """Stop the JVM that this process has started, even if it is busy."""
    process = get_started_jvm()
    if process is None:
        return
    with contextlib.suppress(OSError):
        process.stdin.close()  # type: ignore[union-attr]
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

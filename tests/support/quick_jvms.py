"""Make JVMs of tests start fast, at the cost of slower code; do not use it in benchmarks."""

from __future__ import annotations

import os

_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)


def start_jvms_quickly() -> None:
    """Set the options for every JVM that this process and its children start."""
    options = os.environ.get("JAVA_TOOL_OPTIONS", "")
    if _OPTIONS not in options:
        os.environ["JAVA_TOOL_OPTIONS"] = f"{options} {_OPTIONS}".strip()

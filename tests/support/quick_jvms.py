"""How JVMs of tests start: starting each well matters, compiling it well does not.

Benchmarks must not use it.
"""

from __future__ import annotations

import os

_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)


def start_jvms_quickly() -> None:
    """Have every JVM that this process and its children start take the options."""
    told = os.environ.get("JAVA_TOOL_OPTIONS", "")
    if _OPTIONS not in told:
        os.environ["JAVA_TOOL_OPTIONS"] = f"{told} {_OPTIONS}".strip()

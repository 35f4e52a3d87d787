"""Make JVMs of tests start fast, at the cost of slower code; do not use it in benchmarks."""

from __future__ import annotations

import os

from tests.support.class_archive import find_archive

_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)


def start_jvms_quickly() -> None:
    """Set the options for every JVM that this process and its children start."""
    options = os.environ.get("JAVA_TOOL_OPTIONS", "")
    if _OPTIONS in options:
        return
    options = f"{options} {_OPTIONS}".strip()
    archive = find_archive()
    if archive.exists():  # a JVM with other classes ignores it, without the warnings
        options += f" -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
    os.environ["JAVA_TOOL_OPTIONS"] = options

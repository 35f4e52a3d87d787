"""Run the compat tests against other versions of Spark: `python -m tests.compat [VERSION ...]`.

Each version gets a virtual environment of its own under `build/compat/` (450 MB, kept), with our
pinned packages but another pyspark; the jar is the one that was built against the pinned pyspark.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from importlib.metadata import requires
from pathlib import Path

VERSIONS = ("4.1.1", "4.2.0")
ROOT = Path(__file__).parents[2]
#: What the tests need beside the package's own dependencies.
TOOLS = ("hypothesis", "pytest", "pytest-randomly", "pytest-timeout")


def packages(version: str) -> list[str]:
    """Return what to install beside this Spark; Delta has a build for each and is left out."""
    needed = [line for line in requires("assignor-bridge") or () if "extra ==" not in line]
    others = [line for line in needed if not line.startswith("pyspark")]
    return [f"pyspark=={version}", *sorted(others), *TOOLS]


def environment(version: str) -> Path:
    """Return the interpreter of this version's environment, made anew when it needs others."""
    home = ROOT / "build" / "compat" / version
    python, ready = home / "bin" / "python", home / ".ready"
    wanted = packages(version)
    if not ready.exists() or ready.read_text(encoding="utf-8") != "\n".join(wanted):
        if not python.exists():
            venv.create(home, with_pip=True)
        pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        others = home / "constraints.txt"
        kept = [pin for pin in pins if not pin.startswith(("pyspark", "py4j"))]
        others.write_text("\n".join(kept), encoding="utf-8")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-c", str(others), *wanted], check=True)
        ready.write_text("\n".join(wanted), encoding="utf-8")
    return python


def main() -> int:
    """Run the tests on each version; 1 when one of them failed."""
    failed = []
    for version in sys.argv[1:] or VERSIONS:
        print(f"== Spark {version}", flush=True)
        command = [str(environment(version)), "-m", "pytest", "-m", "compat", "tests/compat"]
        planners = os.environ | {"PYTHONPATH": str(ROOT)}  # the package is not installed there
        if subprocess.run(command, cwd=ROOT, env=planners, check=False).returncode:
            failed.append(version)
    print(f"== failed on {', '.join(failed)}" if failed else "== all passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())

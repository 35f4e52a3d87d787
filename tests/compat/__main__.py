"""Run the compat tests against other versions of Spark: `python -m tests.compat [VERSION ...]`.

Each version gets a virtual environment of its own under `build/compat/` (450 MB, kept), with our
pinned packages but another pyspark; the jar is the one that was built against the pinned pyspark.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

VERSIONS = ("4.1.1", "4.2.0")
ROOT = Path(__file__).parents[2]
#: What the tests and the planner import; Delta has a build for each Spark and is left out.
PACKAGES = (
    "confluent-kafka", "filelock", "hypothesis", "numpy", "orjson", "platformdirs",
    "prometheus-client", "pydantic", "PyYAML", "pytest", "pytest-randomly", "pytest-timeout",
    "rich", "tenacity", "typer",
)  # fmt: skip


def environment(version: str) -> Path:
    """Give the interpreter of this version's environment, made the first time."""
    home = ROOT / "build" / "compat" / version
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        venv.create(home, clear=True, with_pip=True)
        pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        others = home / "constraints.txt"
        kept = [pin for pin in pins if not pin.startswith(("pyspark", "py4j"))]
        others.write_text("\n".join(kept), encoding="utf-8")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-c", str(others), f"pyspark=={version}", *PACKAGES], check=True)
        (home / ".ready").touch()
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

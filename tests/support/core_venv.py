"""Create a virtual environment with only the packages that the option needs."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
_OURS = ("assignor_bridge", "checkpoints", "streaming")


def list_requirements(package: str, *extras: str) -> Iterator[str]:
    """Yield the direct requirements of a package with extras."""
    for need in map(Requirement, importlib.metadata.requires(package) or ()):
        if need.marker is None or any(need.marker.evaluate({"extra": e}) for e in ("", *extras)):
            yield need.name


def make_environment(folder: Path, *extras: str) -> Path:
    """Create an environment with this checkout and its requirements; return its Python.

    The packages are links to those of the tests' environment.
    """
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(command, check=True)
    [site] = (folder / "lib").glob("python*/site-packages")
    for name in _OURS:
        (site / name).symlink_to(ROOT / name)
    pending, linked = list(list_requirements("assignor-bridge", *extras)), set[str]()
    while pending:
        package = pending.pop()
        if package not in linked:
            linked.add(package)
            _link(package, site)
            pending += list_requirements(package)
    return folder / "bin" / "python"


def _link(package: str, site: Path) -> None:
    distribution = importlib.metadata.distribution(package)
    for name in {file.parts[0] for file in distribution.files or ()}:
        target = Path(str(distribution.locate_file(name)))
        if name not in ("..", "__pycache__") and not (site / name).exists():
            (site / name).symlink_to(target)

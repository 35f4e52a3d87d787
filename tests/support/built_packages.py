"""Wheel and sdist, built from a copy of the project, and installed without the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: What a wheel and an sdist are made of, but for the tests and the docs.
PACKED = (
    "pyproject.toml", "README.md", "LICENSE", ".gitignore",
    "assignor_bridge", "checkpoints", "streaming",
)  # fmt: skip


def copy_project(folder: Path) -> Path:
    """Copy what packages are made of, with the jar."""
    for name in PACKED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / name)
    return folder


def build(tree: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Build into `out/` of the tree; without flags an sdist, and a wheel from that."""
    return subprocess.run(
        [sys.executable, "-m", "build", *flags, "--no-isolation", "-o", "out", "."],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )


def build_wheel(folder: Path, *flags: str) -> Path:
    """Build the wheel of a copy of the project in this folder; flags as for `build`."""
    tree = copy_project(folder / "tree")
    done = build(tree, *flags)
    assert done.returncode == 0, done.stderr
    [wheel] = (tree / "out").glob("*.whl")
    return wheel


def run_uv(*words: str) -> None:
    """Run uv, which is among our tools; a failure is one of the test."""
    tool = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    done = subprocess.run([tool, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def install_package(package: Path, folder: Path) -> Path:
    """Install a wheel into a new environment; give its folder of commands.

    What the package depends on is taken from the environment of the tests, where it is pinned; the
    project itself is not to be seen from there.
    """
    run_uv("venv", "--no-project", "--python", sys.executable, str(folder))
    python = folder / "bin" / "python"
    run_uv("pip", "install", "--no-deps", "--offline", "--python", str(python), str(package))
    [site] = (folder / "lib").glob("python*/site-packages")
    # Unlike that folder itself, one that is named in a .pth has its own .pth files ignored.
    (site / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "bin"

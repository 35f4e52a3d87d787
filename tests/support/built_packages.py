"""Build a wheel and an sdist from a copy of the project, and install them elsewhere."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Sources of a wheel and an sdist, without the tests and the docs.
PACKED = (
    "pyproject.toml", "README.md", "LICENSE", ".gitignore",
    "assignor_bridge", "checkpoints", "streaming",
)  # fmt: skip


def copy_project(folder: Path) -> Path:
    for name in PACKED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / name)
    return folder


def build(tree: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Build into `out/` of the tree; without flags, build an sdist and then a wheel from it."""
    return subprocess.run(
        [sys.executable, "-m", "build", *flags, "--no-isolation", "-o", "out", "."],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )


def build_wheel(folder: Path, *flags: str) -> Path:
    """Copy the project into a folder and build its wheel; the flags are those of `build`."""
    tree = copy_project(folder / "tree")
    completed = build(tree, *flags)
    assert completed.returncode == 0, completed.stderr
    [wheel] = (tree / "out").glob("*.whl")
    return wheel


def run_uv(*words: str) -> None:
    tool = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    completed = subprocess.run([tool, *words], capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr[-3000:]


def install_package(package: Path, folder: Path) -> Path:
    """Install a wheel into a new environment, and return its `bin` folder.

    Dependencies come from the tests' environment, in which they are pinned; the project itself is
    not visible from there.
    """
    run_uv("venv", "--no-project", "--python", sys.executable, str(folder))
    python = folder / "bin" / "python"
    run_uv("pip", "install", "--no-deps", "--offline", "--python", str(python), str(package))
    [site] = (folder / "lib").glob("python*/site-packages")
    # The .pth files of a folder that is named in a .pth file are ignored.
    (site / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "bin"

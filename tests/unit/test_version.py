"""The version names the commit: in a checkout, an archive of git, a jar, and a wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from assignor_bridge import __version__, version
from assignor_bridge.jvm import build as jar_build
from assignor_bridge.version import RELEASE, read_jar_version, read_version

ROOT = Path(version.__file__).parents[1]
PRINT_VERSION = "from assignor_bridge.version import read_version; print(read_version())"


def git(tree: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(tree), *identity, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit(tree: Path) -> str:
    git(tree, "add", "--all")
    git(tree, "commit", "--allow-empty", "-m", "a change")
    return "g" + git(tree, "rev-parse", "HEAD")[:10]


def version_in(path: Path) -> str:
    """Return the version of the package in this folder or zip."""
    program = f"import sys; sys.path.insert(0, {str(path)!r}); {PRINT_VERSION}"
    command = [sys.executable, "-I", "-S", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a folder with the files that determine the version, and no `.git` yet."""
    tree = tmp_path / "tree"
    (tree / "assignor_bridge").mkdir(parents=True)
    for name in ("assignor_bridge/__init__.py", "assignor_bridge/version.py", ".gitattributes"):
        shutil.copyfile(ROOT / name, tree / name)
    (tree / ".gitignore").write_text("__pycache__/\nassignor_bridge/jars/\n")
    return tree


def test_each_commit_has_a_version_of_its_own(tree: Path) -> None:
    git(tree, "init")
    first = commit(tree)
    assert version_in(tree) == f"{RELEASE}.dev1+{first}"
    git(tree, "tag", "v0.0.1")
    second = commit(tree)
    assert version_in(tree) == f"{RELEASE}.dev1+{second}"
    third = commit(tree)
    git(tree, "tag", f"v{RELEASE}")
    assert version_in(tree) == RELEASE
    fourth = commit(tree)
    assert version_in(tree) == f"{RELEASE}.post1+{fourth}"
    assert len({first, second, third, fourth}) == 4


def test_uncommitted_changes_of_the_packages_are_visible(tree: Path) -> None:
    git(tree, "init")
    first = commit(tree)
    (tree / "notes.txt").touch()
    (tree / "assignor_bridge" / "jars").mkdir()
    (tree / "assignor_bridge" / "jars" / "version.txt").write_text("0.0.9-f00")
    assert version_in(tree) == f"{RELEASE}.dev1+{first}"
    (tree / "assignor_bridge" / "new.py").touch()
    assert version_in(tree) == f"{RELEASE}.dev1+{first}.dirty"


def test_the_version_of_an_archive_has_the_commit(tree: Path, tmp_path: Path) -> None:
    git(tree, "init")
    first = commit(tree)
    archive = tmp_path / "archive.zip"
    git(tree, "archive", "-o", str(archive), "HEAD")
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path / "unpacked")
    assert version_in(tmp_path / "unpacked") == f"{RELEASE}.dev0+{first}"


def test_a_tree_without_git_has_the_version_of_its_jar(tree: Path, tmp_path: Path) -> None:
    git(tmp_path, "init")  # a repository around the installed package is ignored
    assert version_in(tree) == f"{RELEASE}.dev0+unknown"
    jars = tree / "assignor_bridge" / "jars"
    jars.mkdir()
    (jars / "version.txt").write_text("0.2.0.dev7+g0123456789.dirty-abcdef0123")
    assert version_in(tree) == "0.2.0.dev7+g0123456789.dirty"
    packed = shutil.make_archive(str(tmp_path / "package"), "zip", tree)
    assert version_in(Path(packed)) == "0.2.0.dev7+g0123456789.dirty"


def test_the_version_is_unknown_if_git_fails(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / ".git").mkdir()
    assert version_in(tree) == f"{RELEASE}.dev0+unknown"
    monkeypatch.setenv("PATH", os.devnull)
    assert version_in(tree) == f"{RELEASE}.dev0+unknown"


def test_versions_are_in_order() -> None:
    ordered = ["0.2.0.dev1+ga", "0.2.0.dev20+gb.dirty", "0.2.0", "0.2.0.post1+gc", "0.3.0.dev1+gd"]
    assert sorted(ordered, key=Version) == ordered
    assert str(Version(__version__)) == __version__ == read_version()


def test_a_jar_of_the_same_sources_is_stamped_and_not_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jar_build, "_compile", lambda folder: pytest.fail("compiled"))
    sources = jar_build.hash_sources()
    name = "io/assignorbridge/version.txt"
    with zipfile.ZipFile(tmp_path / f"assignor-bridge-0.0.9-{sources}.jar", "w") as earlier:
        earlier.writestr(name, f"0.0.9-{sources}")
        earlier.writestr("io/assignorbridge/A.class", "code")
    jar = jar_build.build(tmp_path)
    assert jar.name == f"assignor-bridge-{__version__}-{sources}.jar"
    assert {path.name for path in tmp_path.iterdir()} == {jar.name, "version.txt"}
    assert (tmp_path / "version.txt").read_text() == f"{__version__}-{sources}"
    with zipfile.ZipFile(jar) as archive:
        names = archive.namelist()
        assert names[0] == "META-INF/MANIFEST.MF"
        assert len(set(names)) == len(names)
        assert archive.read("io/assignorbridge/A.class") == b"code"
        assert archive.read(name).decode() == f"{__version__}-{sources}"
        manifest = archive.read(names[0]).decode()
    assert f"Implementation-Version: {__version__}\r\n" in manifest
    assert all(len(line) <= 72 for line in manifest.splitlines())
    assert jar_build.build(tmp_path) == jar


def test_the_planner_reports_the_version_of_the_jar_of_its_package() -> None:
    from assignor_bridge.jars import find_built_jar
    from assignor_bridge.protocol.messages import Validated

    assert Validated({}, 1).package_version == read_jar_version()
    assert find_built_jar().stem == f"assignor-bridge-{read_jar_version()}"

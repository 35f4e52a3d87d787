"""Wheel and sdist contain the jar, need the jar, and are reproducible."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from assignor_bridge.jars import find_built_jar
from assignor_bridge.jvm import build as jar_build
from assignor_bridge.version import read_jar_version
from tests.lab.release.sbom import sha256
from tests.support.built_packages import build, copy_project, install_package

if TYPE_CHECKING:
    from pathlib import Path

#: A copy of the project has no `.git`, so its version is that of its jar.
VERSION = read_jar_version().rpartition("-")[0]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project with an sdist, and a wheel from it, in `out/`."""
    tree = copy_project(tmp_path_factory.mktemp("built") / "tree")
    done = build(tree)
    assert done.returncode == 0, done.stderr
    return tree


@pytest.fixture(scope="module")
def wheel(tree: Path) -> Path:
    [wheel] = (tree / "out").glob("*.whl")
    return wheel


def test_the_wheel_has_the_jar_and_the_files_of_reports(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    jars = [name for name in names if name.endswith(".jar")]
    assert len(jars) == 1
    assert wheel.name.startswith(f"assignor_bridge-{VERSION}-")
    assert jars[0].startswith(f"assignor_bridge/jars/assignor-bridge-{VERSION}-")
    assert {"page.css", "page.html", "picture.css"} <= {
        name.removeprefix("streaming/report/") for name in names
    }
    assert "streaming/cli/job.yaml.template" in names
    roots = {name.split("/")[0] for name in names}
    assert {r for r in roots if not r.endswith(".dist-info")} == {
        "assignor_bridge",
        "checkpoints",
        "streaming",
    }


def test_the_sdist_has_the_jar_too(tree: Path) -> None:
    [sdist] = (tree / "out").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert f"assignor_bridge/jars/{find_built_jar().name}" in names
    assert {"pyproject.toml", "PKG-INFO", "LICENSE"} <= names


def test_a_wheel_from_the_sdist_is_the_same_bytes_as_one_from_elsewhere(
    tree: Path, wheel: Path, tmp_path: Path
) -> None:
    """Another folder, other times and other permissions do not change the content."""
    other = copy_project(tmp_path / "elsewhere")
    for path in other.rglob("*.py"):
        os.utime(path, (1, 1))
        path.chmod(0o600)
    done = build(other, "--wheel", "--sdist")
    assert done.returncode == 0, done.stderr
    for built in (tree / "out").iterdir():
        assert sha256(built.read_bytes()) == sha256((other / "out" / built.name).read_bytes())


@pytest.mark.integration
@pytest.mark.long
def test_the_jar_is_the_same_bytes_when_it_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = jar_build.build()
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    again = jar_build.build(tmp_path)
    assert again.name == first.name
    assert sha256(again.read_bytes()) == sha256(first.read_bytes())


def test_an_installed_wheel_has_its_command_and_its_jar(wheel: Path, tmp_path: Path) -> None:
    """Run it in an environment with its dependencies and without this checkout."""
    commands = install_package(wheel, tmp_path / "environment")
    program = (
        "import assignor_bridge, streaming, checkpoints;"
        "from assignor_bridge.jars import find_built_jar;"
        "print(*(m.__file__ for m in (assignor_bridge, streaming, checkpoints)), find_built_jar())"
    )
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for words in ([commands / "python", "-c", program], [commands / "assignor", "--version"]):
        done = subprocess.run(
            words, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        if "-c" in words:
            assert all(str(commands.parent) in path for path in done.stdout.split()), done.stdout
        else:
            assert done.stdout == f"assignor {VERSION}\n"


@pytest.mark.parametrize("kind", ["--wheel", "--sdist"])
def test_no_wheel_is_built_without_the_jar(tmp_path: Path, kind: str) -> None:
    tree = copy_project(tmp_path)
    shutil.rmtree(tree / "assignor_bridge" / "jars")
    done = build(tree, kind)
    assert done.returncode != 0
    assert "(none): run `make jar` first" in done.stderr + done.stdout


def test_no_wheel_is_built_with_the_jar_of_another_version(tmp_path: Path) -> None:
    tree = copy_project(tmp_path)
    (tree / "assignor_bridge" / "jars" / "version.txt").write_text("0.0.9-f00")
    done = build(tree, "--wheel")
    assert done.returncode != 0
    assert "has no jar of version 0.0.9 (assignor-bridge-" in done.stderr + done.stdout


def test_the_jar_lists_the_spark_members_that_it_uses() -> None:
    """SparkMembers.java checks them; streams need none of Delta or of record checks."""
    with zipfile.ZipFile(find_built_jar()) as jar:
        members = jar.read("io/assignorbridge/spark-members.txt").decode().splitlines()
        version = jar.read("io/assignorbridge/version.txt").decode()
    kafka010 = "org/apache/spark/sql/kafka010"
    stream = f"{kafka010}/KafkaMicroBatchStream"
    methods = {tuple(member.split()[:2]) for member in members}
    assert (f"{kafka010}/KafkaBatchInputPartition", "copy") in methods
    assert (stream, "<init>") in methods
    assert (stream,) in methods
    extending = {
        "model/ReportAccumulator",
        "reader/RecordRow",
        "source/AssignedMicroBatchStream",
        "source/KafkaRelationRule",
    }
    assert {member for member in members if "assignorbridge" in member} == {
        f"io/assignorbridge/{name}" for name in extending
    }
    assert not [member for member in members if "/delta/" in member or "JSONOptions" in member]
    assert find_built_jar().stem == f"assignor-bridge-{version}"

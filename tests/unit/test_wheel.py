"""A wheel carries the jar, and no wheel is built without it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from assignor_bridge import __version__
from assignor_bridge.jars import built_jar

ROOT = Path(__file__).parents[2]
PACKED = ("pyproject.toml", "README.md", "LICENSE", "assignor_bridge", "checkpoints", "streaming")


def build(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", "out", "."],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )


def copy_of_the_project(folder: Path) -> Path:
    for name in PACKED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


def test_the_wheel_carries_the_jar_and_the_files_of_reports(tmp_path: Path) -> None:
    done = build(copy_of_the_project(tmp_path))
    assert done.returncode == 0, done.stderr
    [wheel] = (tmp_path / "out").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    jars = [name for name in names if name.endswith(".jar")]
    assert len(jars) == 1
    assert jars[0].startswith("assignor_bridge/jars/assignor-bridge-")
    assert wheel.name.startswith(f"assignor_bridge-{__version__}-")
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


def test_without_the_jar_no_wheel_is_built(tmp_path: Path) -> None:
    tree = copy_of_the_project(tmp_path)
    shutil.rmtree(tree / "assignor_bridge" / "jars")
    done = build(tree)
    assert done.returncode != 0
    assert "make jar" in done.stderr + done.stdout


def test_the_jar_names_what_it_uses_of_spark() -> None:
    """SparkMembers.java looks these up; those of Delta no stream needs."""
    with zipfile.ZipFile(built_jar()) as jar:
        members = jar.read("io/assignorbridge/spark-members.txt").decode().splitlines()
        version = jar.read("io/assignorbridge/version.txt").decode()
    kafka010 = "org/apache/spark/sql/kafka010"
    stream = f"{kafka010}/KafkaMicroBatchStream"
    methods = {tuple(member.split()[:2]) for member in members}
    assert (f"{kafka010}/KafkaBatchInputPartition", "copy") in methods
    assert (stream, "<init>") in methods
    assert (stream,) in methods
    assert not [member for member in members if "/delta/" in member]
    assert built_jar().stem == f"assignor-bridge-{version}"

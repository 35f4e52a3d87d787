"""spark-submit to a standalone cluster: from wheel or files alone, in client and cluster mode."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from assignor_bridge import ivy
from assignor_bridge.jars import connector_coordinate, find_built_jar
from tests.lab.long import submitted_job
from tests.support.built_packages import build_wheel, install_package
from tests.support.spark_tools import assert_planned
from tests.support.standalone_cluster import standalone_cluster, workers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.integration, pytest.mark.long]

COUNTS = [60, 20, 12, 8]
#: What the connector needs of what Spark does not bring itself.
ALONE = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("built"), "--wheel")


@pytest.fixture(scope="module")
def commands(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the wheel."""
    return install_package(wheel, tmp_path_factory.mktemp("wheel") / "environment")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two workers of two cores: one has room for a driver beside an executor."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), workers(2, 2)) as cluster:
        yield cluster.url


def run(*words: object, folder: Path, python: Path | None = None) -> str:
    """Run a command as its user would: nothing of this checkout is on any path."""
    ours = ("PYTHONPATH", "PYSPARK_PYTHON", "SPARK_HOME", "SPARK_LOCAL_IP")
    clean = {name: value for name, value in os.environ.items() if name not in ours}
    if python is not None:
        clean["PYSPARK_PYTHON"] = str(python)
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env=clean, timeout=400,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def submit(master: str, *words: object, folder: Path, python: Path | None = None) -> str:
    memory = ("--driver-memory", "512m", "--executor-memory", "512m")
    local = ("--conf", "spark.ui.enabled=false", "--conf", f"spark.local.dir={folder}/local")
    spark_submit = ivy.pyspark_home() / "bin" / "spark-submit"
    return run(
        spark_submit, "--master", master, *memory, *local, *words, folder=folder, python=python
    )


def read_once(folder: Path) -> dict[str, Any]:
    """What a job has told: all was read, as we planned."""
    told: dict[str, Any] = json.loads((folder / "told.json").read_text())
    assert_planned(told["batches"])
    assert sum(batch["numInputRows"] for batch in told["batches"]) == sum(COUNTS)
    return told


def jars() -> str:
    fetched = ivy.fetch(connector_coordinate())
    return ",".join(map(str, [find_built_jar(), *(j for j in fetched if j.name.startswith(ALONE))]))


def test_in_client_mode_with_the_wheel_installed(
    cluster: str, commands: Path, topic: Topic, tmp_path: Path
) -> None:
    topic.create(4).fill(COUNTS)
    flags = run(commands / "assignor", "jars", folder=tmp_path).split()
    arguments = (submitted_job.__file__, topic.bootstrap_servers, topic.name, tmp_path)
    submit(cluster, *flags, *arguments, folder=tmp_path, python=commands / "python")
    assert Path(read_once(tmp_path)["package"]).is_relative_to(commands.parent)


@pytest.mark.parametrize("kind", ["--packages", "--jars"])
def test_in_client_mode_with_files_alone(
    cluster: str, commands: Path, wheel: Path, topic: Topic, tmp_path: Path, kind: str
) -> None:
    """A Python that has numpy and msgspec, and our package from `--py-files` alone."""
    topic.create(4).fill(COUNTS)
    empty = installed_without_us(tmp_path / "environment")
    flags = run(commands / "assignor", "jars", folder=tmp_path).split()
    if kind == "--jars":
        flags = ["--jars", jars()]
    arguments = (submitted_job.__file__, topic.bootstrap_servers, topic.name, tmp_path)
    submit(cluster, *flags, "--py-files", wheel, *arguments, folder=tmp_path, python=empty)
    assert wheel.name in read_once(tmp_path)["package"]


def installed_without_us(folder: Path) -> Path:
    """An interpreter with all that we depend on, and a package that is not ours."""
    other = folder.parent / "nothing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(other, "w") as archive:
        about = "nothing-1.0.dist-info"
        archive.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: nothing\nVersion: 1.0\n"
        )
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return install_package(other, folder) / "python"


def test_in_cluster_mode(cluster: str, commands: Path, topic: Topic, tmp_path: Path) -> None:
    """The driver is started by a worker, which has Spark, our jar by `--jars`, and a Python."""
    topic.create(4).fill(COUNTS)
    application = compiled(tmp_path / "application")
    python = f"spark.assignor.python={commands / 'python'}"
    submit(
        cluster, "--deploy-mode", "cluster", "--class", "SubmittedStream", "--jars", jars(),
        "--conf", python, "--conf", "spark.standalone.submit.waitAppCompletion=true",
        application, topic.bootstrap_servers, topic.name, tmp_path, folder=tmp_path,
    )  # fmt: skip
    read_once(tmp_path)


def compiled(folder: Path) -> Path:
    """Build the jar of SubmittedStream.java."""
    source = Path(__file__).with_name("SubmittedStream.java")
    class_path = f"{ivy.pyspark_home()}/jars/*"
    run(ivy.find_tool("javac"), "-cp", class_path, "-d", folder, source, folder=folder.parent)
    target = folder / "application.jar"
    with zipfile.ZipFile(target, "w") as archive:
        for path in folder.rglob("*.class"):
            archive.write(path, path.relative_to(folder))
    return target


def test_spark_itself_refuses_python_in_cluster_mode(cluster: str, tmp_path: Path) -> None:
    """Where it does not one day, the page must say something else."""
    with pytest.raises(AssertionError, match="not supported for python applications on standalone"):
        submit(cluster, "--deploy-mode", "cluster", submitted_job.__file__, folder=tmp_path)

"""The jars by their Maven coordinates: from a local repository alone, and in a job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from assignor_bridge import __version__, ivy
from assignor_bridge.jars import ARTIFACT, GROUP, connector_coordinate, find_built_jar
from tests.lab.long import submitted_job
from tests.lab.release import maven
from tests.support.real_group import compile_program
from tests.support.spark_tools import assert_planned

if TYPE_CHECKING:
    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.integration, pytest.mark.drivers]


def test_ivy_finds_the_jar_by_its_coordinate_and_needs_nothing_else(tmp_path: Path) -> None:
    maven.write_repository(tmp_path / "repository")
    [jar] = maven.fetched(tmp_path / "repository", tmp_path / "scratch")
    assert jar.name == f"{ARTIFACT}-{__version__}.jar"
    assert jar.read_bytes() == find_built_jar().read_bytes()


def test_the_jar_of_the_assignor_runs_without_spark(tmp_path: Path) -> None:
    """It holds one class, which assigns with Kafka's client alone on the class path."""
    maven.write_repository(tmp_path / "repository")
    [jar] = maven.fetched(tmp_path / "repository", tmp_path / "scratch", maven.ASSIGNOR_COORDINATE)
    assert jar.name == f"lag-aware-assignor-{__version__}.jar"
    with zipfile.ZipFile(jar) as archive:
        names = archive.namelist()
    assert names == ["META-INF/MANIFEST.MF", "io/assignorbridge/LagAwareAssignor.class"]
    path = compile_program(tmp_path, "LagAwareGroups", jar)
    assert str(find_built_jar()) not in path
    group = {
        "topics": {"t": 3}, "members": {"C0": ["t"], "C1": ["t"]},
        "lags": {"t": {"0": 100_000, "1": 60_000, "2": 50_000}},
    }  # fmt: skip
    done = subprocess.run(
        [ivy.find_tool("java"), "-cp", path, "LagAwareGroups"],
        input=json.dumps(group), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {"C0": {"t": [0]}, "C1": {"t": [1, 2]}}


def test_a_jar_that_was_changed_after_its_checksum_is_refused(tmp_path: Path) -> None:
    folder = maven.write_repository(tmp_path / "repository")
    jar = folder / f"{maven.NAME}.jar"
    jar.write_bytes(jar.read_bytes() + b"more")
    with pytest.raises(ivy.JarError, match="could not be fetched"):
        maven.fetched(tmp_path / "repository", tmp_path / "scratch")


@pytest.mark.long
def test_a_job_has_the_option_by_the_coordinate_alone(topic: Topic, tmp_path: Path) -> None:
    """`spark-submit --packages`, with an Ivy cache in which nothing is yet."""
    counts = [60, 20, 12, 8]
    topic.create(4).fill(counts)
    maven.write_repository(tmp_path / "repository")
    needed = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
    connector = [j for j in ivy.fetch(connector_coordinate()) if j.name.startswith(needed)]
    settings = {
        "spark.jars.ivy": tmp_path / "ivy",
        "spark.local.dir": tmp_path / "local",
        "spark.ui.enabled": "false",
    }
    command = [
        ivy.pyspark_home() / "bin" / "spark-submit", "--master", "local[2]",
        "--packages", maven.COORDINATE, "--repositories", (tmp_path / "repository").as_uri(),
        "--jars", ",".join(map(str, connector)),
        *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")),
        submitted_job.__file__, topic.bootstrap_servers, topic.name, tmp_path,
    ]  # fmt: skip
    done = subprocess.run(
        [*map(str, command)], cwd=tmp_path, timeout=400, capture_output=True, text=True,
        check=False, env=os.environ | {"PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    batches = json.loads(Path(tmp_path, "told.json").read_text())["batches"]
    assert_planned(batches)
    assert sum(batch["numInputRows"] for batch in batches) == sum(counts)
    brought = tmp_path / "ivy" / "jars" / f"{GROUP}_{ARTIFACT}-{__version__}.jar"
    assert brought.read_bytes() == find_built_jar().read_bytes()

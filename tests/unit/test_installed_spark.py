"""The Spark that runs, not pip's pyspark, determines the packages."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from assignor_bridge import configure_spark, session, spark_packages
from assignor_bridge.installed_spark import describe_mismatch, spark_home, spark_version
from assignor_bridge.ivy import JarError, pyspark_home
from assignor_bridge.jars import connector_coordinate
from streaming.cli import main
from streaming.delta.spark_settings import delta_coordinate
from streaming.doctor import machine

PIP = importlib.metadata.version("pyspark")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder named by SPARK_HOME, without a Spark yet."""
    (tmp_path / "jars").mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    return tmp_path


def hold(home: Path, version: str, scala: str = "2.13") -> None:
    (home / "jars" / f"spark-core_{scala}-{version}.jar").touch()


@pytest.mark.parametrize("value", [None, ""])
def test_without_spark_home_pips_pyspark_runs(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is None:
        monkeypatch.delenv("SPARK_HOME", raising=False)
    else:
        monkeypatch.setenv("SPARK_HOME", value)
    assert (spark_home(), spark_version(), describe_mismatch()) == (pyspark_home(), PIP, None)


def test_spark_home_may_be_pips_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(pyspark_home()))
    assert (spark_version(), describe_mismatch()) == (PIP, None)


@pytest.mark.parametrize(
    ("version", "scala", "found"),
    [
        ("4.1.1", "2.13", "4.1.1"),
        ("4.0.1-amzn-0", "2.13", "4.0.1"),
        ("4.2.0-SNAPSHOT", "2.13", "4.2.0"),
        ("3.5.1", "2.12", "3.5.1"),
    ],
)
def test_spark_home_takes_precedence(home: Path, version: str, scala: str, found: str) -> None:
    hold(home, version, scala)
    (home / "jars" / "spark-core_2.13-tests.jar").touch()
    assert spark_version() == found
    assert (
        describe_mismatch() == f"SPARK_HOME ({home}) has Spark {found}, but pip's pyspark is {PIP}"
    )


def test_the_packages_of_a_session_are_of_that_spark(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(home, "4.1.1")
    monkeypatch.setattr(session, "_jvm_is_running", lambda: False)
    monkeypatch.setattr(spark_packages, "resolve", lambda *_: None)
    packages = configure_spark(SparkSession.Builder())._options["spark.jars.packages"]
    assert packages.startswith("org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1,")
    assert delta_coordinate() == "io.delta:delta-spark_4.1_2.13:4.4.0"
    assert connector_coordinate("4.0.4").endswith(":4.0.0")
    assert connector_coordinate("4.0.5").endswith(":4.0.5")


def test_flags_for_an_untested_spark_have_a_note(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Flags for Spark 3, which cannot load the jar, were once printed without a note."""
    hold(home, "3.5.1")
    assert main.run(["jars"]) == 0
    told = capsys.readouterr().err
    assert "assignor-bridge was not tested on Spark 3.5.1 (tested: 4.0.4, " in told


def test_the_command_prints_flags_for_spark_home_with_a_note(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hold(home, "4.1.1")
    assert main.run(["jars"]) == 0
    out, told = capsys.readouterr()
    assert out.startswith("--packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1,")
    assert out.count("\n") == 1
    assert told == (
        f"assignor: SPARK_HOME ({home}) has Spark 4.1.1, but pip's pyspark is {PIP}: "
        "these flags are for Spark 4.1.1\n"
    )
    assert main.run(["jars", "--json"]) == 0
    assert "4.1.1" in orjson.loads(capsys.readouterr().out)["packages"][0]
    check = machine._check_spark()
    advice = "install pyspark==4.1.1, or unset SPARK_HOME"
    assert (check.holds, check.details) == (True, f"{describe_mismatch()}: {advice}")


def test_spark_home_works_without_pips_pyspark(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    hold(home, "4.1.1")
    monkeypatch.setattr(importlib.metadata, "version", absent)
    assert (spark_version(), describe_mismatch()) == ("4.1.1", None)


@pytest.mark.parametrize("exists", [True, False])
def test_a_spark_home_without_spark_gives_a_one_line_error(
    home: Path, exists: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not exists:
        monkeypatch.setenv("SPARK_HOME", str(home / "gone"))
    assert main.run(["jars"]) == 1
    out, told = capsys.readouterr()
    assert (out, told.count("\n")) == ("", 1)
    assert "has no Spark (no jars/spark-core_2.13-*.jar): correct it, or unset it" in told
    with pytest.raises(JarError, match="has no Spark"):
        connector_coordinate()
    assert "has no Spark" in machine._check_spark().details

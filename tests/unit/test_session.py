"""`configure_spark` adds ours and keeps what the user put on the builder."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from assignor_bridge import configure_spark, ivy, jars, session
from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that this process has started no JVM, whatever other tests did."""
    monkeypatch.setattr(session, "_jvm_is_running", lambda: False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)


def configured(**options: str) -> dict[str, str]:
    builder = SparkSession.Builder()
    for name, value in options.items():
        builder = builder.config(name.replace("_", "."), value)
    return dict(configure_spark(builder)._options)


def test_connector_jar_repository_and_interpreter_are_added() -> None:
    options = configured()
    connector, ours = options["spark.jars.packages"].split(",")
    assert connector.startswith("org.apache.spark:spark-sql-kafka-0-10_2.13:4.")
    assert ours.startswith("io.assignorbridge:assignor-bridge:")
    assert options["spark.jars.repositories"].startswith("file:")
    assert options["spark.assignor.python"] == sys.executable


def test_the_users_packages_repositories_extensions_and_interpreter_stay() -> None:
    options = configured(
        spark_jars_packages="io.delta:delta-spark_4.0_2.13:4.4.0, a:b:1",
        spark_jars_repositories="https://example.org/maven",
        spark_sql_extensions="io.delta.sql.DeltaSparkSessionExtension",
        spark_assignor_python="/opt/python",
    )
    packages = options["spark.jars.packages"].split(",")
    assert packages[:2] == ["io.delta:delta-spark_4.0_2.13:4.4.0", "a:b:1"]
    assert len(packages) == 4
    assert options["spark.jars.repositories"].startswith("https://example.org/maven,file:")
    assert options["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert options["spark.assignor.python"] == "/opt/python"


def test_twice_is_as_once() -> None:
    builder = configure_spark(SparkSession.Builder())
    once = dict(builder._options)
    assert dict(configure_spark(builder)._options) == once


def test_a_connector_that_the_user_named_is_not_doubled() -> None:
    named = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.2"
    packages = configured(spark_jars_packages=named)["spark.jars.packages"].split(",")
    assert [p for p in packages if "kafka" in p] == [named]


def test_packages_of_spark_defaults_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# defaults\nspark.jars.packages   a:b:1,c:d:2\nspark.jars.repositories=https://r.example\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    options = configured()
    assert options["spark.jars.packages"].startswith("a:b:1,c:d:2,org.apache.spark")
    assert options["spark.jars.repositories"].startswith("https://r.example,file:")


def test_spark_jars_beside_packages_is_refused() -> None:
    with pytest.raises(OptionError, match=r"spark\.jars is set on the builder"):
        configured(spark_jars="/some/udf.jar")


def test_a_jar_that_was_not_built_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jars, "JARS_FOLDER", tmp_path)
    with pytest.raises(ivy.JarError, match="make jar"):
        configured()

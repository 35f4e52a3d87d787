"""`configure_spark` adds the bridge and keeps the user's settings on the builder."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from assignor_bridge import configure_spark, ivy, jars, session, spark_packages, tested_spark
from assignor_bridge.errors import OptionError
from assignor_bridge.installed_spark import spark_version

resolve = spark_packages.resolve


@pytest.fixture(autouse=True)
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that this process has started no JVM, whatever other tests have done."""
    monkeypatch.setattr(session, "_jvm_is_running", lambda: False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(spark_packages, "resolve", lambda *_: None)
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


def test_the_users_packages_repositories_extensions_and_interpreter_are_kept() -> None:
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


def test_a_second_call_changes_nothing() -> None:
    builder = configure_spark(SparkSession.Builder())
    once = dict(builder._options)
    assert dict(configure_spark(builder)._options) == once


def test_the_users_connector_is_kept() -> None:
    named = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.2"
    packages = configured(spark_jars_packages=named)["spark.jars.packages"].split(",")
    assert [p for p in packages if "kafka" in p] == [named]


def test_packages_of_spark_defaults_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# defaults\nspark.jars.packages   a:b:1,c:d:2\nspark.jars.repositories=https://r.example\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    options = configured()
    assert options["spark.jars.packages"].startswith("a:b:1,c:d:2,org.apache.spark")
    assert options["spark.jars.repositories"].startswith("https://r.example,file:")


def test_packages_of_the_defaults_in_pips_pyspark_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without SPARK_HOME they were ignored, and the value on the builder replaced them."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.jars.packages a:b:1\n")
    monkeypatch.setattr(ivy, "pyspark_home", lambda: tmp_path)
    assert configured()["spark.jars.packages"].startswith("a:b:1,org.apache.spark")


def test_spark_defaults_may_have_another_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark accepts it; a Latin-1 character in a comment was a UnicodeDecodeError."""
    (tmp_path / "spark-defaults.conf").write_bytes(
        "# für alle\nspark.jars.packages a:b:1\n".encode("latin-1")
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert configured()["spark.jars.packages"].startswith("a:b:1,org.apache.spark")


def test_spark_jars_together_with_packages_is_refused() -> None:
    with pytest.raises(OptionError, match=r"spark\.jars is set on the builder"):
        configured(spark_jars="/some/udf.jar")


def test_a_missing_jar_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jars, "JARS_FOLDER", tmp_path)
    with pytest.raises(ivy.JarError, match="make jar"):
        configured()


def test_packages_are_resolved_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = "-Dhttps.proxyHost=proxy.example"
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.jars.ivy = /shared/ivy\nspark.driver.extraJavaOptions {proxy}\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    resolved: list[dict[str, str]] = []
    monkeypatch.setattr(spark_packages, "resolve", lambda all_, _: resolved.append(all_))
    options = configured(spark_jars_excludes="a:b")
    [settings] = resolved
    assert {name: settings[name] for name in spark_packages.SETTINGS if name in settings} == {
        "spark.jars.packages": options["spark.jars.packages"],
        "spark.jars.repositories": options["spark.jars.repositories"],
        "spark.jars.excludes": "a:b",
        "spark.jars.ivy": "/shared/ivy",
        "spark.driver.extraJavaOptions": proxy,
    }


def test_a_client_of_spark_connect_resolves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_packages, "resolve", lambda *_: pytest.fail("resolved"))
    configured(spark_remote="sc://host")


@pytest.mark.parametrize("has_bridge", [False, True])
def test_a_late_call_under_spark_submit_gives_a_warning(
    has_bridge: bool, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """The builder's packages were dropped silently, and the option had no effect."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(session, "_has_bridge", lambda: has_bridge)
    warnings.simplefilter("always")
    assert list(configured()) == ["spark.assignor.python"]
    told = [str(warning.message) for warning in recwarn]
    assert told == ([] if has_bridge else [session._TOO_LATE])
    assert "spark-submit $(assignor jars)" in session._TOO_LATE


def test_a_client_of_spark_connect_under_spark_submit_needs_no_jvm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(session, "_has_bridge", lambda: pytest.fail("asked"))
    configured(spark_remote="sc://host")


def test_an_untested_pyspark_gives_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tested_spark, "TESTED_SPARKS", {"4.9.0": "4.9.0"})
    with pytest.warns(UserWarning, match=r"was not tested on Spark .* \(tested: 4\.9\.0\)"):
        packages = configured()["spark.jars.packages"]
    assert f"spark-sql-kafka-0-10_2.13:{spark_version()}," in packages


def test_pip_keeps_any_spark_from_4_0_1_and_the_tests_run_on_a_tested_one() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert '"pyspark>=4.0.1",' in project
    pins = (Path(__file__).parents[2] / "constraints.txt").read_text(encoding="utf-8")
    assert any(f"\npyspark=={spark}\n" in pins for spark in tested_spark.TESTED_SPARKS)


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the arguments of a fake `spark-submit`, one per line."""
    script = tmp_path / "spark" / "bin" / "spark-submit"
    script.parent.mkdir(parents=True)
    words = tmp_path / "words"
    script.write_text(
        f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {words}\n"
        "echo 'The jars for the packages stored in: /jars'\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("ASSIGNOR_BRIDGE_CACHE", str(tmp_path / "cache"))
    return words


def test_packages_are_resolved_by_the_script_that_starts_spark(submitted: Path) -> None:
    """Another JVM ignored the proxies of SPARK_SUBMIT_OPTS, spark-env.sh and the builder."""
    proxy = "-Dhttps.proxyHost=proxy.example"
    settings = {"spark.jars.packages": "a:b:1", "spark.driver.extraJavaOptions": proxy}
    assert not resolve(settings, "")
    assert f"spark.driver.extraJavaOptions={proxy}" in submitted.read_text().splitlines()
    assert resolve(settings, "")


def test_with_an_unwritable_cache_spark_resolves_the_packages(
    submitted: Path, tmp_path: Path
) -> None:
    """In a read-only container they came from `spark.jars.ivy` before."""
    (tmp_path / "cache").touch()
    resolve({"spark.jars.packages": "a:b:1"}, "")
    assert not submitted.exists()


def test_configure_spark_reports_a_spark_home_without_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("ASSIGNOR_BRIDGE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ivy.JarError, match=r"cannot run .*/bin/spark-submit \(No such file"):
        resolve({"spark.jars.packages": "a:b:1"}, "")


def test_an_unwritable_cache_without_the_jar_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").touch()
    monkeypatch.setenv("ASSIGNOR_BRIDGE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ivy.CacheError, match=r"cannot be written .* set ASSIGNOR_BRIDGE_CACHE"):
        configured()


def test_a_missing_java_is_reported_before_the_cache_is_used(
    submitted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's script failed with "CMD: bad array subscript" unless spark-env.sh names a JDK."""
    settings = {"spark.jars.packages": "a:b:1"}
    resolve(settings, "")
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    with pytest.raises(ivy.JarError, match="JAVA_HOME is not a folder: /nonexistent"):
        resolve(settings, "")
    (conf := submitted.parent / "spark" / "conf").mkdir()
    (conf / "spark-env.sh").touch()
    resolve(settings, "")

"""The log of a run: what other processes write to stderr, without secrets, for its owner alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from assignor_bridge.errors import AssignorError
from assignor_bridge.ivy import find_tool
from streaming.cli.run import _start_spark
from streaming.pipeline.config.loading import load_job
from streaming.pipeline.job_errors import ConfigError, JobError
from streaming.pipeline.spark import job_session as pipeline_session
from streaming.pipeline.spark.stderr_log import SparkLog
from streaming.redaction import Redactor
from tests.unit.streaming.test_pipeline_config import changed

SECRET = "topsecret99"  # noqa: S105
WORDS = f"""
import os
os.write(2, b"Ivy says {SECRET}\\n" * 5000)
os.write(2, b'Exception in thread "main" java.lang.IllegalArgumentException: no {SECRET}\\n')
os.write(2, b"\\tat some.Java(\\xff)\\n")
"""


PLACE = {"PLACE": "/topsecret99"}


def redactor() -> Redactor:
    redact = Redactor()
    redact.learn_variable("PW", SECRET)
    return redact


def run(log: SparkLog) -> None:
    with log.redirect_stderr():
        subprocess.run([sys.executable, "-c", WORDS], check=True, timeout=60)


def test_what_a_process_writes_is_in_the_log_and_nowhere_else(tmp_path, capfd):
    log = SparkLog(tmp_path / "a.log", "a", redactor())
    run(log)
    assert log.find_error() == "java.lang.IllegalArgumentException: no ${PW}"
    text = (tmp_path / "a.log").read_text()
    assert text.count("Ivy says ${PW}\n") == 5000
    assert SECRET not in text
    assert (tmp_path / "a.log").stat().st_mode & 0o777 == 0o600
    os.write(2, b"ours again\n")
    assert capfd.readouterr().err == "ours again\n"


def test_a_full_disk_holds_up_nobody():
    log = SparkLog(Path("/dev/full"), "a", redactor())
    run(log)
    assert log.find_error().startswith("java.lang.IllegalArgumentException")


def test_the_run_before_is_kept_and_no_folder_is_no_reason_to_fail(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first, second = (SparkLog(None, "job", redactor()) for _ in range(2))
    assert first.path == second.path
    assert sorted(p.name for p in first.path.parent.iterdir()) == ["job.log", "job.log.1"]
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/no")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    elsewhere = SparkLog(None, "job", redactor()).path
    assert elsewhere.parent == tmp_path
    assert elsewhere.stat().st_mode & 0o777 == 0o600


def test_a_log_that_cannot_be_written_is_one_line():
    with pytest.raises(AssignorError, match=r"^--log /proc/no/a: it cannot be written \("):
        SparkLog(Path("/proc/no/a"), "a", redactor())


@pytest.mark.parametrize("before", [None, "-Xint"])
def test_what_a_jvm_cannot_start_with_is_told_by_its_log(tmp_path, monkeypatch, capfd, before):
    """It stood on stdout, and the line of the error was JAVA_GATEWAY_EXITED."""
    if before is None:
        monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    else:
        monkeypatch.setenv("JDK_JAVA_OPTIONS", before)
    log = SparkLog(tmp_path / "a.log", "a", redactor())
    with log.redirect_stderr():
        subprocess.run([find_tool("java"), "-Xmx1k", "-version"], check=False, timeout=60)
    assert log.find_error() == "Too small maximum heap"
    assert os.environ.get("JDK_JAVA_OPTIONS") == before
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("Could not parse Master URL: 'local[x]'", "Could not parse Master URL: 'local[x]'"),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited", "IllegalArgumentException: no "),
        ("there is no /topsecret99/c", "there is no ${PLACE}/c"),
    ],
)
def test_why_spark_does_not_start_is_said_by_who_knows_it(tmp_path, monkeypatch, error, told):
    """The last line of the log, whatever it was, took the place of Spark's own exception."""

    def fail(*_: object) -> None:
        raise RuntimeError(error)

    monkeypatch.setattr(pipeline_session, "start_session", fail)
    log = SparkLog(tmp_path / "a.log", "a", redactor())
    run(log)
    with pytest.raises(JobError, match=re.escape(told)):
        _start_spark(load_job(changed("checkpoint", "${PLACE}/c"), environment=PLACE), log)


@pytest.mark.parametrize(
    ("settings", "error", "lines", "expected"),
    [
        pytest.param(
            {"spark.driver.memory": "lots"}, "[JAVA_GATEWAY_EXITED] it exited",
            ["Invalid maximum heap size: -Xmxlots", "Error: Could not create the Java Virtual "
             "Machine.", "Error: A fatal exception has occurred. Program will exit."],
            "config: spark.driver.memory: Spark does not start: Invalid maximum heap size: "
            "-Xmxlots", id="a value that Java refuses",
        ),
        pytest.param(
            {"spark.sql.shuffle.partitions": "many"},
            "The value 'many' in the config \"spark.sql.shuffle.partitions\" is invalid.", [],
            "config: spark.sql.shuffle.partitions: Spark does not start: The value",
            id="a value that Spark refuses",
        ),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named_as_a_mistake_in_the_job(
    tmp_path, monkeypatch, settings, error, lines, expected
):
    def fail(*_: object) -> None:
        raise RuntimeError(error)

    monkeypatch.setattr(pipeline_session, "start_session", fail)
    log = SparkLog(tmp_path / "a.log", "a", redactor())
    with log.redirect_stderr():
        code = f"import sys; sys.stderr.write({chr(10).join(lines)!r})"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    with pytest.raises(ConfigError) as raised:
        _start_spark(load_job(changed("spark", settings), environment=PLACE), log)
    assert str(raised.value).startswith(expected)


def test_a_locale_with_digits_of_its_own_is_not_that_of_the_jvm(tmp_path, monkeypatch):
    """Delta names the files of its log by them and did not find its own tables."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Duser.language=ar -Duser.country=EG")
    log = SparkLog(tmp_path / "a.log", "a", redactor())
    with log.redirect_stderr():
        command = [find_tool("java"), "-XshowSettings:locale", "-version"]
        subprocess.run(command, check=True, timeout=60)
    log.find_error()
    assert "default locale = English" in (tmp_path / "a.log").read_text()

"""What runs outside our hands: spark-submit with the printed flags, drivers that are killed."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from assignor_bridge import jars
from assignor_bridge.ivy import pyspark_home
from assignor_bridge.session import _TOO_LATE
from streaming.cli import main
from tests.support.kafka_topics import fetch_committed
from tests.support.pipeline_tools import job, send
from tests.support.processes import find_planners, is_planner, read_command_line
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.integration, pytest.mark.drivers]

SUBMIT = Path(__file__).parents[2] / "examples" / "submit.py"
JOB = """
import os
import sys
from pyspark.sql import SparkSession
from assignor_bridge import configure_spark

bootstrap, topic, checkpoint, mode = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
if "TEST_PYTHON" in os.environ:
    builder.config("spark.assignor.python", os.environ["TEST_PYTHON"])
os.environ["PYTHONPATH"] = ":" + os.environ["PYTHONPATH"]  # the empty part is the working folder
spark = configure_spark(builder).getOrCreate()
stream = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("assignor", "lag-aware-sticky")
    .options(**({"assignor.commitGroup": topic} if mode == "once" else {}))
    .load()
)
writer = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
if mode == "once":
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    print("PROGRESS " + query.recentProgress[-1].json.replace("\\n", " "), flush=True)
else:
    query = writer.trigger(processingTime="1 second").start()
    query.processAllAvailable()
    print("RUNNING", flush=True)
    query.awaitTermination()
"""


LOG_OF_STARTS = """
logger.spark.name = org.apache.spark
logger.spark.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %m%n
"""


def environment() -> dict[str, str]:
    """The environment of a user whose shell has this Python first."""
    return os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


def trap(tmp_path: Path) -> Path:
    """A folder with modules that must not be imported: then there is a file `sprung`."""
    folder = tmp_path / "trap"
    folder.mkdir()
    for module in ("numpy", "orjson", "checkpoints", "sitecustomize", "confluent_kafka"):
        (folder / f"{module}.py").write_text(f"open('{tmp_path}/sprung', 'a').write(__file__)")
    return folder


def test_spark_submit_with_the_flags_that_the_jars_name(
    topic: Topic, tmp_path: Path, checkpoint: str
) -> None:
    """Our process sees neither the driver's secrets nor what lies in its working folder."""
    topic.create(3).fill([30, 20, 10])
    job = tmp_path / "job.py"
    job.write_text(JOB)
    packages = jars.prepare_packages()
    seen = tmp_path / "environments"
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n(env; echo =) >>{seen}\nexec {shlex.quote(sys.executable)} "$@"\n'
    )
    python.chmod(0o755)
    done = subprocess.run(
        [
            str(pyspark_home() / "bin" / "spark-submit"),
            "--packages",
            ",".join(packages.coordinates),
            "--repositories",
            packages.repository,
            *("--conf", "spark.assignor.env= TEAM_SETTING, NOT_SET,TEAM_OF_*"),
            str(job),
            *(topic.bootstrap_servers, topic.name, checkpoint, "once"),
        ],
        env=environment()
        | {
            "TEST_PYTHON": str(python),
            "AWS_SECRET_ACCESS_KEY": "hunter2",
            "TEAM_SETTING": "wanted",
            "TEAM_OF_TWO": "wanted, too",
            "LC_TIME": "C",
        },
        cwd=trap(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "UserWarning" not in done.stdout
    [line] = [line for line in done.stdout.splitlines() if line.startswith("PROGRESS ")]
    progress = json.loads(line.removeprefix("PROGRESS "))
    assert progress["numInputRows"] == 60
    metrics = progress["sources"][0]["metrics"]
    assert metrics["assignor.strategy"] == "lag-aware-sticky"
    assert metrics["assignor.fallbacks"] == "0"
    assert fetch_committed(topic.bootstrap_servers, topic.name) == {
        (topic.name, partition): count for partition, count in enumerate([30, 20, 10])
    }
    assert not (tmp_path / "sprung").exists()
    [given] = seen.read_text().split("\n=\n")[:-1]  # the planner; commits need no process
    names = {line.partition("=")[0] for line in given.splitlines()}
    assert names >= {"PATH", "HOME", "LC_TIME", "TEAM_SETTING", "TEAM_OF_TWO"}
    assert not names & {"AWS_SECRET_ACCESS_KEY", "TEST_PYTHON", "SPARK_LOCAL_IP", "NOT_SET"}
    assert "hunter2" not in given
    [path] = [line for line in given.splitlines() if line.startswith("PYTHONPATH=")]
    assert ".jar" not in path, "Python would read the directory of each"


def test_spark_submit_without_those_flags_is_told_at_once(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(
        "from pyspark.sql import SparkSession\nfrom assignor_bridge import configure_spark\n"
        "configure_spark(SparkSession.builder)\n"
    )
    done = subprocess.run(
        [str(pyspark_home() / "bin" / "spark-submit"), "--master", "local[1]", str(job)],
        env=environment(), capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    # Spark sends what the driver's Python writes to stderr to stdout.
    assert f"job.py:3: UserWarning: {_TOO_LATE}\n" in done.stdout


@pytest.mark.long
def test_a_first_job_of_init_under_spark_submit(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """As docs/pipelines.md describes it: the flags are those of `assignor jars --job`."""
    topic.create(3).fill([30, 20, 10])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPARK_HOME", str(pyspark_home()))
    words = ["--topic", topic.name, "--bootstrap-server", topic.bootstrap_servers]
    assert main.run(["init", "orders.yaml", *words]) == 0
    capsys.readouterr()
    assert main.run(["jars", "--job", "orders.yaml"]) == 0
    flags = capsys.readouterr().out.split()
    submit = [str(pyspark_home() / "bin" / "spark-submit"), *flags, str(SUBMIT), "orders.yaml"]
    for written in (60, 60):  # again: there is nothing new
        done = subprocess.run(
            submit, env=environment(), cwd=tmp_path, capture_output=True, text=True, check=False,
            timeout=240,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
        [log] = tmp_path.glob("tables/*/_delta_log")
        commits = [file.read_text(encoding="utf-8") for file in log.glob("*.json")]
        adds = [json.loads(line) for text in commits for line in text.splitlines()]
        stats = [json.loads(add["add"]["stats"]) for add in adds if "add" in add]
        assert sum(one["numRecords"] for one in stats) == written


def test_no_planner_outlives_a_driver_that_was_killed(
    topic: Topic, tmp_path: Path, checkpoint: str
) -> None:
    topic.create(2).fill([5, 5])
    job = tmp_path / "job.py"
    job.write_text(JOB)
    with (tmp_path / "stderr").open("w") as stderr:
        driver = subprocess.Popen(
            [sys.executable, str(job), topic.bootstrap_servers, topic.name, checkpoint, "forever"],
            env=environment(),
            cwd=trap(tmp_path),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
    try:
        assert driver.stdout
        lines = iter(driver.stdout.readline, "")
        said = next((line for line in lines if line.startswith("RUNNING")), "")
        assert said, (tmp_path / "stderr").read_text()[-3000:]
        planners = find_planners(driver.pid)
        assert len(planners) == 1
        assert not (tmp_path / "sprung").exists()
    finally:
        os.killpg(driver.pid, signal.SIGSTOP)  # nobody can clean up: as a crashed machine's JVM
        for pid in jvms_of(driver.pid):
            os.kill(pid, signal.SIGKILL)
        driver.kill()
        os.killpg(driver.pid, signal.SIGCONT)
        driver.wait()
        assert driver.stdout
        driver.stdout.close()
    wait_until(
        lambda: not any(map(is_planner, planners)),
        f"planner {planners} to end with its driver",
    )


@pytest.mark.long
def test_a_run_whose_jvm_was_killed_says_so_and_names_sparks_log(
    topic: Topic, tmp_path: Path
) -> None:
    """It said `output: Connection refused`, and nothing of Spark's log; here, amid a batch."""
    topic.create(1)
    send(topic, [("1", '{"id": 1}')])
    config = job(topic, tmp_path, path="table") | {
        "name": "job",
        "trigger": "processingTime 1 second",
        "checkpoint": "checkpoint",
        "metrics": {"textfile": "job.prom"},
    }
    (tmp_path / "job.yaml").write_text(json.dumps(config))
    log, said = tmp_path / "spark.log", tmp_path / "said"
    with said.open("w") as out:
        run = subprocess.Popen(
            [sys.executable, "-m", "streaming.cli.main", "run", "job.yaml", "--log", str(log)],
            env=environment(), cwd=tmp_path, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    try:
        wait_until(lambda: [*tmp_path.glob("table/*.parquet")] or run.poll() is not None,
                   "a batch", 240)  # fmt: skip
        for pid in jvms_of(run.pid):
            os.kill(pid, signal.SIGKILL)
        code = run.wait(60)
    finally:
        run.kill()
    *before, last = said.read_text().splitlines()
    assert last == (
        "assignor: job.yaml: Spark's JVM has ended: it was killed, or ran out of memory "
        f"(Spark's log: {log})"
    ), before
    assert code == 1
    expected = ("starting", "time zone: ", "running", "job: ")
    assert [line for line in before if not line.startswith(expected)] == []


@pytest.mark.parametrize(
    "moment",
    [
        "SparkSubmit",
        "Running Spark version",
        pytest.param("Starting executor ID", marks=pytest.mark.long),
    ],
)
def test_ctrl_c_while_spark_starts_is_130_and_leaves_no_process(
    moment: str, topic: Topic, tmp_path: Path
) -> None:
    """The JVM lived on for 40 s, or the run said that it was out of memory, exit code 1."""
    topic.create(1)
    config = job(topic, tmp_path) | {"trigger": "processingTime 1 second"}
    (tmp_path / "job.yaml").write_text(json.dumps(config))
    (tmp_path / "log4j2.properties").write_text(LOG_OF_STARTS)
    log, said = tmp_path / "spark.log", tmp_path / "said"

    def is_time() -> bool:
        lines = log.read_text(errors="replace") if log.exists() else ""
        jvms = [read_command_line(pid) for pid in jvms_of(run.pid)]
        return moment in lines or any(moment in c and "launcher.Main" not in c for c in jvms)

    with said.open("w") as out:
        run = subprocess.Popen(
            [sys.executable, "-m", "streaming.cli.main", "run", "job.yaml", "--log", str(log)],
            env=environment() | {"SPARK_CONF_DIR": str(tmp_path)},
            cwd=tmp_path, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    try:
        wait_until(is_time, moment, 120)
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does
        code = run.wait(10)
        assert jvms_of(run.pid) == []
    finally:
        run.kill()
    lines = said.read_text().splitlines()
    assert code == 130, lines
    assert lines[-1] == "assignor: stopped by SIGINT; the next run continues from here"
    assert not any("JVM" in line or "Traceback" in line for line in lines)


def jvms_of(driver: int) -> list[int]:
    """Java processes in the process group of a driver."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        try:
            same_group = os.getpgid(pid) == driver
        except OSError:
            continue
        if same_group and "java" in read_command_line(pid).split("\0")[0]:
            found.append(pid)
    return found

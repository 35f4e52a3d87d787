"""A real server of Spark Connect, a client of it, and a declarative pipeline."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from assignor_bridge.ivy import pyspark_home
from tests.lab.compat import connect_client
from tests.lab.compat.class_path import jars
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.compat

ROOT = Path(__file__).parents[3]
COUNTS = [60, 20, 12, 8]
VERSION = tuple(map(int, importlib.metadata.version("pyspark").split(".")[:2]))
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_HOME": str(pyspark_home()),
}  # fmt: skip


def settings(folder: Path) -> dict[str, str]:
    """What `assignor jars` prints for a cluster, by path, and a log in the folder."""
    logging = ROOT / "tests" / "support" / "log4j2.properties"
    return {
        "spark.jars": ",".join(map(str, jars())),
        "spark.assignor.python": sys.executable,
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dassignor.test.log={folder}/driver.log"
        f" -Dderby.system.home={folder} -Dlog4j2.configurationFile={logging.as_uri()}",
    }


def as_flags(conf: dict[str, str]) -> list[str]:
    return [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of Spark Connect, a process of its own."""
    folder = tmp_path_factory.mktemp("server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    binding = {"spark.connect.grpc.binding.port": str(port)}
    command = [
        str(pyspark_home() / "bin" / "spark-submit"), "--master", "local[2]",
        *as_flags(settings(folder) | binding),
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal",
    ]  # fmt: skip
    with (folder / "said.txt").open("wb") as said:
        process = subprocess.Popen(command, env=os.environ | ENVIRONMENT, stdout=said, stderr=said)

    def answers() -> bool:
        assert process.poll() is None, (folder / "said.txt").read_text()[-3000:]
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    try:
        wait_until(answers, "a server of Spark Connect", 120)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def test_a_remote_client_asks_for_an_assignor_in_each_way(
    server: str, topic: Topic, tmp_path: Path
) -> None:
    topic.create(4).fill(COUNTS)
    task = {
        "server": server, "servers": topic.bootstrap_servers, "topic": topic.name,
        "folder": str(tmp_path),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, connect_client.__file__, json.dumps(task)],
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    [line] = [line for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    told = json.loads(line.removeprefix("TOLD "))

    for name, strategy, fallbacks in (
        ("option", "lag-aware-sticky", "0"),
        ("strategy", "range", "0"),
        ("foreachBatch", "range", "0"),
        ("switched off", "spark", "0"),
        ("other session", None, None),
    ):
        assert len(told[name]) == 1, (name, told)
        [batch] = told[name]
        assert batch["rows"] == sum(COUNTS), name
        assert batch.get("assignor.strategy") == strategy, name
        assert batch.get("assignor.fallbacks") == fallbacks, name
    assert "assignor.maxImbalance" in told["bad setting"]
    assert told["rows"] == sum(COUNTS)
    assert told["switched while it runs"] == ["lag-aware-sticky", "spark", "lag-aware-sticky"]
    assert not told["has a JVM"]


#: A streaming table, in Python, and one in SQL over a stream that Python opens: SQL has no Kafka.
TABLES = {
    "in Python": ("table(format='parquet')", ""),
    "in SQL": (
        "temporary_view()",
        "CREATE STREAMING TABLE rows_by_sql USING parquet AS"
        " SELECT partition, offset FROM STREAM rows_of_the_topic;",
    ),
}
PIPELINE = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()


@dp.{decorator}
def rows_of_the_topic():
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "{servers}")
        .option("subscribe", "{topic}")
        .option("startingOffsets", "earliest")
        .option("assignor", "lag-aware-sticky")
        .option("assignor.onError", "fail")
        .option("assignor.planLog", "{log}")
        .load()
        .selectExpr("partition", "offset")
    )
"""


@pytest.mark.skipif(VERSION < (4, 1), reason="there are no declarative pipelines before 4.1")
@pytest.mark.parametrize("table", TABLES)
def test_a_declarative_pipeline_is_planned(
    server: str, topic: Topic, tmp_path: Path, table: str
) -> None:
    """On a server that has the jars: one that it starts itself has none."""
    topic.create(4).fill(COUNTS)
    log = tmp_path / "plans.jsonl"
    decorator, sql = TABLES[table]
    kinds = ("py", "sql") if sql else ("py",)
    source = PIPELINE.format(
        servers=topic.bootstrap_servers, topic=topic.name, log=log, decorator=decorator
    )
    (tmp_path / "pipeline.py").write_text(source)
    (tmp_path / "pipeline.sql").write_text(sql)
    (tmp_path / "spark-pipeline.yml").write_text(
        json.dumps(
            {
                "name": "rows",
                "storage": f"file://{tmp_path}/storage",
                "libraries": [{"glob": {"include": f"pipeline.{kind}"}} for kind in kinds],
            }
        )
    )
    done = subprocess.run(
        [str(pyspark_home() / "bin" / "spark-pipelines"), "run", "--remote", server],
        cwd=tmp_path,
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    [plan] = map(json.loads, log.read_text().splitlines())
    assert plan["plan"]["assignor"] == "lag-aware-sticky"


SHELL = """
val rows = spark.readStream.format("kafka").
  option("kafka.bootstrap.servers", "{servers}").
  option("subscribe", "{topic}").
  option("startingOffsets", "earliest").
  option("assignor", "lag-aware-sticky").
  load()
val query = rows.writeStream.format("noop").
  option("checkpointLocation", "{folder}/checkpoint").
  trigger(org.apache.spark.sql.streaming.Trigger.AvailableNow()).
  start()
query.awaitTermination()
val batch = query.recentProgress.filter(_.numInputRows > 0).head
println(s"TOLD ${{batch.numInputRows}} ${{batch.sources(0).metrics.get("assignor.strategy")}}")
sys.exit(0)
"""


def test_a_scala_caller_in_spark_shell_is_planned(topic: Topic, tmp_path: Path) -> None:
    topic.create(4).fill(COUNTS)
    script = SHELL.format(servers=topic.bootstrap_servers, topic=topic.name, folder=tmp_path)
    done = subprocess.run(
        [
            str(pyspark_home() / "bin" / "spark-shell"), "--master", "local[2]",
            *as_flags(settings(tmp_path)),
        ],
        input=script,
        cwd=tmp_path,
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert f"TOLD {sum(COUNTS)} lag-aware-sticky" in done.stdout, said[-3000:]

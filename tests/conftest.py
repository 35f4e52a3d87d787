"""Shared fixtures: one broker and one Spark (local-cluster, Delta) per run, one topic per test."""

from __future__ import annotations

import os
import re
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from streaming.kafka.embedded import EmbeddedBroker
    from tests.support.kafka_topics import Topic
    from tests.support.secured_broker import Secured
    from tests.support.spark_tools import DriverLog

hypothesis.settings.register_profile(
    "project",
    deadline=None,
    print_blob=True,
    # Both checks depend on chance or load, so they would fail at random.
    suppress_health_check=[
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.filter_too_much,
    ],
)
hypothesis.settings.load_profile("project")


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    """Start a real broker for the whole run."""
    from streaming.kafka import embedded_setup
    from streaming.kafka.embedded import EmbeddedBroker

    if version := os.environ.get("BROKER"):  # `BROKER=4.4.0 make integration`
        embedded_setup.KAFKA = f"org.apache.kafka:kafka_2.13:{version}"
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def secured() -> Iterator[Secured]:
    """Start a broker with authentication on a second port and with access control lists."""
    from tests.support.secured_broker import start_secured

    with start_secured() as secured:
        yield secured


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Topic:
    """Return a topic for this test only: `topic.create(8)` and `topic.fill([…])`."""
    from tests.support.kafka_topics import Topic

    name = re.sub(r"[^A-Za-z0-9_.-]", "-", request.node.name)[:60]
    return Topic(broker.bootstrap_servers, f"{name}-{uuid.uuid4().hex[:6]}")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start two executors of one slot each, with UI, Delta, and the bridge, as a user would."""
    from tests.support.spark_tools import start_spark

    session = start_spark(
        "local-cluster[2,1,1024]", tmp_path_factory.mktemp("spark"),
        spark_ui_enabled="true", spark_ui_port="0",
        # Hadoop starts ten processes for each file of a checkpoint, which takes time.
        spark_hadoop_fs_AbstractFileSystem_file_impl="io.assignorbridge.LocalFiles",
    )  # fmt: skip
    yield session
    session.stop()


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Return a checkpoint folder for this test only."""
    return str(tmp_path / "checkpoint")


@pytest.fixture
def driver_log(spark: SparkSession) -> DriverLog:
    """Return the lines that Spark's driver logs from now on."""
    from tests.support.spark_tools import DriverLog

    return DriverLog(Path(spark.conf.get("assignor.test.log") or ""))


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """Return the file in which a proxy planner records requests and answers."""
    return tmp_path / "planner.jsonl"


@pytest.fixture
def planner(spark: SparkSession, tmp_path: Path, record: Path) -> Iterator[Callable[[str], None]]:
    """Yield a function that replaces the planner by a proxy with a mode; restore it at the end."""
    from tests.support import planner_proxy
    from tests.support.spark_tools import write_interpreter

    before = spark.conf.get("spark.assignor.python")

    def use_proxy(mode: str) -> None:
        script = tmp_path / f"python-{mode}"
        write_interpreter(script, planner_proxy.__file__, mode, record)
        spark.conf.set("spark.assignor.python", str(script))

    yield use_proxy
    spark.conf.set("spark.assignor.python", before or sys.executable)

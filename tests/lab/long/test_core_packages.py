"""A query with the option runs where only the packages of a bare `pip install` are."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.core_venv import make_environment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.integration, pytest.mark.drivers]
_QUERY = """
import json, sys
from pyspark.sql import SparkSession
from assignor_bridge import configure_spark

servers, topic, checkpoint = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = configure_spark(builder).getOrCreate()
options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
options |= {"assignor": "lag-aware-sticky", "assignor.onError": "fail"}
rows = spark.readStream.format("kafka").options(**options).load()
query = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
query = query.trigger(availableNow=True).start()
query.awaitTermination()
print(json.dumps(query.lastProgress["sources"][0]["metrics"]))
"""


@pytest.mark.long
def test_a_query_without_any_extra(topic: Topic, tmp_path: Path) -> None:
    topic.create(1).fill([1000])
    python = make_environment(tmp_path / "environment")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(python), "-c", _QUERY, topic.bootstrap_servers, topic.name, str(tmp_path / "state")],
        cwd=tmp_path, env=clean, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    metrics = json.loads(done.stdout.splitlines()[-1])
    assert metrics["assignor.strategy"] == "lag-aware-sticky"
    assert metrics["assignor.tasks"] == "2"

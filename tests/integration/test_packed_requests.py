"""Long requests go to the planner as packed columns, and say the same as rows."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pytest

from assignor_bridge import ivy
from assignor_bridge.jars import built_jar
from assignor_bridge.wire import read_batch
from assignor_bridge.worker import handle
from tests import planner_proxy
from tests.spark_tools import run_in_batches

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tests.kafka_topics import Topic

pytestmark = pytest.mark.integration

PARTITIONS = 300
HIGHEST = 2**63 - 1


@pytest.mark.parametrize(
    ("mode", "form"),
    [
        pytest.param("record", dict, id="the planner takes columns"),
        pytest.param("rows", list, id="the planner knows rows only"),
    ],
)
def test_a_batch_of_many_partitions(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    planner: Callable[[str], None],
    record: Path,
    mode: str,
    form: type,
) -> None:
    topic.create(PARTITIONS).fill([2] * PARTITIONS)
    planner(mode)

    progresses, rows = run_in_batches(
        spark, topic, checkpoint, maxOffsetsPerTrigger=str(PARTITIONS)
    )

    assert rows == 2 * PARTITIONS
    first, second = planner_proxy.snapshots(record)
    assert type(first["ranges"]) is type(second["observed"]) is form
    assert read_batch(first)[0].total == PARTITIONS
    assert read_batch(second)[0].observed.records.sum() == PARTITIONS
    assert {p["sources"][0]["metrics"]["assignor.strategy"] for p in progresses} == {
        "lag-aware-sticky"
    }


def requests() -> list[dict]:
    """Ranges and reports as rows: none, odd names, the highest offsets, many executors."""
    rng = np.random.default_rng(5)
    found = []
    for count in (0, 1, 3, 700):
        names = ["orders", "t", "\u65e5\u672c", 'quo"ted\\'][: count or 1]
        starts = [int(s) for s in rng.integers(0, 2**62, count)]
        ranges = [
            {
                "topic": names[i % len(names)], "partition": 2**31 - 1 - i, "start": start,
                "end": HIGHEST if i == 1 else start + i,
            }
            for i, start in enumerate(starts)
        ]  # fmt: skip
        observed = [
            {
                "topic": r["topic"], "partition": r["partition"], "executor": str(i % 70),
                "records": i, "bytes": 100 * i + 2**40, "seconds": 0.125 * i, "offsets": 2 * i,
            }
            for i, r in enumerate(ranges[::-1])
        ]  # fmt: skip
        executors = [{"id": str(i), "host": f"h{i // 2}", "slots": 2} for i in range(count // 7)]
        found.append(
            {
                "executors": executors, "ranges": ranges, "observed": observed, "state": None,
                "parallelism": 3,
            }
        )  # fmt: skip
    return found


def test_the_driver_writes_the_same_request_in_both_forms(tmp_path: Path) -> None:
    class_path = os.pathsep.join([str(built_jar()), str(ivy.pyspark_home() / "jars" / "*")])
    program = Path(__file__).parents[1] / "java" / "Requests.java"
    subprocess.run(
        [ivy.java_tool("javac"), "-cp", class_path, "-d", str(tmp_path), str(program)], check=True
    )
    asked = requests()
    done = subprocess.run(
        [
            ivy.java_tool("java"), "-cp", f"{tmp_path}{os.pathsep}{class_path}",
            "io.assignorbridge.Requests",
        ],
        input=b"".join(orjson.dumps(r, option=orjson.OPT_APPEND_NEWLINE) for r in asked),
        check=True, capture_output=True,
    )  # fmt: skip
    written = done.stdout.splitlines()
    options = {"assignor": "lag-aware-sticky"}
    for request, rows, columns in zip(asked, written[::2], written[1::2], strict=True):
        assert orjson.loads(rows) == {**request, "options": options}
        assert isinstance(orjson.loads(columns)["ranges"], dict)
        plan = handle(rows)
        assert b'"tasks"' in plan
        assert handle(columns) == plan

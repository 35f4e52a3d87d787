"""The driver and the planner understand each other: packed columns, whatever is in them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pytest

from assignor_bridge.protocol.messages import encode_answer
from assignor_bridge.worker import Worker
from tests.support import planner_proxy
from tests.support.java_program import compile_programs, java_command
from tests.support.packed import decode_column, pack_task_rows, unpack_rows, unpack_tasks
from tests.support.planner_process import send_request
from tests.support.spark_tools import run_in_batches

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.integration

PARTITIONS = 300
HIGHEST = 2**63 - 1


@pytest.mark.long
def test_a_batch_of_many_partitions(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    planner: Callable[[str], None],
    record: Path,
) -> None:
    topic.create(PARTITIONS).fill([2] * PARTITIONS)
    planner("record")

    progresses, rows = run_in_batches(
        spark, topic, checkpoint, maxOffsetsPerTrigger=str(PARTITIONS)
    )

    assert rows == 2 * PARTITIONS
    first, second = planner_proxy.read_snapshots(record)
    assert sum(r["end"] - r["start"] for r in first["ranges"]) == PARTITIONS
    assert sum(o["records"] for o in second["observed"]) == PARTITIONS
    assert {p["sources"][0]["metrics"]["assignor.strategy"] for p in progresses} == {
        "lag-aware-sticky"
    }


def snapshots() -> list[dict]:
    """Ranges and reports as rows: none, odd names, the highest offsets, many executors."""
    rng = np.random.default_rng(5)
    made = []
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
                "coldSeconds": 0.0625 * (i % 2),
            }
            for i, r in enumerate(ranges[::-1])
        ]  # fmt: skip
        executors = [
            {"id": str(i), "host": f"h{i // 2}", "slots": 2}
            | [{}, {"excluded": True}, {"leaving": True}, {"resourceProfile": 3}][i % 4]
            | ({"rack": "a-1"} if i % 3 else {})
            for i in range(count // 7)
        ]
        if count > 1:
            for i, row in enumerate(ranges):
                row["racks"] = [["a-1"], [], ["b", "a-1"]][i % 3]
        made.append(
            {
                "executors": executors, "ranges": ranges, "observed": observed, "state": None,
                "parallelism": 3, "stream": 4,
            }
        )  # fmt: skip
    return made


def test_both_sides_read_what_the_other_wrote(tmp_path: Path) -> None:
    command = java_command(compile_programs(tmp_path, "Exchanges"), "worker.Exchanges")

    def java(lines: list[bytes]) -> list[bytes]:
        done = subprocess.run(
            command,
            input=b"".join(line.rstrip(b"\n") + b"\n" for line in lines),
            check=True, capture_output=True,
        )  # fmt: skip
        return done.stdout.splitlines()

    asked = snapshots()
    requests = java([orjson.dumps(snapshot) for snapshot in asked])
    worker = Worker()
    send_request({"type": "validate", "options": {"assignor": "lag-aware-sticky"}}, worker)
    planned = [orjson.loads(encode_answer(worker.answer(request))) for request in requests]
    planned[-1]["tasks"]["standbys"] = {"0": ["7", "8"], "3": ["9"]}
    rows = unpack_tasks(planned[-1]["tasks"])
    tail = {"seconds": 0.25, "executors": [row["executor"] for row in rows[:16]]}
    rows[-1] |= {"executor": None, "slot": -1, "tail": tail}
    planned[-1]["tasks"] |= pack_task_rows(rows)
    answers = [orjson.dumps(answer) for answer in planned]
    for snapshot, request in zip(asked, map(orjson.loads, requests), strict=True):
        assert request.pop("type") == "plan"
        for part in ("ranges", "observed"):
            request[part] = unpack_rows(request[part])
        if racks := request.pop("racks", None):
            sets = [*racks["sets"], []]
            for row, place in zip(
                request["ranges"], decode_column(racks["range"], "<i4"), strict=True
            ):
                row["racks"] = sets[place]
        assert {"state": None, **request} == snapshot
    for answer, tasks in zip(planned, map(orjson.loads, java(answers)), strict=True):
        assert tasks == [
            {"standbys": [], "tail": None, **task} for task in unpack_tasks(answer["tasks"])
        ]

"""`assignor report --batch` of a real query: the kept files have the plans that were made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streaming.cli import main
from tests.support.spark_tools import assert_planned, run_in_batches, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.integration, pytest.mark.long]

#: In each batch of 40, two thirds are of partition 0.
COUNTS = [107, 18, 18, 17]


def test_a_real_batch_is_explained(
    spark: SparkSession, topic: Topic, checkpoint: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    topic.create(len(COUNTS)).fill(COUNTS)
    plans = tmp_path / "plans.jsonl"
    progresses, rows = run_in_batches(spark, topic, checkpoint, assignor_planLog=str(plans))
    assert rows == sum(COUNTS)
    assert_planned(progresses)
    last = progresses[-1]["batchId"]
    states = Path(checkpoint, "sources", "0", "assignments")
    wait_until(lambda: len(list(states.glob("*.v*"))) >= 3, "the planner's states")

    def explained(*words: str) -> dict[str, Any]:
        capsys.readouterr()
        assert main.run(["report", checkpoint, "--json", *words]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    for batch in range(last + 1):
        found = explained(str(plans), "--batch", str(batch))
        assert "replanning gives the same plan" in found["origin"]
        read = progresses[batch]["numInputRows"]
        sizes = [p["end"] - p["start"] for s in found["partitions"] for p in s["pieces"]]
        assert sum(sizes) == read
        took = [story["tookSeconds"] for story in found["partitions"]]
        assert all(seconds is None if batch == last else seconds > 0 for seconds in took)
    # By the checkpoint alone: where it is, and why it was cut.
    found = explained("--batch", str(last - 1), "--partition", f"{topic.name}-0")
    assert found["origin"].startswith("the states in the checkpoint")
    assert found["readersAgree"] == found["readersNamed"] > 0
    [story] = found["partitions"]
    assert story["change"] in ("cut", "stays", "moved")
    assert story["before"] is not None
    assert story["why"]
    assert story["predicted"] > 0
    first = explained(str(plans), "--batch", "0", "--partition", f"{topic.name}-0")
    assert [len(s["pieces"]) for s in first["partitions"]] == [2]  # more than a slot's share
    assert first["partitions"][0]["change"] == "cut"

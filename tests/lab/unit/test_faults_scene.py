"""The scene of a fault compares what it says, without Kafka and Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.lab.faults import group as groups
from tests.lab.faults import scene as scenes
from tests.lab.faults.scene import Scene
from tests.support.kafka_topics import Topic

#: What a batch says that was planned by us, for two slots, and moved nothing.
PLANNED = {
    "assignor.strategy": "lag-aware-sticky",
    "assignor.slots": "2",
    "assignor.movedPartitions": "0",
    "assignor.generation": "2",
    "assignor.localityHitRate": "1.0000",
}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(MagicMock(), Topic("nowhere:1", "t"), "nowhere:1", tmp_path, 7, {})


def write_batch(scene: Scene, number: int, end: int, *, is_complete: bool) -> None:
    folder = Path(scene.checkpoint)
    for log in ("offsets", "commits"):
        (folder / log).mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text('{"id": "x"}')
    lines = ["v1", "{}", json.dumps({"t": {"0": end}})]
    (folder / "offsets" / str(number)).write_text("\n".join(lines))
    if is_complete:
        (folder / "commits" / str(number)).write_text("v1\n{}")


def query(*fallbacks: int) -> Any:
    """A query whose batches say how many Spark's own mapping has read so far."""
    sources = [
        {"metrics": PLANNED | {"assignor.fallbacks": str(count)}} for count in fallbacks
    ] or [{}]
    texts = [json.dumps({"numInputRows": 1, "sources": [source]}) for source in sources]
    progress = [MagicMock(json=text) for text in texts]
    return MagicMock(recentProgress=progress, isActive=True)


def test_a_group_that_is_ahead_of_the_batch_that_runs_is_seen(scene: Scene) -> None:
    """It was once looked at only when no batch ran."""
    not_ahead = scene.group._not_ahead
    assert not_ahead({0: 0}) == {0: 0}
    write_batch(scene, 0, 10, is_complete=True)
    write_batch(scene, 1, 20, is_complete=False)
    for _ in range(2):
        assert not_ahead({0: 10}) == {0: 10}
        with pytest.raises(AssertionError, match="ahead of the checkpoint"):
            not_ahead({0: 11})
    write_batch(scene, 1, 20, is_complete=True)
    assert not_ahead({0: 20}) == {0: 20}


def test_the_group_is_looked_at_while_batches_are_waited_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_batch(scene, 0, 10, is_complete=False)
    client = MagicMock()
    client.committed.return_value = [MagicMock(partition=0, offset=10)]
    monkeypatch.setattr(groups, "Consumer", lambda _: client)
    monkeypatch.setattr(scene, "batches", lambda: 0)
    with pytest.raises(AssertionError, match="ahead of the checkpoint"):
        scene.wait_for_batches()


def test_what_spark_planned_before_a_restart_counts(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that was started again once began at 0."""
    runs = iter([query(0, 2), query(), query(0, 1)])
    frame = MagicMock()
    start = frame.selectExpr().writeStream.format().option().trigger().start
    start.side_effect = lambda _: next(runs)
    monkeypatch.setattr(scenes, "read_topic", lambda *_: frame)
    for _ in range(3):
        scene.start()
    assert scene.check_plans((3, 3), set(), PLANNED) == 3
    with pytest.raises(AssertionError):
        scene.check_plans((0, 2), set(), PLANNED)


@pytest.mark.parametrize(
    ("metric", "value", "seen"),
    [
        pytest.param("slots", "1", "'2'.* before: .*'1'", id="for fewer slots"),
        pytest.param("generation", "1", "'2'.* before: .*'1'", id="by a planner without memory"),
        pytest.param("stateWarning", "is damaged", "is damaged", id="without the stored state"),
        pytest.param("movedPartitions", "1", "moved in the last", id="partitions move each time"),
        pytest.param("localityHitRate", "0.5000", "ran where they", id="for executors of before"),
    ],
)
def test_plans_that_are_other_than_before_the_fault_are_seen(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, metric: str, value: str, seen: str
) -> None:
    monkeypatch.setattr(scene, "_query", query(0, 0, 0))
    before = scene.last_plan()
    assert scene.check_plans((0, 0), set(), before) == 0
    monkeypatch.setitem(PLANNED, f"assignor.{metric}", value)
    monkeypatch.setattr(scene, "_query", query(0, 0, 0))
    with pytest.raises(AssertionError, match=seen):
        scene.check_plans((0, 0), set(), before)

"""A driver is killed between the offset log and the commit log of a batch; the next one goes on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from assignor_bridge.installed_spark import spark_version
from assignor_bridge.tested_spark import connector_version
from tests.lab.kills.places import APPEND, LOCAL, Place, done, planned
from tests.lab.kills.process import Driver

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.compat

OPTION = {"assignor": "lag-aware-sticky"}
#: These connectors have no metrics for a batch that is run again: the query dies of that.
SPARK_DIES = connector_version(spark_version()) in {"4.1.0", "4.1.1", "4.1.2"}


@pytest.mark.parametrize("options", [OPTION, {}], ids=["with the option", "without"])
def test_the_next_driver_runs_the_batch_again_and_goes_on(
    topic: Topic, tmp_path: Path, options: dict[str, str]
) -> None:
    topic.create(2).fill([30, 10])
    place = Place(topic.bootstrap_servers, topic.name, "", str(tmp_path), LOCAL)
    query = place.query(APPEND)
    query.folder.mkdir()
    first = Driver(place, 0, "tests.lab.compat.killed_driver")
    try:
        first.go(json.dumps({"options": options, "hold": 1}))
        first.wait_for(lambda: planned(query) == 1, "the second batch in the offset log")
    finally:
        first.kill()
    assert done(query) == 0

    second = Driver(place, 1, "tests.lab.compat.killed_driver")
    try:
        second.go(json.dumps({"options": options, "hold": None}))
        code = second.wait_for_end()
    finally:
        second.kill()

    if SPARK_DIES and not options:
        assert code != 0
        assert '"scala.Option.get()" is null' in second.said()
        return
    assert code == 0, second.said()
    lines = (query.folder / "batches.jsonl").read_text().splitlines()
    batches = [json.loads(line) for line in lines]
    numbers = [number for number, _ in batches]
    assert numbers == list(range(len(numbers)))
    read = sorted(row for _, rows in batches for row in rows)
    assert read == [[p, offset] for p, count in enumerate([30, 10]) for offset in range(count)]
    metrics = json.loads((second.folder / "metrics.json").read_text())
    assert {int(number) for number in metrics} == set(numbers) - {0}
    if options:
        assert {m["assignor.strategy"] for m in metrics.values()} == {"lag-aware-sticky"}
        assert {m["assignor.fallbacks"] for m in metrics.values()} == {"0"}
    assert "maxOffsetsBehindLatest" not in metrics["1"]
    assert metrics[str(numbers[-1])]["maxOffsetsBehindLatest"] == "0"

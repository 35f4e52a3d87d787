"""OpenLineage's listener beside the option: what docs/platforms.md says that it sees."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from assignor_bridge import ivy
from assignor_bridge.jars import find_built_jar
from tests.integration.test_class_paths import connector
from tests.support.class_path_driver import OPTION, run_driver

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.integration, pytest.mark.long]

LISTENER = "io.openlineage:openlineage-spark_2.13:1.37.0"
COUNTS = [5, 4]


@pytest.mark.parametrize("options", [{}, OPTION], ids=["without", "with the option"])
def test_the_topic_is_seen_without_the_option_alone(
    topic: Topic, tmp_path: Path, options: dict[str, str]
) -> None:
    """Where it is seen with the option one day, the page must say so."""
    topic.create(len(COUNTS)).fill(COUNTS)
    events = tmp_path / "events.jsonl"
    jars = [find_built_jar(), *connector(), *ivy.fetch(LISTENER, transitive=False)]
    told, _ = run_driver(
        topic, tmp_path, jars, runs={"query": options},
        conf={
            "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
            "spark.openlineage.transport.type": "file",
            "spark.openlineage.transport.location": str(events),
        },
    )  # fmt: skip
    assert told["query"]["rows"] == sum(COUNTS)
    [metrics] = told["query"]["metrics"]
    assert metrics.get("assignor.fallbacks") == ("0" if options else None)
    written = list(map(json.loads, events.read_text().splitlines()))
    assert written, "the listener was not on"
    inputs = {each["name"] for event in written for each in event.get("inputs", ())}
    assert (topic.name in inputs) == (not options), inputs

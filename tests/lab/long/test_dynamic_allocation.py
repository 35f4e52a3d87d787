"""Dynamic allocation, on a real cluster: executors come for a backlog, and go after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.long import allocation_driver
from tests.support import drivers
from tests.support.standalone_cluster import standalone_cluster, workers

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.integration, pytest.mark.long]


def test_executors_come_for_a_backlog_and_go_after_it(topic: Topic, tmp_path: Path) -> None:
    with standalone_cluster(tmp_path / "cluster", workers(2, 1)) as cluster:
        done = drivers.run(
            allocation_driver, cluster.url, topic.bootstrap_servers, topic.name, tmp_path
        )

    told = drivers.parse_json_lines(done)
    assert [line["reached"] for line in told if "reached" in line] == [3, 1, 0]
    # In local mode the slots are the driver's cores, whatever spark.default.parallelism says.
    [local] = [line["local"] for line in told if "local" in line]
    assert (local["assignor.strategy"], local["assignor.tasks"]) == ("lag-aware-sticky", "2")
    batches = [line["metrics"] for line in told if "metrics" in line]
    assert {b["assignor.strategy"] for b in batches} == {"lag-aware-sticky"}
    assert {b["assignor.fallbacks"] for b in batches} == {"0"}
    # From no executor: a task a partition, as Spark's own mapping, not the two of a parallelism.
    assert batches[0]["assignor.tasks"] == "8"
    # A task a slot once all are there.
    assert ("3", "3") in {(b["assignor.executors"], b["assignor.tasks"]) for b in batches}

"""An executor that is being decommissioned or removed gets no new work while it is still there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.lab.long import decommission_driver, worker_decommission_driver
from tests.support import drivers

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.integration, pytest.mark.drivers]


@pytest.mark.long
def test_an_executor_on_its_way_out_was_planned_for(topic: Topic, tmp_path: Path) -> None:
    topic.create(3)

    done = drivers.run(
        decommission_driver, topic.bootstrap_servers, topic.name, tmp_path, limit_s=240
    )

    [line] = [line for line in done.stdout.splitlines() if line.startswith("EXECUTORS ")]
    assert json.loads(line.removeprefix("EXECUTORS ")) == [["3"], ["2"], ["1"]]


@pytest.mark.long
def test_a_worker_is_decommissioned_in_the_midst_of_a_batch(topic: Topic, tmp_path: Path) -> None:
    """Each row is in the table once; the next batch is planned for the hosts that stay."""
    done = drivers.run(
        worker_decommission_driver, topic.bootstrap_servers, topic.name, tmp_path, limit_s=300
    )

    [line] = [line for line in done.stdout.splitlines() if line.startswith("EXECUTORS ")]
    assert json.loads(line.removeprefix("EXECUTORS ")) == ["3", "2"]

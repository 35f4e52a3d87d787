"""The option beside speculation, fair pools and tasks of two cores: rows are exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.long import scheduling_driver
from tests.support import drivers

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.integration, pytest.mark.long]


def test_two_queries_under_rare_settings_of_the_scheduler(topic: Topic, tmp_path: Path) -> None:
    done = drivers.run(scheduling_driver, topic.bootstrap_servers, topic.name, tmp_path)

    [told] = drivers.parse_json_lines(done)
    assert told["slots"] == scheduling_driver.SLOTS
    assert told["tasks"] == {"first": 3, "second": 2}  # of two cores each
    assert set(told["pools"]) >= {"first", "second"}
    assert told["speculative"] >= 1

"""A stage with its own resource profile: rows are exact; slots are those of the default one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.compat import profile_driver
from tests.support import drivers

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.compat

COUNTS = [60, 20, 12, 8]


def test_a_resource_profile_leaves_rows_exact(topic: Topic, tmp_path: Path) -> None:
    topic.create(len(COUNTS)).fill(COUNTS)

    done = drivers.run(profile_driver, topic.bootstrap_servers, topic.name, tmp_path)

    [told] = drivers.parse_json_lines(done)
    assert told["rows"] == told["distinct"] == sum(COUNTS)
    assert max(told["profiles"]) > 0, "no stage had the profile"
    assert told["slots"] == "4"  # not the two that tasks of two cores leave

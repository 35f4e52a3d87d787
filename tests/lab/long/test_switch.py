"""The switch of a whole cluster: given at Spark's start, obeyed by all queries at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.long import switch_driver
from tests.support import drivers

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.integration, pytest.mark.drivers]

OURS = ["lag-aware-sticky", None]


@pytest.mark.long
def test_what_is_given_at_the_start_holds_for_all_queries(topic: Topic, tmp_path: Path) -> None:
    """Two queries of one session at once, and one of another session of the same driver."""
    topic.create(2)
    file = tmp_path / "off"
    done = drivers.run(switch_driver, topic.bootstrap_servers, topic.name, tmp_path, file)

    [told] = drivers.parse_json_lines(done)
    by_setting = ["spark", "spark.assignor.enabled is false"]
    by_file = ["spark", f"spark.assignor.killSwitchFile exists: {file}"]
    assert told["batches"] == {
        "as started": [by_setting] * 3,
        "one session switched on": [OURS, OURS, by_setting],
        "both switched on": [OURS] * 3,
        "the file is there": [by_file] * 3,
        "the file is gone": [OURS] * 3,
    }
    assert told["rows"] == [[50, 50]] * 3  # read, and different
    assert told["fallbacks"] == ["0"]

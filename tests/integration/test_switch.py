"""The switch of a whole cluster: given at Spark's start, obeyed by all queries at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import switch_driver

if TYPE_CHECKING:
    from tests.kafka_topics import Topic

pytestmark = [pytest.mark.integration, pytest.mark.drivers]

OURS = ["lag-aware-sticky", None]


def test_what_is_given_at_the_start_holds_for_all_queries(topic: Topic, tmp_path: Path) -> None:
    """Two queries of one session at once, and one of another session of the same driver."""
    topic.create(2)
    file = tmp_path / "off"
    done = subprocess.run(
        [
            sys.executable, switch_driver.__file__,
            topic.bootstrap_servers, topic.name, str(tmp_path), str(file),
        ],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    [line] = [line for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    told = json.loads(line.removeprefix("TOLD "))

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

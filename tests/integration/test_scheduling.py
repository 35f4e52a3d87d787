"""The option beside speculation, fair pools and tasks of two cores: rows are exact."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import scheduling_driver

if TYPE_CHECKING:
    from tests.kafka_topics import Topic

pytestmark = [pytest.mark.integration, pytest.mark.long]


def test_two_queries_under_rare_settings_of_the_scheduler(topic: Topic, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, scheduling_driver.__file__),
            *(topic.bootstrap_servers, topic.name, str(tmp_path)),
        ],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=420,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    [told] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert told["slots"] == scheduling_driver.SLOTS
    assert told["tasks"] == {"first": 3, "second": 2}  # of two cores each
    assert set(told["pools"]) >= {"first", "second"}
    assert told["speculative"] >= 1

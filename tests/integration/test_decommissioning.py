"""An executor that is being decommissioned or removed gets no new work while it is still there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import decommission_driver

if TYPE_CHECKING:
    from tests.kafka_topics import Topic

pytestmark = [pytest.mark.integration, pytest.mark.drivers]


def test_an_executor_on_its_way_out_was_planned_for(topic: Topic, tmp_path: Path) -> None:
    topic.create(3)

    done = subprocess.run(
        [
            *(sys.executable, decommission_driver.__file__),
            *(topic.bootstrap_servers, topic.name, str(tmp_path)),
        ],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    [line] = [line for line in done.stdout.splitlines() if line.startswith("EXECUTORS ")]
    assert json.loads(line.removeprefix("EXECUTORS ")) == [["3"], ["2"], ["1"]]

"""The quick start is run, not trusted: its programs work as pasted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import drivers

if TYPE_CHECKING:
    from tests.support.kafka_topics import Topic

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.integration, pytest.mark.drivers]


def program(page: str, containing: str) -> str:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    [block] = [block for block in found if containing in block]
    return block


@pytest.mark.long
def test_the_program_runs_as_pasted(tmp_path: Path) -> None:
    out = drivers.run_pasted(program("quickstart.md", "EmbeddedBroker"), tmp_path)
    assert "'assignor.tasks': '2'" in out
    assert "'assignor.strategy': 'lag-aware-sticky'" in out


def test_a_query_into_delta_runs_as_pasted(topic: Topic, tmp_path: Path) -> None:
    topic.create(3).fill([30, 20, 10])
    pasted = program("add-to-a-job.md", "configure_delta")
    for name, value in (
        ("broker:9092", topic.bootstrap_servers),
        ('"subscribe": "orders"', f'"subscribe": "{topic.name}"'),
        (".writeStream", ".writeStream.trigger(availableNow=True)"),
    ):
        assert name in pasted
        pasted = pasted.replace(name, value)
    told = 'print(query.lastProgress["sources"][0]["metrics"]["assignor.strategy"])'
    assert "lag-aware-sticky" in drivers.run_pasted(f"{pasted}{told}\n", tmp_path)
    commits = (tmp_path / "data" / "tables" / "orders" / "_delta_log").glob("*.json")
    lines = [json.loads(line) for file in commits for line in file.read_text().splitlines()]
    stats = [json.loads(line["add"]["stats"]) for line in lines if "add" in line]
    assert sum(one["numRecords"] for one in stats) == 60

"""The first line of a report names what held a real query up, and nothing where nothing did."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.lab.long import causes_driver
from tests.support import drivers
from tests.unit.streaming.test_query_report import write_report

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.integration, pytest.mark.long]


def test_the_first_line_names_the_cause(topic: Topic, tmp_path: Path) -> None:
    done = drivers.run(causes_driver, topic.bootstrap_servers, topic.name, tmp_path)

    told = {line["query"]: line for line in drivers.parse_json_lines(done)}
    log = tmp_path / "progress.jsonl"
    pages = {
        name: write_report(tmp_path, left["checkpoint"], left["plans"], log)
        for name, left in told.items()
    }
    first = {name: page.removeprefix(f"Query {name} Problem ") for name, page in pages.items()}
    of_hot = told["hot"]["topic"]
    expected = {
        "nothing": "Nothing stands out ",
        "hot": f"Hot key: {of_hot}-",
        "slow": f"Slow executor: {causes_driver.SLOW} on ",
        "few": "Too few slots records arrive ",
        "starved": f"Starved topic: {told['starved']['topic']} ",
        "busy": "Busy cluster: executor",
    }
    assert {name: first[name][: len(words)] for name, words in expected.items()} == expected
    # The partition of the key is the one that has most.
    most = re.search(rf"({re.escape(of_hot)}-\d+) [\d,]+ [\d,]+ [\d,]+ ", pages["hot"])
    assert most is not None
    assert first["hot"].startswith(f"Hot key: {most[1]} ")
    # What would help is said beside it, and why in figures.
    split = "Suggestion: split it over several slots: remove assignor.split=false"
    assert split in first["hot"]
    assert re.search(r"it takes \d+\.\d times as long as the others", first["slow"], re.IGNORECASE)
    assert re.search(r"about [5-9] slots would keep up", first["few"])
    assert "assignor.fairness=even" in first["starved"]
    assert re.match(r"Busy cluster: executors \d, \d ", first["busy"])

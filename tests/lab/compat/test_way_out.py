"""One checkpoint: with the option, without our jar, and with it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from assignor_bridge.jars import find_built_jar
from tests.lab.compat.class_path import alone
from tests.support.class_path_driver import OPTION, run_driver

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.compat

COUNTS = [7, 4]


def test_a_checkpoint_goes_on_without_the_jar_and_with_it_again(
    topic: Topic, tmp_path: Path
) -> None:
    """The option may stay in the code: Spark's source knows nothing of it."""
    topic.create(len(COUNTS))
    strategies = []
    for run in range(4):
        topic.fill(COUNTS, first=run * max(COUNTS))
        removed = [find_built_jar()] if run == 2 else []
        class_path = [jar for jar in alone() if jar not in removed]
        runs = {"query": {} if run == 1 else OPTION}
        told, warnings = run_driver(topic, tmp_path, class_path, runs=runs)
        assert told["query"].get("rows") == sum(COUNTS), told
        [metrics] = told["query"]["metrics"]
        assert metrics.get("assignor.fallbacks", "0") == "0"
        strategies.append(metrics.get("assignor.strategy"))
        assert warnings == []
    assert strategies == ["lag-aware-sticky", None, None, "lag-aware-sticky"]

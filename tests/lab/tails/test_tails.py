"""Heads stay where Spark's source says so, on the oldest and the newest Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.tails.findings import find_contradictions, summarize_stages
from tests.lab.tails.programs import SPARKS, find_interpreter, run_program

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("spark", SPARKS)
def test_heads_stay_if_tails_list_executors(spark: str, tmp_path: Path) -> None:
    """No head moves under B; under A, heads move only between executors of one host."""
    if find_interpreter(spark) is None:
        pytest.skip(f"Spark {spark} cannot be installed here")
    rows = run_program(
        spark, "cluster_run", tmp_path / spark, "1", "one", "three",
        "--states", "busy", "--markings", "A", "B",
    )  # fmt: skip
    summaries = summarize_stages(rows)
    assert len(summaries) == 8  # two layouts, two waits, two markings
    assert find_contradictions(summaries) == []

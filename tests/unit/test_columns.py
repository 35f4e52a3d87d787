"""Inconsistent packed columns give a one-line error with the path."""

from __future__ import annotations

import pytest

from assignor_bridge.planner.plan import plan_batch
from streaming.human_json.snapshots import parse_snapshot, plan_to_json
from tests.support.packed import encode_column, pack_snapshot
from tests.support.planner_process import plan

ROWS = {
    "executors": [{"id": "1", "host": "h1", "slots": 1}, {"id": "2", "host": "h2"}],
    "ranges": [
        {"topic": "t", "partition": 0, "start": 0, "end": 100},
        {"topic": "u", "partition": 1, "start": 7, "end": 50},
    ],
    "options": {"assignor": "lag-aware-sticky"},
    "observed": [
        {"topic": "t", "partition": 0, "executor": "1", "records": 10, "bytes": 10,
         "seconds": 0.1, "offsets": 10},
    ],
    "state": None,
}  # fmt: skip


def changed(part: str, **columns) -> dict:
    request = pack_snapshot(ROWS)
    return {**request, part: {**request[part], **columns}}


def test_packed_columns_become_a_plan():
    answer = plan(pack_snapshot(ROWS))
    assert sum(r["end"] - r["start"] for t in answer["tasks"] for r in t["ranges"]) == 143
    rows = plan_to_json(plan_batch(*parse_snapshot(ROWS)))
    assert plan_to_json(plan_batch(*parse_snapshot(pack_snapshot(ROWS)))) == rows
    assert answer["state"] == rows["state"]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        pytest.param(
            {**pack_snapshot(ROWS), "ranges": {}},
            "`topics` - at `$.ranges`",
            id="no columns",
        ),
        pytest.param(
            {**pack_snapshot(ROWS), "observed": {}},
            "`topics` - at `$.observed`",
            id="of reports",
        ),
        pytest.param(
            changed("ranges", topics=["t", 3]),
            "got `int` - at `$.ranges.topics[1]`",
            id="names",
        ),
        pytest.param(
            changed("ranges", start=[1, 2]),
            "Expected `bytes`, got `array` - at `$.ranges.start`",
            id="a list",
        ),
        pytest.param(
            changed("observed", seconds=None),
            "got `null` - at `$.observed.seconds`",
            id="missing",
        ),
        pytest.param(
            changed("ranges", end="ä*"),
            "Invalid base64 encoded string - at",
            id="no base64",
        ),
        pytest.param(
            changed("ranges", end=encode_column([1, 2, 3], "<i4")),
            "ranges.end ends within a number: expected 8 bytes per number",
            id="half a number",
        ),
        pytest.param(
            changed("ranges", end=encode_column([100], "<i8")),
            "ranges.end has length 1: expected 2, one number per row",
            id="too short",
        ),
        pytest.param(
            changed("ranges", topic=encode_column([0, 2], "<i4")),
            "ranges.topic has 2: expected an index in 'topics', which has length 2",
            id="a place beyond the list",
        ),
        pytest.param(
            changed("observed", executor=encode_column([-1], "<i4")),
            "observed.executor has -1: expected an index in 'executors', which has length 1",
            id="a place before the list",
        ),
        pytest.param(
            changed("observed", record=""),
            "field `record` - at `$.observed`",
            id="a new one",
        ),
        pytest.param(
            changed("ranges", end=encode_column([100, 3], "<i8")),
            "range u-1[7,3) is impossible",
            id="ends before it starts",
        ),
    ],
)
def test_malformed_columns_give_a_one_line_error(request_, message):
    answer = plan(request_)
    assert answer["misuse"] is True
    assert message in answer["error"]
    assert "\n" not in answer["error"]

"""Packed columns that do not hold together: one line that names the place."""

from __future__ import annotations

import json

import pytest

from assignor_bridge.worker import handle
from tests.packed import column, packed

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


def ask(request) -> dict:
    return json.loads(handle(json.dumps(request).encode()))


def changed(part: str, **columns) -> dict:
    request = packed(ROWS)
    return {**request, part: {**request[part], **columns}}


def test_packed_columns_become_a_plan():
    plan = ask(packed(ROWS))
    assert sum(r["end"] - r["start"] for t in plan["tasks"] for r in t["ranges"]) == 143
    assert plan == ask(ROWS)


def test_a_planner_says_that_it_takes_them():
    assert ask({"validate": {}})["packed"] is True


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        pytest.param({**ROWS, "ranges": {}}, "ranges is a JSON object", id="no columns at all"),
        pytest.param({**ROWS, "observed": {}}, "observed is a JSON object", id="of reports"),
        pytest.param(
            changed("ranges", topics=["t", 3]), "a list of strings in 'topics'", id="names"
        ),
        pytest.param(
            changed("ranges", start=[1, 2]),
            "ranges.start is a JSON list: base64 text is expected",
            id="a list",
        ),
        pytest.param(
            changed("observed", seconds=None), "observed.seconds is a JSON null", id="missing"
        ),
        pytest.param(
            changed("ranges", end="ä*"), "ranges.end is no base64 of int64 numbers", id="no base64"
        ),
        pytest.param(
            changed("ranges", end=column([1, 2, 3], "<i4")),
            "ranges.end is no base64 of int64 numbers",
            id="half a number",
        ),
        pytest.param(
            changed("ranges", end=column([100], "<i8")),
            "ranges.end holds 1 numbers where other columns hold 2",
            id="too short",
        ),
        pytest.param(
            changed("ranges", topic=column([0, 2], "<i4")),
            "ranges.topic holds 2: a place in 'topics', of 2, is expected",
            id="a place beyond the list",
        ),
        pytest.param(
            changed("observed", executor=column([-1], "<i4")),
            "observed.executor holds -1: a place in 'executors', of 1, is expected",
            id="a place before the list",
        ),
        pytest.param(
            changed("observed", record=""), "observed has an unknown key 'record'", id="a new one"
        ),
        pytest.param(
            changed("ranges", end=column([100, 3], "<i8")),
            "range u-1[7,3) is impossible",
            id="ends before it starts",
        ),
    ],
)
def test_malformed_columns_are_answered_with_one_line(request_, message):
    answer = ask(request_)
    assert answer["misuse"] is True
    assert message in answer["error"]
    assert "\n" not in answer["error"]

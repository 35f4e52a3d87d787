"""What goes over the wire: both forms of a request say the same, and tasks are written right."""

from __future__ import annotations

import dataclasses
import json

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from assignor_bridge.plan_json import tasks_json
from assignor_bridge.planner.batch import from_snapshot
from assignor_bridge.planner.plan import as_plan, plan_batch
from assignor_bridge.worker import handle
from tests.packed import packed
from tests.strategies_snapshots import snapshots


def planned(request) -> bytes:
    return handle(json.dumps(request).encode())


@settings(max_examples=60)
@given(snapshots(), st.lists(st.sampled_from(["unused", "t", "0"]), max_size=3), st.data())
def test_rows_and_packed_columns_give_the_same_plan(snapshot, names, data):
    """Also when a list of names holds some that no cell has, or one twice, or in another order."""
    rows = dataclasses.asdict(snapshot)
    for report in rows["observed"]:
        report["partition"] %= 2**31
        if data.draw(st.booleans()):
            report[data.draw(st.sampled_from(["records", "bytes", "seconds"]))] = None
    columns = packed(rows)
    for part, listed in (("ranges", "topics"), ("observed", "topics"), ("observed", "executors")):
        columns[part][listed] += names
    assert planned(columns) == planned(rows)
    if rows["ranges"]:
        again = {"state": json.loads(planned(rows)).get("state")}
        assert planned({**columns, **again}) == planned({**rows, **again})


@settings(max_examples=60)
@given(snapshots(), st.data())
def test_tasks_are_written_as_objects_would_be(snapshot, data):
    """Also with offsets of all lengths, names that JSON escapes, and standbys for some tasks."""
    outcome = plan_batch(from_snapshot(snapshot), None)
    names = st.lists(st.sampled_from(["1", "\u65e5", 'qu"ote']), min_size=1, max_size=3).map(tuple)
    numbers = st.integers(0, max(0, len(outcome.tasks) - 1))
    standbys = data.draw(st.dictionaries(numbers, names, max_size=3)) if len(outcome.tasks) else {}
    outcome = dataclasses.replace(outcome, standbys=standbys)
    expected = [
        {
            "executor": task.executor,
            "slot": task.slot,
            "ranges": [dataclasses.asdict(r) for r in task.ranges],
            **({"standbys": task.standbys} if task.standbys else {}),
        }
        for task in as_plan(outcome).tasks
    ]
    assert tasks_json(outcome) == orjson.dumps(expected)

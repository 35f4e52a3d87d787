"""Messages: both forms of a request give the same plan, and tasks are encoded correctly."""

from __future__ import annotations

import dataclasses
import json

import msgspec
import orjson
from hypothesis import given
from hypothesis import strategies as st

from assignor_bridge.errors import AssignorError
from assignor_bridge.planner.plan import plan_batch
from assignor_bridge.protocol.columns import pack_tasks
from streaming.human_json.snapshots import parse_snapshot, plan_to_json
from tests.support.packed import pack_snapshot, pack_task_rows, unpack_tasks
from tests.support.planning import to_batch, to_plan
from tests.support.strategies_snapshots import snapshots
from tests.support.trials import trials


def planned(snapshot) -> dict:
    try:
        return plan_to_json(plan_batch(*parse_snapshot(snapshot)))
    except AssignorError as error:
        return {"error": str(error)}


def rows_of(snapshot) -> dict:
    rows = json.loads(orjson.dumps(snapshot))
    for executor in rows["executors"]:
        executor["resourceProfile"] = executor.pop("resource_profile")
    for report in rows["observed"]:
        report["coldSeconds"] = report.pop("cold_seconds")
    rows["allocation"] = rows["allocation"] and {
        "minExecutors": snapshot.allocation.min_executors,
        "maxExecutors": snapshot.allocation.max_executors,
        "slotsPerExecutor": snapshot.allocation.slots_per_executor,
        "secondsSinceLastPlan": snapshot.allocation.seconds_since_last_plan,
    }
    return rows


@trials(35)
@given(snapshots(), st.lists(st.sampled_from(["unused", "t", "0"]), max_size=3), st.data())
def test_rows_and_packed_columns_give_the_same_plan(snapshot, names, data):
    """Also if a list of names has unused or duplicate names, or another order."""
    rows = rows_of(snapshot)
    for report in rows["observed"]:
        report["partition"] %= 2**31
        if data.draw(st.booleans()):
            measures = st.sampled_from(["records", "bytes", "seconds", "coldSeconds"])
            report[data.draw(measures)] = None
    rows.pop("racks")
    racks = st.none() | st.lists(st.sampled_from(["a", "b", ""]), max_size=3)
    if data.draw(st.booleans()):
        rows["ranges"] = [r | {"racks": data.draw(racks)} for r in rows["ranges"]]
        rows["executors"] = [
            e | {"rack": data.draw(st.sampled_from(["a", "b", None]))} for e in rows["executors"]
        ]
    columns = pack_snapshot(rows)
    for part, listed in (("ranges", "topics"), ("observed", "topics"), ("observed", "executors")):
        columns[part][listed] += names
    assert planned(columns) == planned(rows)
    if rows["ranges"]:
        again = {"state": planned(rows).get("state")}
        assert planned({**columns, **again}) == planned({**rows, **again})


@trials(35)
@given(snapshots(), st.data())
def test_packed_tasks_equal_the_tasks(snapshot, data):
    """With offsets of all lengths, names that JSON escapes, and standbys of some tasks."""
    outcome = plan_batch(to_batch(snapshot), None)
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
        for task in to_plan(outcome).tasks
    ]
    expected = orjson.loads(orjson.dumps(expected))
    columns = msgspec.json.decode(msgspec.json.encode(pack_tasks(outcome)))
    assert unpack_tasks(columns) == expected
    assert unpack_tasks(pack_task_rows(expected)) == expected
    assert orjson.loads(orjson.dumps(plan_to_json(outcome)["tasks"])) == expected

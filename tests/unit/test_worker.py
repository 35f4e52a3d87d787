"""The planner process as Java sees it: lines in, lines out, and it survives."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from assignor_bridge.worker import Response, handle, prepare, respond
from checkpoints import sticky_state

SNAPSHOT = {
    "executors": [
        {"id": "1", "host": "h1", "slots": 1, "rack": None, "priority": None},
        {"id": "2", "host": "h2", "slots": 1},
    ],
    "ranges": [
        {"topic": "t", "partition": 0, "start": 0, "end": 100},
        {"topic": "t", "partition": 1, "start": 0, "end": 50},
    ],
    "options": {"assignor": "lag-aware-sticky"},
    "observed": [
        {"topic": "t", "partition": 0, "executor": "1", "records": 10, "bytes": 10,
         "seconds": 0.1, "offsets": 10},
        {"topic": "t", "partition": 1, "executor": None, "records": 10, "bytes": 10,
         "seconds": 0.1},
    ],
    "state": None,
}  # fmt: skip

ALLOCATION = {"minExecutors": 0, "maxExecutors": 4, "slotsPerExecutor": 1}


def ask(request) -> dict:
    line = request if isinstance(request, bytes) else json.dumps(request).encode()
    answer = handle(line)
    assert answer.endswith(b"\n")
    assert answer.count(b"\n") == 1
    return json.loads(answer)


def test_a_snapshot_becomes_a_plan():
    plan = ask(SNAPSHOT)
    assert plan["assignor"] == "lag-aware-sticky"
    assert sum(r["end"] - r["start"] for t in plan["tasks"] for r in t["ranges"]) == 150
    assert all(t.keys() == {"executor", "slot", "ranges"} for t in plan["tasks"])
    assert plan["metrics"].keys() >= {
        "strategy", "generation", "tasks", "executors", "splitPartitions", "movedPartitions",
        "imbalance",
    }  # fmt: skip
    assert ask({**SNAPSHOT, "state": plan["state"]})["metrics"]["movedPartitions"] == 0


def test_where_executors_come_and_go_a_plan_asks_for_them():
    assert len(ask({**SNAPSHOT, "executors": [], "allocation": None})["tasks"]) == 1
    request = {**SNAPSHOT, "executors": [], "observed": [], "allocation": ALLOCATION}
    plan = ask(request)
    assert len(plan["tasks"]) == 2  # a task a partition
    assert "asks for executors with 2 tasks: 0 of 4 are there" in plan["reasons"]


def test_without_executors_tasks_have_no_place():
    plan = ask({**SNAPSHOT, "executors": [], "parallelism": 3, "observed": []})
    assert [t["executor"] for t in plan["tasks"]] == [None] * 3


def test_standbys_are_named_when_there_are_any():
    options = {"assignor": "streams", "assignor.standbyReplicas": 1}
    assert all(t["standbys"] for t in ask({**SNAPSHOT, "options": options})["tasks"])


def test_validation():
    answer = ask({"validate": {"assignor": "sticky", "assignor.maximbalance": "0.1"}})
    assert answer["ok"] is True
    assert answer["options"]["assignor.maxImbalance"] == 0.1
    refused = ask({"validate": {"assignor": "stickyy"}})
    assert refused["misuse"] is True
    assert "unknown assignor 'stickyy'" in refused["error"]
    assert "sticky" in refused["error"]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (b"garbage", "no JSON"),
        (b"[]", "a JSON list: an object is expected"),
        ({}, "no 'ranges'"),
        ({**SNAPSHOT, "ranges": {}}, "ranges is a JSON object"),
        ({**SNAPSHOT, "ranges": [1]}, r"ranges[0] is a JSON number"),
        ({**SNAPSHOT, "ranges": [{"topic": "t"}]}, "ranges[0] has no 'partition'"),
        ({**SNAPSHOT, "ranges": [{**SNAPSHOT["ranges"][0], "end": "9"}]}, "ranges[0].end is '9'"),
        ({**SNAPSHOT, "ranges": [{**SNAPSHOT["ranges"][0], "end": 2**63}]}, "64 bits"),
        ({**SNAPSHOT, "ranges": [{**SNAPSHOT["ranges"][0], "topic": 3}]}, "ranges[0].topic is 3"),
        ({**SNAPSHOT, "ranges": [{**SNAPSHOT["ranges"][0], "start": True}]}, "start is True"),
        ({**SNAPSHOT, "executors": [3]}, "executors[0] is a JSON number"),
        ({**SNAPSHOT, "executors": [{"id": 1, "host": "h"}]}, "executors[0].id is 1"),
        ({**SNAPSHOT, "executors": [{"id": "1", "host": "h", "slots": 1.5}]}, "slots is 1.5"),
        ({**SNAPSHOT, "observed": [{"topic": "t"}]}, "observed[0] has no 'partition'"),
        ({**SNAPSHOT, "observed": [{**SNAPSHOT["observed"][0], "bytes": "x"}]}, "bytes is 'x'"),
        ({**SNAPSHOT, "options": []}, None),
        ({**SNAPSHOT, "options": [1]}, "options is a JSON list"),
        ({**SNAPSHOT, "state": 5}, "state is a JSON number"),
        ({**SNAPSHOT, "parallelism": "x"}, "parallelism is 'x'"),
        ({**SNAPSHOT, "allocation": 4}, "allocation is a JSON number"),
        ({**SNAPSHOT, "allocation": {"minExecutors": 0}}, "allocation.maxExecutors is None"),
        ({**SNAPSHOT, "allocation": ALLOCATION | {"slotsPerExecutor": 0}}, "number from 1 is"),
        ({**SNAPSHOT, "allocation": ALLOCATION | {"secondsSinceLastPlan": "x"}}, "Plan is 'x'"),
        ({**SNAPSHOT, "surprise": 1}, "unknown key 'surprise'"),
        ({**SNAPSHOT, "options": {"assignor.splitt": "1"}}, "did you mean 'assignor.split'"),
        ({**SNAPSHOT, "options": {"assignor.split": [1]}}, "options.assignor.split is a JSON list"),
        ({**SNAPSHOT, "options": {"assignor": "none"}}, "'none' is no assignor"),
        (
            {**SNAPSHOT, "executors": [{"id": "1", "host": "h", "slot": 4}]},
            "executors[0] has an unknown key 'slot': known are id, host, slots, rack, priority",
        ),
        (
            {**SNAPSHOT, "ranges": [*SNAPSHOT["ranges"], {**SNAPSHOT["ranges"][0], "ende": 9}]},
            "ranges[2] has an unknown key 'ende': known are topic, partition, start, end",
        ),
        (
            {**SNAPSHOT, "observed": [{**SNAPSHOT["observed"][0], "record": 9}]},
            "observed[0] has an unknown key 'record': known are topic, partition, executor",
        ),
        (
            {**SNAPSHOT, "ranges": [{**SNAPSHOT["ranges"][0], "partition": 2**31}]},
            "range t-2147483648[0,100) is impossible: a partition from 0 to 2147483647",
        ),
        (
            {**SNAPSHOT, "ranges": [{**SNAPSHOT["ranges"][0], "topic": "t" * 70_000}]},
            "has a name of 70000 characters: Kafka's have at most 249",
        ),
        (
            {**SNAPSHOT, "executors": [{"id": "1", "host": "h", "slots": 2**62}]},
            "the executors have 4611686018427387904 slots in all (executor '1'",
        ),
        (
            {**SNAPSHOT, "executors": [], "parallelism": 2**40},
            "parallelism is 1099511627776: at least 1 slot",
        ),
        ({"validate": [1, 2]}, "options is a JSON list: an object is expected"),
        ({"validate": {"assignor": "none"}}, "'none' is no assignor"),
    ],
)
def test_malformed_requests_are_answered_with_one_line(request_, message):
    answer = ask(request_)
    if message is None:
        assert "tasks" in answer
        return
    assert answer["misuse"] is True
    assert message in answer["error"]
    assert "\n" not in answer["error"]


def test_a_bad_state_costs_memory_not_the_plan():
    for state in ("", "nonsense", "QUJz", "QUJz/w=="):
        plan = ask({**SNAPSHOT, "state": state})
        assert len(plan["tasks"]) == 2
        assert ("stateWarning" in plan["metrics"]) == bool(state)


def test_the_next_state_is_read_between_batches():
    """What it does beforehand changes no answer, and a state that cannot be read ends nothing."""
    first = respond(json.dumps(SNAPSHOT).encode())
    state = json.loads(first.line)["state"]
    then = json.dumps({**SNAPSHOT, "state": state}).encode()
    sticky_state.decode.cache_clear()
    unprepared = handle(then)
    sticky_state.decode.cache_clear()
    prepare(first)
    misses = sticky_state.decode.cache_info().misses
    assert handle(then) == unprepared
    assert sticky_state.decode.cache_info().misses == misses
    prepare(Response(b"", answer={"state": "nonsense"}))


def test_what_an_answer_was_made_from_is_let_go_between_batches():
    response = respond(json.dumps(SNAPSHOT).encode())
    assert response.request.keys() == SNAPSHOT.keys()
    prepare(response)
    assert not response.request
    assert not response.answer


@pytest.fixture
def users_assignors(tmp_path):
    (tmp_path / "mine.py").write_text(
        "print('imported')\n"
        "class First:\n"
        "    def assign(self, group):\n"
        "        print('assigning')\n"
        "        return {group.ids[0]: {t: range(n) for t, n in group.topics.items()}}\n"
        "class Loses:\n"
        "    def assign(self, group):\n"
        "        return {}\n"
        "class Exits:\n"
        "    name = 'exits'\n"
        "    def assign(self, group):\n"
        "        raise SystemExit(4)\n"
        "class Configured:\n"
        "    name = 'configured'\n"
        "    def configure(self, options):\n"
        "        self.to = options['to']\n"
        "    def assign(self, group):\n"
        "        return {self.to: {t: range(n) for t, n in group.topics.items()}}\n"
        "    def on_assignment(self, member, owned, generation):\n"
        "        print('told', member.id, dict(owned), generation)\n"
        "class Raises:\n"
        "    def assign(self, group):\n"
        "        raise RuntimeError('out of\\nideas')\n"
    )
    return tmp_path


def test_the_process(users_assignors):
    """Answers in order, survives errors and SIGINT, keeps stdout clean, ends with its input."""
    process = subprocess.Popen(
        [sys.executable, "-m", "assignor_bridge.worker"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={"PYTHONPATH": str(users_assignors), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    try:

        def exchange(request) -> dict:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        def named(name):
            return {**SNAPSHOT, "options": {"assignor": name}}

        assert exchange(SNAPSHOT)["assignor"] == "lag-aware-sticky"
        process.send_signal(signal.SIGINT)
        first = exchange(named("mine:First"))
        assert [t["executor"] for t in first["tasks"]] == ["1"]
        loses = exchange(named("mine:Loses"))
        assert "left 2 of 2 partitions without a member" in loses["error"]
        exits = exchange(named("mine:Exits"))
        assert exits["error"] == "assignor 'exits' raised SystemExit: 4"
        options = {"assignor": "mine:Configured", "assignor.configured.to": "2/0"}
        valid = exchange({"validate": options})
        assert valid["options"]["assignor.configured.to"] == "2/0"
        plan = exchange({**SNAPSHOT, "options": options})
        assert [t["executor"] for t in plan["tasks"]] == ["2"]
        lacks = exchange({"validate": {"assignor": "mine:Configured"}})
        assert lacks["misuse"] is True
        assert "'configured' does not take its options (none are given): Key" in lacks["error"]
        raises = exchange(named("mine:Raises"))
        assert raises["error"] == "assignor 'mine:Raises' raised RuntimeError: out of ideas"
        assert "\n" not in raises["error"]
        assert "mine.py" in raises["traceback"]
        assert exchange(SNAPSHOT)["assignor"] == "lag-aware-sticky"
        out, err = process.communicate(timeout=30)
        assert out == b""
        assert b"assigning" in err
        assert b"told 1/0 {} 1\ntold 2/0 {'t': (0, 1)} 1\n" in err
        assert process.returncode == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_no_kafka_client_is_imported():
    """It takes as long as a plan."""
    code = "import sys, assignor_bridge.worker; sys.exit('confluent_kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

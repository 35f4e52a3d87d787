"""The planner process as Java sees it: lines in, lines out, and it survives errors."""

from __future__ import annotations

import io
import itertools
import json
import signal
import subprocess
import sys

import msgspec
import pytest

from assignor_bridge.errors import OptionError
from assignor_bridge.protocol.messages import Planned, Restored, encode_answer
from assignor_bridge.worker import Worker, serve
from checkpoints import state_text
from streaming.human_json.snapshots import parse_snapshot
from tests.support.packed import encode_column, pack_snapshot, unpack_rows, unpack_tasks
from tests.support.planner_process import encode_request, plan, send_request
from tests.support.processes import has_ended
from tests.support.spark_tools import wait_until

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

RANGE = SNAPSHOT["ranges"][0]
REPORT = SNAPSHOT["observed"][0]
ALLOCATION = {"minExecutors": 0, "maxExecutors": 4, "slotsPerExecutor": 1}


def test_a_snapshot_becomes_a_plan():
    first = plan(SNAPSHOT)
    assert first["assignor"] == "lag-aware-sticky"
    assert sum(r["end"] - r["start"] for t in first["tasks"] for r in t["ranges"]) == 150
    assert all(t.keys() == {"executor", "slot", "ranges"} for t in first["tasks"])
    assert first["metrics"].keys() >= {
        "strategy", "generation", "tasks", "executors", "splitPartitions", "movedPartitions",
        "imbalance",
    }  # fmt: skip
    assert plan({**SNAPSHOT, "state": first["state"]})["metrics"]["movedPartitions"] == 0


def test_a_plan_requests_executors_with_dynamic_allocation():
    assert len(plan({**SNAPSHOT, "executors": [], "allocation": None})["tasks"]) == 1
    request = {**SNAPSHOT, "executors": [], "observed": [], "allocation": ALLOCATION}
    asking = plan(request)
    assert len(asking["tasks"]) == 2  # one task per partition
    assert "plans at least 2 tasks to request executors (0 present, limit: 4)" in asking["reasons"]


def test_without_executors_tasks_have_no_executor():
    local = plan({**SNAPSHOT, "executors": [], "parallelism": 3, "observed": []})
    assert [t["executor"] for t in local["tasks"]] == [None] * 3


@pytest.mark.parametrize("fact", [{"excluded": True}, {"leaving": True}, {"resourceProfile": 7}])
def test_executors_without_tasks_from_spark_get_no_plan(fact):
    first, second = SNAPSHOT["executors"]
    one = plan({**SNAPSHOT, "executors": [first, {**second, **fact}]})
    assert {t["executor"] for t in one["tasks"]} == {"1"}
    none = plan({**SNAPSHOT, "executors": [{**second, **fact}], "parallelism": 1})
    assert [t["executor"] for t in none["tasks"]] == [None]


def test_standbys_are_in_the_plan_if_there_are_any():
    options = {"assignor": "streams", "assignor.standbyReplicas": 1}
    assert all(t["standbys"] for t in plan({**SNAPSHOT, "options": options})["tasks"])


def test_validation():
    given = {
        "assignor": "sticky", "assignor.maximbalance": "0.1",
        "assignor.onError": " Fail\u00a0", "assignor.planTimeoutMs": "5_000",
    }  # fmt: skip
    answer = send_request({"type": "validate", "options": given})
    assert answer["type"] == "validated"
    assert answer["options"]["assignor.maxImbalance"] == 0.1
    assert answer["options"]["assignor.onError"] == "fail"
    assert answer["options"]["assignor.planTimeoutMs"] == 5000
    assert answer["stateVersion"] == state_text.VERSION
    refused = send_request({"type": "validate", "options": {"assignor": "stickyy"}})
    assert refused["misuse"] is True
    assert "unknown assignor 'stickyy'" in refused["error"]
    assert "sticky" in refused["error"]


def test_a_stream_is_planned_with_the_options_that_were_validated_last():
    worker = Worker()
    assert (
        "before the options were validated"
        in send_request(encode_request(SNAPSHOT), worker)["error"]
    )
    for options, pieces in (({"assignor.split": "false"}, 2), ({}, 3)):
        send_request({"type": "validate", "options": options}, worker)
        assert send_request(encode_request(SNAPSHOT), worker)["metrics"]["pieces"] == pieces
    send_request({"type": "validate", "options": {"assignor.split": "perhaps"}}, worker)
    assert send_request(encode_request(SNAPSHOT), worker)["metrics"]["pieces"] == 3


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (b"garbage", "JSON is malformed"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "missing required field `type`"),
        (b'{"type": "commit"}', "Invalid value 'commit' - at `$.type`"),
        (
            {"type": "validate", "options": [1, 2]},
            "got `array` - at `$.options`",
        ),
        ({"type": "validate", "options": {"assignor": "none"}}, "'none' is not an assignor"),
        ({"type": "restore", "state": "x", "topics": [{}]}, "at `$.topics[0]`"),
        ({"type": "plan", "executors": []}, "missing required field `ranges`"),
    ],
)
def test_invalid_requests_get_a_one_line_answer(request_, message):
    answer = send_request(request_)
    assert answer["misuse"] is True
    assert message in answer["error"]
    assert "\n" not in answer["error"]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ([], "the snapshot: it is []: a mapping is expected"),
        ({}, "'ranges' is missing"),
        ({**SNAPSHOT, "ranges": {}}, "missing required field `topics` - at `$.ranges`"),
        ({**SNAPSHOT, "ranges": [1]}, "ranges[0] is 1: a mapping is expected"),
        ({**SNAPSHOT, "ranges": [{"topic": "t"}]}, "ranges[0]: 'partition' is missing"),
        (
            {**SNAPSHOT, "ranges": [{**RANGE, "end": "9"}]},
            'ranges[0].end is "9": a whole number is expected',
        ),
        (
            {**SNAPSHOT, "ranges": [{**RANGE, "end": 2**63}]},
            "at most 9223372036854775807 is expected",
        ),
        ({**SNAPSHOT, "ranges": [{**RANGE, "topic": 3}]}, "ranges[0].topic is 3"),
        (
            {**SNAPSHOT, "ranges": [{**RANGE, "start": True}]},
            "ranges[0].start is true",
        ),
        ({**SNAPSHOT, "executors": [3]}, "executors[0] is 3: a mapping is expected"),
        ({**SNAPSHOT, "executors": [{"id": 1, "host": "h"}]}, "executors[0].id is 1"),
        ({**SNAPSHOT, "executors": [{"id": "1", "host": "h", "slots": 1.5}]}, "slots is 1.5"),
        ({**SNAPSHOT, "observed": [{"topic": "t"}]}, "observed[0]: 'partition' is missing"),
        (
            {**SNAPSHOT, "observed": [{**REPORT, "bytes": "x"}]},
            'observed[0].bytes is "x"',
        ),
        ({**SNAPSHOT, "options": [1]}, "options is [1]: a mapping is expected"),
        ({**SNAPSHOT, "state": 5}, "state is 5: text in quotes is expected"),
        ({**SNAPSHOT, "parallelism": "x"}, 'parallelism is "x"'),
        ({**SNAPSHOT, "allocation": 4}, "allocation is 4: a mapping is expected"),
        ({**SNAPSHOT, "allocation": {"minExecutors": 0}}, "allocation: 'maxExecutors' is missing"),
        (
            {**SNAPSHOT, "allocation": ALLOCATION | {"slotsPerExecutor": 0}},
            "is 0: at least 1 is expected",
        ),
        ({**SNAPSHOT, "allocation": ALLOCATION | {"secondsSinceLastPlan": "x"}}, 'Plan is "x"'),
        ({**SNAPSHOT, "surprise": 1}, "unknown key 'surprise'"),
        ({**SNAPSHOT, "options": {"assignor.splitt": "1"}}, "did you mean 'assignor.split'"),
        (
            {**SNAPSHOT, "options": {"assignor.split": [1]}},
            "one text, number, true or false is expected",
        ),
        (
            {**SNAPSHOT, "executors": [{"id": "1", "host": "h", "slot": 4}]},
            "executors[0]: unknown key 'slot'; did you mean 'slots'?",
        ),
        (
            {**SNAPSHOT, "ranges": [*SNAPSHOT["ranges"], {**RANGE, "ende": 9}]},
            "ranges[2]: unknown key 'ende'; did you mean 'end'?",
        ),
        (
            {
                **SNAPSHOT,
                "ranges": dict.fromkeys(("topic", "partition", "start", "end"), "")
                | {"topics": [], "offset": ""},
            },
            "unknown field `offset` - at `$.ranges`",
        ),
        (
            {**SNAPSHOT, "observed": [{**REPORT, "record": 9}]},
            "observed[0]: unknown key 'record'; did you mean 'records'?",
        ),
        (
            {**SNAPSHOT, "ranges": [{**RANGE, "partition": 2**31}]},
            "range t-2147483648[0,100) is impossible: expected a partition from 0 to 2147483647",
        ),
        (
            {**SNAPSHOT, "ranges": [{**RANGE, "topic": "t" * 70_000}]},
            "has a name of 70000 characters: Kafka allows at most 249",
        ),
        (
            {**SNAPSHOT, "executors": [{"id": "1", "host": "h", "slots": 2**62}]},
            "the executors have 4611686018427387904 slots in total (executor '1'",
        ),
        (
            {**SNAPSHOT, "executors": [], "parallelism": 2**40},
            "parallelism is 1099511627776: expected 1 to",
        ),
    ],
)
def test_malformed_snapshots_give_a_one_line_error(request_, message):
    with pytest.raises(OptionError) as refused:
        parse_snapshot(request_)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


LINES = [
    b'0 0 {"type":"validate","options":{"assignor":"\xff"}}',
    b'0 0 {"type":"\xc3\x28"}',
    b'0 0 {"type":"restore","state":"\xed\xa0\x80","topics":[]}',
    b"0 0 \xff",
    b"0 0",
    b"\xff",
    b"",
]


@pytest.mark.parametrize("line", LINES, ids=repr)
def test_invalid_bytes_get_an_answer_and_so_does_the_next_request(line):
    answers = io.BytesIO()
    serve(io.BytesIO(line + b'\n5 0 {"type":"end"}\n'), answers)
    first, second = answers.getvalue().splitlines()
    number, _, answer = first.partition(b" ")
    assert number == line.partition(b" ")[0]
    failed = json.loads(answer)
    assert failed["misuse"]
    assert not failed["traceback"]
    assert "the request is invalid: " in failed["error"]
    assert second == b'5 {"type":"ended"}'


def test_an_answer_that_cannot_be_encoded_becomes_a_failure():
    line = encode_answer(Restored("half of a character: \ud83d"))
    assert json.loads(line)["error"].startswith("UnicodeEncodeError: ")


def test_an_invalid_state_does_not_prevent_a_plan():
    for state in ("", "nonsense", "QUJz", "QUJz/w=="):
        answer = plan({**SNAPSHOT, "state": state})
        assert len(answer["tasks"]) == 2
        assert ("stateWarning" in answer["metrics"]) == bool(state)


def test_the_next_state_is_read_between_batches():
    """Decoding it early changes no answer and tolerates invalid states.

    Each stream has its own cache.
    """
    worker, other = Worker(), Worker()
    for each in (worker, other):
        send_request({"type": "validate", "options": {}}, each)
    first = worker.answer(encode_request(SNAPSHOT))
    assert isinstance(first, Planned)
    then = encode_request({**SNAPSHOT, "state": first.state})
    unprepared = worker.answer(then)
    send_request({"type": "validate", "options": {}}, worker)
    worker.prepare(first)
    other.prepare(msgspec.structs.replace(first, state="nonsense"))
    state_text.decode.cache_clear()
    assert worker.answer(then) == unprepared
    assert state_text.decode.cache_info().misses == 0


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


def test_the_process_ends_with_its_input_whatever_threads_an_assignor_has(users_assignors):
    """A killed driver once left it behind."""
    (users_assignors / "threads.py").write_text(
        "import threading\n"
        "from mine import First\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
    )
    options = {"assignor": "threads:First"}
    request = json.dumps({"type": "validate", "options": options})
    done = subprocess.run(
        [sys.executable, "-m", "assignor_bridge.worker"],
        input=f"1 1 {request}\n".encode(), capture_output=True, timeout=60, check=True,
        env={"PYTHONPATH": str(users_assignors), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert b'"validated"' in done.stdout


def test_the_process_answers_requests(users_assignors):
    """It answers in order, survives errors and SIGINT, keeps stdout clean, and ends with stdin."""
    numbers = itertools.count(1)
    process = subprocess.Popen(
        [sys.executable, "-m", "assignor_bridge.worker"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={"PYTHONPATH": str(users_assignors), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    try:

        def exchange(line: bytes, stream: int = 1) -> dict:
            number = next(numbers)
            process.stdin.write(b"%d %d %s\n" % (number, stream, line))
            process.stdin.flush()
            answered, _, answer = process.stdout.readline().partition(b" ")
            assert int(answered) == number
            return json.loads(answer)

        def planned(name, **own):
            options = {"assignor": name, **{f"assignor.{key}": to for key, to in own.items()}}
            valid = exchange(json.dumps({"type": "validate", "options": options}).encode())
            if valid["type"] != "validated":
                return valid
            assert valid["options"].items() >= options.items()
            answer = exchange(encode_request(SNAPSHOT))
            if "tasks" in answer:
                answer["tasks"] = unpack_tasks(answer["tasks"])
            return answer

        assert planned("lag-aware-sticky")["assignor"] == "lag-aware-sticky"
        process.send_signal(signal.SIGINT)
        assert [t["executor"] for t in planned("mine:First")["tasks"]] == ["1"]
        assert "left 2 of 2 partitions without a member" in planned("mine:Loses")["error"]
        assert planned("mine:Exits")["error"] == "assignor 'exits' raised SystemExit: 4"
        configured = planned("mine:Configured", **{"configured.to": "2/0"})
        assert [t["executor"] for t in configured["tasks"]] == ["2"]
        lacks = planned("mine:Configured")
        assert lacks["misuse"] is True
        assert "'configured' does not accept its options (none are given): Key" in lacks["error"]
        raises = planned("mine:Raises")
        assert raises["error"] == "assignor 'mine:Raises' raised RuntimeError: out of ideas"
        assert "\n" not in raises["error"]
        assert "mine.py" in raises["traceback"]
        assert planned("lag-aware-sticky")["assignor"] == "lag-aware-sticky"
        # Each stream has its own worker, which is dropped when the stream ends.
        assert (
            "before the options were validated"
            in exchange(encode_request(SNAPSHOT), stream=2)["error"]
        )
        assert exchange(encode_request(SNAPSHOT))["type"] == "planned"
        assert exchange(b'{"type": "end"}') == {"type": "ended"}
        assert "before the options were validated" in exchange(encode_request(SNAPSHOT))["error"]
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


def admission(worker: Worker, snapshot: dict = SNAPSHOT, **more: object) -> dict:
    request = {"type": "admit", **pack_snapshot(snapshot), **more}
    answer = send_request(
        {key: value for key, value in request.items() if key != "options"}, worker
    )
    if answer["type"] == "admitted":
        answer["ranges"] = unpack_rows(answer["ranges"])
    return answer


def test_a_batch_is_admitted_by_the_options_that_were_validated():
    worker = Worker()
    options = {"assignor.fairness": "even", "maxOffsetsPerTrigger": "60"}
    assert send_request({"type": "validate", "options": options}, worker)["admits"]
    answer = admission(worker, mostRecords=60)
    assert [r["end"] for r in answer["ranges"]] == [30, 30]
    assert answer["metrics"] == {
        "admittedRecords": 60, "heldBackRecords": 90, "heldBackBy": "records",
    }  # fmt: skip
    assert worker._backlog_ratio == 150 / 60
    send_request(encode_request(SNAPSHOT), worker)
    assert worker._backlog_ratio == 1.0, "it is that of one batch"


def test_batch_durations_are_kept_between_admissions():
    worker = Worker()
    send_request({"type": "validate", "options": {"assignor.targetBatchSeconds": "2"}}, worker)
    assert admission(worker)["metrics"]["heldBackBy"] == "nothing"
    backlog = {**SNAPSHOT, "ranges": [{**r, "end": 10**9} for r in SNAPSHOT["ranges"]]}
    slow = admission(worker, backlog, last={"records": 150, "seconds": 40.0})
    assert slow["metrics"]["heldBackBy"] == "seconds"
    assert slow["metrics"]["admittedRecords"] == pytest.approx(100, abs=1)


def test_no_admission_before_the_options_are_validated():
    assert "before the options were validated" in admission(Worker())["error"]


def times(now: int, stamps: list[int], **answer: object) -> dict:
    return {"nowMs": now, "stamp": encode_column(stamps, "<i8"), **answer}


def aligned_worker() -> Worker:
    worker = Worker()
    valid = send_request(
        {"type": "validate", "options": {"assignor.alignEventTime": "1 second"}}, worker
    )
    assert (valid["admits"], valid["needsTimes"]) == (True, True)
    return worker


@pytest.mark.parametrize("turned", [False, True])
def test_a_look_up_is_requested_before_a_batch_is_aligned(turned: bool):
    """The ranges may come in any order."""
    order = -1 if turned else 1
    snapshot = {**SNAPSHOT, "ranges": SNAPSHOT["ranges"][::order]}
    worker = aligned_worker()
    stamps = [5000, 5500][::order]
    last = {"records": 10, "seconds": 1.0}
    asked = admission(worker, snapshot, times=times(10_000_000, stamps), last=last)
    assert asked == {"type": "lookUp", "timeMs": 6000}
    assert worker._memory.times == ()
    at = encode_column([40, 7][::order], "<i8")
    answered = times(10_000_000, stamps, lookUps=1, askedMs=6000, at=at)
    answer = admission(worker, snapshot, times=answered, last=last)
    assert {r["partition"]: r["end"] for r in answer["ranges"]} == {0: 40, 1: 7}
    assert answer["metrics"] == {
        "admittedRecords": 47, "heldBackRecords": 103, "heldBackBy": "time",
        "eventTimeSpreadSeconds": 0.5,
    }  # fmt: skip
    assert len(worker._memory.times) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "the request has no record times"),
        (times(1, [1]), "times.stamp has length 1: expected 2, one number per row"),
        (times(1, [1, 2], lookUps=1, askedMs=3, at=""), "times.at has length 0"),
    ],
)
def test_times_that_do_not_match_the_ranges_are_refused(given: dict | None, said: str):
    assert said in admission(aligned_worker(), times=given)["error"]


@pytest.mark.parametrize("turned", [False, True])
def test_deadlines_follow_their_partitions_in_any_order(turned):
    """The second partition's record is kept for 9 s, the first one's for an hour."""
    worker = Worker()
    options = {"assignor.fairness": "deadline", "maxOffsetsPerTrigger": "60"}
    assert send_request({"type": "validate", "options": options}, worker)["needsTimes"]
    step = -1 if turned else 1
    snapshot = {**SNAPSHOT, "ranges": SNAPSHOT["ranges"][::step]}
    stamps = times(3_600_000, [3_600_000, 9_000][::step])

    answer = admission(worker, snapshot, mostRecords=60, times=stamps, retentionMs={"t": 3_600_000})

    assert [(r["partition"], r["end"]) for r in answer["ranges"]] == [(0, 10), (1, 50)]
    assert answer["metrics"]["secondsToLoss"] == 9.0
    unknown = admission(worker, snapshot, mostRecords=60, times=stamps)
    assert [r["end"] for r in unknown["ranges"]] == [30, 30]
    assert "secondsToLoss" not in unknown["metrics"]


def test_a_busy_planner_ends_with_its_driver():
    """The end of stdin is noticed only between requests: an endless plan outlived its driver."""
    busy = (
        "import os, time\n"
        "from assignor_bridge import worker\n"
        "def serve(requests, answers):\n"
        "    answers.write(b'%d\\n' % os.getpid())\n"
        "    answers.flush()\n"
        "    time.sleep(999)\n"
        "worker.serve = serve\n"
        "worker.main()\n"
    )
    driver = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    with subprocess.Popen([sys.executable, "-c", driver], stdout=subprocess.PIPE) as process:
        assert process.stdout
        planner = int(process.stdout.readline())
        assert not has_ended(planner)
        process.kill()
        wait_until(lambda: has_ended(planner), "the planner's end", 30)

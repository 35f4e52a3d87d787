"""Spark's UI, by recorded answers of a real one: batches, tasks, slots; all else is one line."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Any

import pytest

from assignor_bridge.errors import OptionError
from streaming.cli import main
from streaming.observe.spark_ui import SparkUi
from streaming.observe.web import Address, WebError
from tests.unit.streaming.checkpoints import write_checkpoint
from tests.unit.streaming.served import APP, ELSE, QUERY_ID, RECORDED, serve, with_jobs
from tests.unit.streaming.test_query_report import HOT, first_screen, write_report

if TYPE_CHECKING:
    from pathlib import Path

    from streaming.observe.figures import RunFigures

API = f"/api/v1/applications/{APP}"
NO_QUERY = {"/api/v1/applications": RECORDED["/api/v1/applications"], f"{API}/jobs": [
    {"jobId": 0, "description": "count at notebook", "stageIds": [0]}, {"jobId": 1}]}  # fmt: skip
WITH_TOO_MANY_SLOTS = {**RECORDED, f"{API}/allexecutors": [
    {**RECORDED[f"{API}/allexecutors"][0], "maxTasks": 2**63}]}  # fmt: skip


def a_run() -> RunFigures:
    with serve(RECORDED) as served:
        ui = SparkUi(Address.parse(served.url))
        return ui.fetch_run(ui.fetch_batches())


def test_batches_are_found_by_the_descriptions_of_their_jobs():
    run = a_run()
    assert [batch.batch for batch in run.batches] == [4, 12, 13]
    assert [batch.seconds for batch in run.batches] == pytest.approx([1.313, 10.797, 0.795])
    assert [batch.records for batch in run.batches] == [3999, 3998, 3998]


def test_tasks_are_laid_into_the_slots_of_their_executor():
    first = a_run().batches[0]
    on_0 = [(t.slot, t.start_s, t.seconds, t.records) for t in first.tasks if t.slot[0] == "0"]
    assert on_0 == [
        ("0/0", 0.0, 0.43, 15),
        ("0/1", pytest.approx(0.005, abs=1e-3), 0.435, 72),
        (
            "0/0",
            pytest.approx(0.419, abs=1e-3),
            0.319,
            192,
        ),  # free first, if 11 ms too late by the clocks
        ("0/1", pytest.approx(0.431, abs=1e-3), 0.62, 960),
    ]
    assert [t.local for t in a_run().batches[1].tasks] == [True] * 4 + [False] * 2


def test_an_executor_that_has_left_has_no_slot_any_more():
    run = a_run()
    gone = ("0/0", "0/1")
    here = ("1/0", "1/1", "2/0", "2/1")
    assert [batch.slots for batch in run.batches] == [gone + here, gone + here, here]
    assert run.slots == gone + here


def test_what_is_done_is_asked_once():
    with serve(RECORDED) as served:
        ui = SparkUi(Address.parse(served.url))
        for _ in range(2):
            ui.fetch_run(ui.fetch_batches())
    assert sum(path.endswith("taskList") for path in served.paths) == 3


def test_tasks_of_batches_that_are_shown_no_more_are_let_go():
    """The live view kept those of all batches since it was started."""
    with serve(RECORDED) as served:
        ui = SparkUi(Address.parse(served.url))
        for batch in ui.fetch_batches():
            ui.fetch_run([batch])
            assert set(ui._cache) == set(batch.stage_ids)


@pytest.mark.parametrize(
    "description",
    [
        pytest.param("id = a-1\nrunId = b-2\nbatch = 7", id="without a name"),
        pytest.param("id = a-1<br/>runId = b-2<br/>batch = 7", id="of an older Spark"),
        pytest.param("Delta: id = a-1\nrunId = b-2\nbatch = 7: Filtering files", id="Delta's"),
        pytest.param("a &lt; b<br/>id = a-1<br/>runId = b-2<br/>batch = 7", id="escaped"),
    ],
)
def test_descriptions_of_jobs(description):
    with serve(with_jobs(description, "some other job")) as served:
        ui = SparkUi(Address.parse(served.url))
        (batch,) = ui.fetch_batches()
        assert ui.fetch_run([batch]).batches[0].tasks == ()  # the UI no longer has the stage
    assert (batch.query_id, batch.batch) == ("a-1", 7)
    assert batch.label == ("a < b" if "&lt;" in description else "a-1")


def test_a_batch_is_one_whatever_stands_before_the_description_of_a_job():
    batch = "id = a-1\nrunId = b-2\nbatch = 7"
    with serve(with_jobs(f"upsert: orders\n{batch}", f"orders\n{batch}")) as served:
        (only,) = SparkUi(Address.parse(served.url)).fetch_batches()
    assert (only.label, only.batch) == ("orders", 7)


def test_who_does_not_answer_is_no_cause_of_itself():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(WebError) as silent:
            SparkUi(Address.parse(f"http://127.0.0.1:{closed.getsockname()[1]}"))
    assert silent.value.__cause__ is not silent.value


def test_without_executors_the_driver_reads():
    driver = {"id": "driver", "hostPort": "h:1", "totalCores": 4, "maxTasks": 4}
    with serve({**RECORDED, f"{API}/allexecutors": [driver]}) as served:
        executors = SparkUi(Address.parse(served.url)).fetch_executors()
        assert [(e.executor, e.slots) for e in executors] == [("driver", 4)]


def test_the_report_tells_the_load_of_the_slots(tmp_path):
    with serve(RECORDED) as served:
        words = write_report(tmp_path, served.url.removeprefix("http://"))
    assert "Query orders" in words
    # The UI alone tells what is wrong, too.
    assert first_screen(words).startswith("Uneven slots 1.60 times the ideal, measured Action ")
    assert "the last 3 batches (median duration 1.31 s), the busiest slot" in words
    assert "90% of reading tasks ran on a preferred executor" in words  # 19 of 21
    assert "When each slot worked, batch 13" in words
    assert "Time per record, by executor" in words
    assert "Lag is unknown: also give the metrics log" in words
    assert f"assignor-bridge tests ({APP}, Spark 4.0.4)" in words


def test_with_the_checkpoint_the_replay_has_the_executors_of_the_ui(tmp_path):
    folder = write_checkpoint(tmp_path / "c", HOT)
    (folder / "metadata").write_text(f'{{"id":"{QUERY_ID}"}}')
    with serve(RECORDED) as served:
        words = write_report(tmp_path, folder, served.url)
    assert "(assumed)" not in words
    assert "also give the address of Spark's UI" not in words


def test_a_history_server_has_applications_side_by_side(tmp_path):
    other = {"id": "app-2", "name": "other", "attempts": [{"attemptId": "1"}]}
    both = [*RECORDED["/api/v1/applications"], other]
    with serve({**RECORDED, "/api/v1/applications": both}) as served:
        assert "Query orders" in write_report(tmp_path, f"{served.url}/history/{APP}/jobs/")
        assert SparkUi(Address.parse(f"{served.url}/history/app-2")).application_path == "app-2/1"


def test_an_attempt_in_the_address_is_the_one_that_is_read(tmp_path):
    """It was the newest one, whichever was named."""
    tries = [{"attemptId": "2"}, {"attemptId": "1"}]
    with serve({"/api/v1/applications": [{"id": "app", "name": "x", "attempts": tries}]}) as served:
        found = [
            SparkUi(Address.parse(f"{served.url}/history/app{path}")).application_path
            for path in ("", "/1/jobs/", "/2")
        ]
        assert found == ["app/2", "app/1", "app/2"]
        with pytest.raises(OptionError, match="the application has no attempt 3"):
            SparkUi(Address.parse(f"{served.url}/history/app/3"))


def test_a_password_is_sent_and_never_told(tmp_path, capsys):
    with serve(RECORDED) as served:
        url = served.url.replace("://", "://user:s3cr%20t@")
        words = write_report(tmp_path, url)
    assert served.authorizations == {"Basic dXNlcjpzM2NyIHQ="}
    assert "s3cr" not in words + (tmp_path / "report.html").read_text()
    assert main.run(["report", url, "--output", str(tmp_path / "r.html")]) == 1  # it is gone
    assert main.run(["report", "http://user:s3cr@[::"]) == 2
    assert "s3cr" not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("answers", "path", "code", "message"),
    [
        pytest.param({}, "", 2, "is not Spark's UI: a running driver", id="another server"),
        pytest.param({ELSE: "<html>"}, "", 2, "is not Spark's UI", id="HTML everywhere"),
        pytest.param({ELSE: {"a": 1}}, "", 2, "is not Spark's UI", id="another API"),
        pytest.param(WITH_TOO_MANY_SLOTS, "", 2, "is not Spark's UI", id="2**63 slots"),
        pytest.param(NO_QUERY, "", 2, "shows no streaming query", id="no streaming query"),
        pytest.param(RECORDED, "/history/app-9", 2, f"has no application app-9: give the address "
                     f"of one application, such as http://127.0.0.1:PORT/history/ID (IDs: {APP})",
                     id="app"),
        pytest.param({"/api/v1/applications": []}, "", 2, "lists no applications", id="empty"),
        pytest.param(with_jobs(*(f"{q}\nid = {q}\nrunId = {q}\nbatch = 0" for q in "ab")), "", 2,
                     "has 2 queries: choose one by name or ID with --query: a, b", id="two"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("words", [["report"], ["report", "--live"]], ids=["page", "live"])
def test_what_is_not_sparks_ui_is_one_line(
    words: list[str], answers: dict[str, Any], path: str, code: int, message: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with serve(answers) as served:
        assert main.run([*words, served.url + path]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in re.sub(r"127.0.0.1:\d+", "127.0.0.1:PORT", err)
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["report"], ["report", "--live"]], ids=["page", "live"])
def test_a_refused_connection_is_one_line(words, capsys):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        assert main.run([*words, url]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"assignor: {url}")
    assert "does not respond (connection refused): check that it is running" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("address", ["ftp://h", "http://", "http://h:x"])
def test_no_address_is_one_line(address, capsys):
    assert main.run(["report", "--live", address]) == 2
    assert "http://HOST:PORT is expected" in capsys.readouterr().err


def test_a_failing_server_is_told_with_its_status():
    with pytest.raises(WebError, match="returned HTTP 404"), serve({}) as served:
        Address.parse(served.url).get("/x")


def test_a_password_is_not_for_whoever_it_is_redirected_to():
    with serve({ELSE: "there"}) as other, serve({}, redirect=other.url) as served:
        address = Address.parse(served.url.replace("://", "://user:secret@"))
        assert address.get("/x") == b"there"
    assert len(served.authorizations - {None}) == 1
    assert other.authorizations == {None}


def test_queries_of_one_name_are_chosen_by_id(tmp_path, capsys):
    """The same job, begun anew with another checkpoint."""
    jobs = [f"orders\nid = {q}\nrunId = {q}\nbatch = 0" for q in ("a-1", "b-2")]
    output = str(tmp_path / "r.html")
    with serve(with_jobs(*jobs)) as served:
        assert main.run(["report", served.url, "--query", "orders"]) == 2
        assert main.run(["report", served.url, "--query", "b-2", "--output", output]) == 0
    assert (
        "has 2 queries named 'orders': choose one by ID with --query: orders (a-1), orders (b-2)"
        in capsys.readouterr().err
    )


def test_of_a_batch_whose_records_are_known_the_stage_that_read_them_counts():
    with serve(RECORDED) as served:
        ui = SparkUi(Address.parse(served.url))
        last = ui.fetch_batches()[-1]
        right, wrong = (ui.fetch_run([last], {last.batch: count}) for count in (3_998, 3_997))
    assert right.batches[0].records == 3_998
    assert wrong.batches[0].tasks == ()

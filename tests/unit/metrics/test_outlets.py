"""Tests of the endpoint, the textfile, and the log, and of their errors."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import socket
import stat
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import MetricsHandler
from pydantic import ValidationError

from streaming.metrics import outlets
from streaming.metrics.attach import Exporter
from streaming.metrics.board import Board
from streaming.metrics.config import MetricsConfig
from streaming.metrics.names import METRICS
from streaming.metrics.outlets import Log, MetricsError, Textfile
from streaming.redaction import Redactor
from tests.support.metric_reference import format_table
from tests.support.spark_tools import wait_until
from tests.unit.metrics.samples import QUERY, RUN, flush, text

ROOT = Path(__file__).parents[3]
EVENT = text(start={"0": 0}, end={"0": 10}, latest={"0": 30}, strategy="sticky")


def scrape(exporter: Exporter) -> str:
    url = f"http://127.0.0.1:{exporter.port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read().decode()


def test_all_outlets_report_a_batch(tmp_path):
    config = MetricsConfig(
        port=0, address="127.0.0.1", textfile=tmp_path / "a.prom", log_file=tmp_path / "log.jsonl"
    )
    with Exporter(config) as exporter:
        exporter.record_progress(EVENT)
        exporter.record_progress(EVENT)  # reported twice, logged once
        flush(exporter)
        assert "kafka_consumergroup_group_sum_lag{" in scrape(exporter)
        exporter.record_end(QUERY, RUN, "it broke\n  at some.Java")
        flush(exporter)
        assert "kafka_" not in scrape(exporter)
    assert "assignor_info{" in (tmp_path / "a.prom").read_text()  # the last query's metrics stay
    assert [p.name for p in tmp_path.iterdir() if p.suffix == ".prom"] == ["a.prom"]
    batch, ended = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    assert batch["progress"] == json.loads(EVENT)
    del batch["progress"]
    assert batch == {
        "timestamp": 1795262400.5, "event": "batch", "query": "orders",
        "queryId": QUERY, "runId": RUN, "batch": 1, "rows": 10, "seconds": 0.75,
        "rowsPerSecond": 40.0, "lag": 30, "maxLag": 30, "heldBack": 20,
        "sources": [{"source": 0, "assignor.strategy": "sticky"}],
    }  # fmt: skip
    assert ended == {"event": "ended", "queryId": QUERY, "runId": RUN, "error": "it broke"}


def test_lag_is_measured_after_a_batch_and_while_others_have_events(tmp_path, monkeypatch):
    """If each event restarted the timer, lag would not be measured next to short batches."""
    monkeypatch.setattr("streaming.metrics.attach._LAG_INTERVAL_S", 0.05)
    log = tmp_path / "log.jsonl"
    unread = [7]

    def log_ends(_query_id: str | None) -> dict[str, dict[str, dict[str, dict[str, int]]]]:
        return {QUERY: {"0": {"t": {"0": 10 + unread[-1]}}}}

    def grows() -> bool:
        for _ in range(10):
            exporter.record_progress(text(start={"0": 0}, end={"0": 1}, query_id="b", name="b"))
        return 'group="orders"} 9.0' in scrape(exporter)

    with Exporter(MetricsConfig(port=0, log_file=log), fetch_log_ends=log_ends) as exporter:
        exporter.record_progress(EVENT)
        flush(exporter)
        unread.append(9)
        wait_until(grows, "the lag of the query without events")
    line = json.loads(log.read_text().splitlines()[0])
    assert (line["lag"], line["maxLag"], line["heldBack"]) == (7, 7, 20)
    assert line["progress"]["sources"][0]["logEndOffset"] == {"t": {"0": 17}}


def test_the_log_on_stderr_has_no_progress(capsys):
    with Exporter(MetricsConfig(log="json")) as exporter:
        exporter.record_progress(EVENT)
    line = json.loads(capsys.readouterr().err)
    assert (line["lag"], line["heldBack"]) == (30, 20)
    assert "progress" not in line


def test_errors_of_queries_are_logged_without_secrets(tmp_path):
    """Secrets are in Spark's error, in the sink's error, and in the progress's description."""
    redact = Redactor()
    redact.learn_variable("SECRETX", "topsecret99")
    event = json.loads(EVENT)
    event["sink"] = {"description": "Files[s3a://AKIA:S3SECRET@bucket/topsecret99]"}
    event["sources"][0]["metrics"]["assignor.fallbackReason"] = "no topsecret99"
    texts = {
        "a": "Job aborted: [USER_RAISED_EXCEPTION] no topsecret99 here\n\tat some.Java",
        "b": "py4j.Py4JException: Return Message: Traceback (most recent call last):\n  File x\n"
        "    topsecret99()\nValueError: no topsecret99\n\n\tat py4j.Protocol",
    }
    for why in (None, lambda query, text: f"{query} by topsecret99"):
        log = tmp_path / f"{why is None}.jsonl"
        with Exporter(MetricsConfig(log_file=log), redact, why) as exporter:
            exporter.record_progress(json.dumps(event))
            for query, text_ in texts.items():
                exporter.record_end(query, RUN, text_)
        assert "topsecret99" not in log.read_text()
        assert "S3SECRET" not in log.read_text()
        batch, *ended = map(json.loads, log.read_text().splitlines())
        assert batch["progress"]["sources"][0]["endOffset"] == event["sources"][0]["endOffset"]
        assert [line["error"] for line in ended] == (
            ["Job aborted: [USER_RAISED_EXCEPTION] no ${SECRETX} here", "ValueError: no ${SECRETX}"]
            if why is None
            else ["a by ${SECRETX}", "b by ${SECRETX}"]
        )


@pytest.mark.parametrize(("readable_by", "mode"), [(None, 0o600), ("group", 0o640), ("all", 0o644)])
def test_only_the_owner_may_read_files_by_default(readable_by, mode, tmp_path):
    files = {"textfile": tmp_path / "a.prom", "log_file": tmp_path / "log.jsonl"}
    options = {} if readable_by is None else {"readable_by": readable_by}
    with Exporter(MetricsConfig(**files, **options)) as exporter:
        exporter.record_progress(EVENT)
    assert {path.stat().st_mode & 0o777 for path in files.values()} == {mode}
    assert sorted(tmp_path.iterdir()) == sorted(files.values())


def test_new_files_are_never_readable_by_others(tmp_path, monkeypatch):
    """A process that opened a file before its mode is set could read all later lines."""
    earlier_modes = []
    set_mode = os.fchmod

    def record_mode(descriptor: int, mode: int) -> None:
        earlier_modes.append(os.fstat(descriptor).st_mode & 0o777)
        set_mode(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", record_mode)
    umask = os.umask(0)
    try:
        config = MetricsConfig(
            textfile=tmp_path / "a.prom", log_file=tmp_path / "a.log", readable_by="all"
        )
        with Exporter(config) as exporter:
            exporter.record_progress(EVENT)
    finally:
        os.umask(umask)
    assert len(earlier_modes) >= 2
    assert set(earlier_modes) == {0o600}


def test_a_planted_link_is_not_followed(tmp_path):
    """The temporary file of the textfile once had a predictable name."""
    other = tmp_path / "others"
    other.write_text("as it was")
    planted = tmp_path / f"a.prom.{os.getpid()}.{threading.get_ident()}"
    planted.symlink_to(other)
    Textfile(Board("local"), tmp_path / "a.prom", 0o600).write()
    assert other.read_text() == "as it was"
    assert planted.is_symlink()
    assert (tmp_path / "a.prom").is_file()


def test_an_existing_log_keeps_its_mode(tmp_path):
    log = tmp_path / "log.jsonl"
    log.touch()
    log.chmod(0o664)
    with Exporter(MetricsConfig(log_file=log)) as exporter:
        exporter.record_progress(EVENT)
    assert log.stat().st_mode & 0o777 == 0o664


@pytest.mark.parametrize("path", ["/", "/x", "/../../etc/passwd", "/metrics/x"])
def test_the_endpoint_serves_only_its_own_path(path):
    with Exporter(MetricsConfig(port=0)) as exporter:
        exporter.record_progress(EVENT)
        flush(exporter)
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(f"http://127.0.0.1:{exporter.port}{path}", timeout=10)
        raised.value.close()
        assert raised.value.code == 404
        assert "kafka_consumergroup_group_sum_lag{" in scrape(exporter)


def test_the_endpoint_is_local_by_default():
    with Exporter(MetricsConfig(port=0)) as exporter:
        assert exporter._endpoint is not None
        assert exporter._endpoint._server.server_address[0] == "127.0.0.1"


def test_slow_and_silent_clients_are_dropped_and_block_no_others(monkeypatch):
    monkeypatch.setattr("streaming.metrics.outlets._REQUEST_TIMEOUT_S", 0.5)
    with contextlib.ExitStack() as open_, Exporter(MetricsConfig(port=0)) as exporter:
        exporter.record_progress(EVENT)
        flush(exporter)
        address = ("127.0.0.1", exporter.port)
        silent = [open_.enter_context(socket.create_connection(address, 5)) for _ in range(200)]
        assert "kafka_" in scrape(exporter)
        slow = open_.enter_context(socket.create_connection(address, 10))
        with contextlib.suppress(OSError):  # sending single bytes does not extend the limit
            for _ in range(400):
                slow.sendall(b"G")
                slow.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    if not slow.recv(1):
                        break
            else:
                pytest.fail("the slow client was not dropped")
        for client in silent:
            assert client.recv(1) == b""


def test_a_port_in_use_is_a_metrics_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(MetricsError, match=rf"metrics port {port} on 127.0.0.1 is in use"):
            Exporter(MetricsConfig(port=port, address="127.0.0.1"))


def test_an_address_of_another_machine_is_a_metrics_error():
    with pytest.raises(MetricsError, match=r"cannot be served on 192.0.2.1:0"):
        Exporter(MetricsConfig(port=0, address="192.0.2.1"))


@pytest.mark.parametrize("key", ["textfile", "log_file"])
def test_a_missing_folder_is_a_metrics_error(key, tmp_path):
    with pytest.raises(MetricsError, match=rf"metrics.{key} .* its folder does not exist"):
        Exporter(MetricsConfig(**{key: tmp_path / "no" / "m.prom"}))


def test_a_long_or_renamed_log_continues_in_a_new_file(tmp_path, monkeypatch):
    """Without rotation it fills the disk; after `logrotate` it would fill a deleted file."""
    path, older = tmp_path / "log", tmp_path / "log.1"
    log = Log(path, 0o640)
    log.write({"n": 1})
    path.rename(tmp_path / "rotated")
    log.write({"n": 2})
    assert path.read_text() == '{"n":2}\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    monkeypatch.setattr(outlets, "_MAX_LOG_BYTES", 20)
    for n in range(3, 8):
        log.write({"n": n})
    log.close()
    assert (older.read_text(), path.read_text()) == (
        '{"n":2}\n{"n":3}\n{"n":4}\n',
        '{"n":5}\n{"n":6}\n{"n":7}\n',
    )


def test_a_log_of_two_jobs_is_rotated_once(tmp_path, monkeypatch):
    path = tmp_path / "log"
    logs = [Log(path, 0o600), Log(path, 0o600)]
    monkeypatch.setattr(outlets, "_MAX_LOG_BYTES", 20)
    for n in range(3):
        logs[0].write({"n": n})
    logs[0].write({"n": 3})
    logs[1].write({"n": 4})
    for log in logs:
        log.close()
    assert (tmp_path / "log.1").read_text() == '{"n":0}\n{"n":1}\n{"n":2}\n'
    assert path.read_text() == '{"n":3}\n{"n":4}\n'


def test_a_linked_log_keeps_its_mode_and_a_device_is_never_rotated(tmp_path, monkeypatch):
    monkeypatch.setattr(outlets, "_MAX_LOG_BYTES", 5)
    path, link = tmp_path / "log", tmp_path / "link"
    link.symlink_to(path)
    linked, device = Log(link, 0o644), Log(Path("/dev/stderr"), 0o600)
    for n in range(3):
        linked.write({"n": n})
        device.write({"n": n})
    linked.close()
    device.close()
    assert (path.read_text(), (tmp_path / "log.1").read_text()) == ('{"n":2}\n', '{"n":1}\n')
    assert [stat.S_IMODE(p.stat().st_mode) for p in (path, tmp_path / "log.1")] == [0o644, 0o644]
    assert link.is_symlink()
    assert device._file is not None
    assert not device._file._can_rotate


def test_a_log_follows_its_link_to_a_new_file(tmp_path):
    """A link to the current day's log was once followed to the file of the day before."""
    link = tmp_path / "current"
    link.symlink_to(tmp_path / "25")
    log = Log(link, 0o600)
    log.write({"n": 1})
    link.unlink()
    link.symlink_to(tmp_path / "26")
    log.write({"n": 2})
    log.close()
    assert [(tmp_path / day).read_text() for day in ("25", "26")] == ['{"n":1}\n', '{"n":2}\n']


def test_a_log_with_circular_links_is_a_metrics_error(tmp_path):
    link = tmp_path / "log"
    link.symlink_to("log")
    with pytest.raises(MetricsError, match="cannot be written"):
        Log(link, 0o600)


@pytest.mark.parametrize(
    ("target", "is_device"),
    [
        pytest.param("/dev/stdout", True, id="standard output"),
        pytest.param("/proc/self/fd/1", True, id="a descriptor"),
        pytest.param("/dev/shm/progress.log", False, id="memory is a file system"),  # noqa: S108
        pytest.param("next", True, id="a link to a link"),
        pytest.param("file", False, id="a file"),
        pytest.param("link", False, id="a ring"),
    ],
)
def test_a_link_to_a_device_is_a_device(tmp_path, target, is_device):
    """In containers the log is often a link to standard output; that once stopped the run."""
    (tmp_path / "next").symlink_to("/dev/stderr")
    link = tmp_path / "link"
    link.symlink_to(target)
    assert outlets._is_device(link) is is_device


def test_a_log_is_written_through_a_link_to_a_pipe(tmp_path):
    link = tmp_path / "progress.log"
    link.symlink_to("/dev/stdout")
    program = (
        "import sys, pathlib; from streaming.metrics.outlets import Log; "
        "log = Log(pathlib.Path(sys.argv[1]), 0o600); log.write({'n': 1}); log.close()"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program, str(link)], capture_output=True, text=True, check=False
    )
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, '{"n":1}\n', "")


def test_a_log_that_cannot_be_rotated_continues(tmp_path, monkeypatch):
    monkeypatch.setattr(outlets, "_MAX_LOG_BYTES", 5)
    path = tmp_path / "log"
    log = Log(path, 0o600)
    (tmp_path / "log.1" / "folder").mkdir(parents=True)
    for n in range(3):
        log.write({"n": n})
    log.close()
    assert path.read_text() == '{"n":0}\n{"n":1}\n{"n":2}\n'


def test_later_failures_are_logged_once_and_stop_nothing(tmp_path, caplog):
    folder = tmp_path / "there"
    folder.mkdir()
    redact = Redactor()
    redact.learn_variable("PLACE", str(folder))
    with (
        caplog.at_level(logging.WARNING),
        Exporter(
            MetricsConfig(port=0, address="127.0.0.1", textfile=folder / "a.prom"), redact
        ) as exporter,
    ):
        folder.rmdir()
        exporter.record_progress(EVENT)
        exporter.record_progress("no JSON")
        exporter.record_progress(EVENT)
        flush(exporter)
        assert "kafka_" in scrape(exporter)
    assert len(caplog.records) == 1
    assert "${PLACE}" in caplog.text
    assert str(folder) not in caplog.text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
def test_a_full_disk_stops_neither_the_program_nor_the_textfile(tmp_path, caplog):
    config = MetricsConfig(log_file=Path("/dev/full"), textfile=tmp_path / "a.prom")
    with caplog.at_level(logging.WARNING), Exporter(config) as exporter:
        exporter.record_progress(EVENT)
        exporter.record_progress(EVENT)
    assert "kafka_" in (tmp_path / "a.prom").read_text()
    assert [record.getMessage() for record in caplog.records] == [
        "metrics could not be updated; later failures are not logged: "
        "[Errno 28] No space left on device"
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"textfile": "a.txt"}, "must end in .prom", id="node exporter reads .prom"),
        pytest.param({"prot": 1}, "prot", id="unknown key"),
        pytest.param({"port": 70_000}, "65535", id="no port"),
        pytest.param({"log": "text"}, "json", id="json only"),
    ],
)
def test_an_invalid_config_is_rejected(options, message):
    with pytest.raises(ValidationError, match=message):
        MetricsConfig(**options)


def test_the_docs_list_all_metrics():
    """`python -m tests.support.metric_reference` prints the table."""
    assert format_table() in (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


def test_each_metric_of_the_dashboard_exists():
    text_ = (ROOT / "docs" / "grafana" / "assignor-bridge.json").read_text(encoding="utf-8")
    board = json.loads(text_)
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    expressions += [annotation["expr"] for annotation in board["annotations"]["list"]]
    variables = [variable["query"] for variable in board["templating"]["list"]]
    expressions += [query["query"] for query in variables if isinstance(query, dict)]
    used = set(re.findall(r"\b(?:kafka|spark_streaming|assignor)_\w+", " ".join(expressions)))
    assert used <= set(METRICS)
    assert {"kafka_consumergroup_group_lag", "kafka_consumergroup_group_lag_seconds",
            "assignor_imbalance_ratio", "assignor_moved_partitions_total",
            "assignor_locality_hit_ratio", "spark_streaming_latency_seconds",
            "assignor_held_back_records", "assignor_held_back_info"} <= used  # fmt: skip
    assert all(panel["description"] for panel in panels)
    assert all(panel["fieldConfig"]["defaults"]["thresholds"]["steps"] for panel in panels)
    assert not any(panel["fieldConfig"]["overrides"] for panel in panels), "one unit an axis"
    assert "freshness" in panels[0]["targets"][0]["expr"]
    pages = re.findall(r"docs/(\S+\.md)", " ".join(panel["description"] for panel in panels))
    assert all((ROOT / "docs" / page).is_file() for page in pages)


def test_clients_above_the_limit_are_closed_and_start_no_thread(monkeypatch):
    monkeypatch.setattr("streaming.metrics.outlets._MAX_CLIENTS", 3)
    monkeypatch.setattr(
        "streaming.metrics.outlets._REQUEST_TIMEOUT_S", 60.0
    )  # so that none times out
    with contextlib.ExitStack() as open_, Exporter(MetricsConfig(port=0)) as exporter:
        address = ("127.0.0.1", exporter.port)
        before = threading.active_count()
        silent = [open_.enter_context(socket.create_connection(address, 10)) for _ in range(20)]
        for client in silent[3:]:  # the first three keep their threads
            assert client.recv(1) == b""
        assert threading.active_count() - before <= 3
        exporter.record_progress(EVENT)  # events are still handled
        flush(exporter)
        for client in silent:
            client.close()
        wait_until(lambda: _can_scrape(exporter), "a response once a thread is free")


def test_a_client_that_does_not_read_its_response_is_dropped(monkeypatch):
    monkeypatch.setattr("streaming.metrics.outlets._REQUEST_TIMEOUT_S", 60.0)
    monkeypatch.setattr("streaming.metrics.outlets._RESPONSE_TIMEOUT_S", 0.5)

    def send_much(handler: MetricsHandler) -> None:
        handler.wfile.write(b"x" * 50_000_000)

    monkeypatch.setattr("streaming.metrics.outlets._Handler.do_GET", send_much)
    with Exporter(MetricsConfig(port=0)) as exporter, socket.socket() as client:
        assert exporter._endpoint is not None
        free_threads = exporter._endpoint._server._free_threads
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", exporter.port))
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        wait_until(lambda: free_threads._value == 255, "the client to have a thread")
        wait_until(lambda: free_threads._value == 256, "its thread to be free again", 30)


def _can_scrape(exporter: Exporter) -> bool:
    with contextlib.suppress(OSError):
        return "kafka_" in scrape(exporter)
    return False

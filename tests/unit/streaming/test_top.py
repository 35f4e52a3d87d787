"""`assignor report --live`: frames of recorded figures, and keys in a real terminal."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from unittest.mock import MagicMock

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from rich.console import Console

from streaming.cli import main
from streaming.metrics.board import Board
from streaming.observe.query_progress import read_progress
from streaming.observe.scrape import read_endpoint
from streaming.report import screen as top_screen
from tests.unit.metrics.samples import progress
from tests.unit.streaming.served import ELSE, QUERY_ID, RECORDED, serve, with_jobs

#: The command line in a session whose terminal is its stdin, so that Ctrl-C arrives as in a shell.
_IN_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from streaming.cli.main import main
main(sys.argv[1:])
"""
OURS = {"strategy": "lag-aware-sticky", "tasks": "4", "movedPartitions": "3", "imbalance": "0.027",
        "crossZoneShare": "0.0312",
        "freshnessSeconds": "0.84", "freshnessSecondsMax": "2.5",
        "admittedRecords": "1234", "heldBackBy": "seconds"}  # fmt: skip


def exposition(*names: str, commit_group: str | None = None) -> str:
    """What the endpoint serves when each query has left 60 and 5 records in two partitions."""
    board = Board("kafka")
    latest = {"0": 100, "1": 14, "2": 7}
    for name in names:
        group = {"commitGroup": commit_group.format(name=name)} if commit_group else {}
        for batch in (12, 13):
            event = progress(
                batch, name=name, query_id=QUERY_ID if name == "orders" else name,
                second=10 * batch, start={"0": batch, "1": 0, "2": 0},
                end={"0": 40, "1": 9, "2": 7}, latest=latest, **OURS, **group,
            )  # fmt: skip
            event["sources"][0]["logEndOffset"] = {"t": latest}
            board.update(read_progress(event))
    registry = CollectorRegistry()
    registry.register(board)
    return generate_latest(registry).decode()


def top(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main.run(["report", "--live", "--once", *arguments]) == 0
    return re.sub(" {2,}", " | ", capsys.readouterr().out)


def in_terminal(terminal: int, url: str, interval_s: str) -> subprocess.Popen[bytes]:
    """Start the live view with a terminal of 100 columns."""
    command = [sys.executable, "-c", _IN_TERMINAL, "report", "--live", url]
    return subprocess.Popen(
        [*command, "--interval", interval_s], stdin=terminal, stdout=terminal, stderr=terminal,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"},
    )  # fmt: skip


def test_both_addresses_make_a_whole_frame(capsys):
    with serve(RECORDED) as ui, serve({"/metrics": exposition("orders")}) as endpoint:
        out = top(capsys, endpoint.url, ui.url)
    for words in (
        "orders | batch 13 | assignor-bridge tests (app-20261121162357-0000",
        "lag 65 in 2 of 3 partitions",
        "t-0 | 60 | ", "t-1 | 5 | ", "t-2 | 0 | 0 s | ",
        "4 slots, 3 batches, busiest 1.39 x mean",
        "1/0 | ████████████ | 3.4 s",
        "13 | 0.79 | 4.0k | 4 | 1.27 | 100%",
        "12 | 10.80 | 4.0k | 6 | 2.06 | 67%",
        "assignor: lag-aware-sticky · 4 tasks · 6 moved · 2.7% over ideal",
        "zones: 3.1% of the bytes came from other racks",
        "freshness: newest record 0.8 s old · oldest 2.5 s",
        "admission: 1,234 records in the last batch, 65 held back by seconds",
    ):  # fmt: skip
        assert words in out
    assert "0/0" not in out  # of the executor that has left


def test_a_narrow_terminal_has_all_figures_of_the_planner():
    """The line ended in "…" at 80 columns."""
    figures = {name: 0.5 for name, _ in top_screen._FIGURES["assignor"]}
    strategies = {"0": "lag-aware-sticky"}
    metrics = MagicMock(sources={"0": figures}, strategies=strategies, held_by={})
    screen = io.StringIO()
    Console(width=60, file=screen).print(*top_screen._planner(metrics), sep="\n")
    out = " ".join(screen.getvalue().split())
    assert out.startswith("assignor: lag-aware-sticky · ")
    assert out.endswith("· plan 0.500 s · 0 fallbacks")


def test_the_ui_alone_knows_no_lag(capsys):
    with serve(RECORDED) as ui:
        out = top(capsys, ui.url)
    assert "lag: unknown (yet)" in out
    assert "4 slots" in out


def test_the_endpoint_alone_knows_no_slots(capsys):
    with serve({ELSE: exposition("orders", "other")}) as endpoint:
        out = top(capsys, f"{endpoint.url}/metrics", "--query", "other")
    assert out.startswith("other | batch 13")
    assert "slots: also give the address of Spark's" in out
    assert "13 | 0.75" in out


def test_a_thousand_partitions_are_cut_to_the_worst():
    board = Board("kafka")
    ends = {str(p): p for p in range(1000)}
    begin = dict.fromkeys(ends, 0)
    board.update(read_progress(progress(start=begin, end=begin, latest=ends)))
    registry = CollectorRegistry()
    registry.register(board)
    with serve({ELSE: generate_latest(registry).decode()}) as endpoint:
        command = [sys.executable, "-m", "streaming.cli.main", "report", "--live", endpoint.url]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    lines = done.stdout.splitlines()
    assert len(lines) < 45
    assert [line.split()[0] for line in lines if line.startswith("t-")][:2] == ["t-999", "t-998"]


def test_lag_of_a_group_that_is_named_otherwise_is_found():
    metrics = read_endpoint(exposition("orders", commit_group="billing"), None, "x")
    assert metrics is not None
    assert metrics.lag == {("t", 0): 60, ("t", 1): 5, ("t", 2): 0}


def test_before_the_first_batch_the_ui_is_shown_without_lag(capsys):
    with serve({ELSE: ""}) as endpoint, serve(RECORDED) as ui:
        out = top(capsys, endpoint.url, ui.url)
    assert "lag: unknown (yet)" in out
    assert "4 slots" in out
    assert "assignor: " not in out


def test_lag_of_several_other_groups_is_unknown(capsys):
    """Which of them is the query's is not said by the endpoint."""
    text = exposition("orders", "other", commit_group="of {name}")
    with serve({ELSE: text}) as endpoint:
        out = top(capsys, endpoint.url, "--query", "orders")
    assert "lag: unknown; of several groups" in out


def test_an_address_where_nothing_answers_is_one_line(capsys):
    assert main.run(["report", "--live", "--once", "http://127.0.0.1:1"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "127.0.0.1:1" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        pytest.param([{ELSE: ""}], "has no streaming query", id="before the first batch"),
        pytest.param([{ELSE: "# HELP x\nbad{"}], "serves no metrics", id="broken"),
        pytest.param([{ELSE: exposition("orders", "b")}], "has 2 queries: choose one by name",
                     id="two queries"),
        pytest.param([RECORDED, RECORDED], "is a second Spark UI", id="two UIs"),
        pytest.param([{ELSE: exposition("orders")}] * 2, "a second endpoint", id="two endpoints"),
        pytest.param([{ELSE: exposition("b")}, RECORDED], "has no query 'b'", id="other queries"),
    ],
)  # fmt: skip
def test_misuse_is_one_line(answers, message, capsys):
    with serve(answers[0]) as first, serve(answers[-1]) as second:
        urls = [first.url, second.url] if len(answers) > 1 else [first.url]
        assert main.run(["report", "--live", *urls]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("key", "code"), [pytest.param(b"q", 0, id="q"), pytest.param(b"\x03", 130, id="Ctrl-C")]
)
def test_it_is_live_until_a_key_ends_it(key, code):
    """A query that has just begun, then runs, then is gone: what was known stays."""
    begun = with_jobs("orders\nid = a-1\nrunId = b-2\nbatch = 7")
    answers = dict(begun)
    ours, theirs = pty.openpty()
    with serve(answers) as ui:
        process = in_terminal(theirs, ui.url, "0.2")
        os.close(theirs)
        screen = _Screen(ours)
        screen.shows("batch 7")
        answers.update(with_jobs("orders\nid = a-1\nrunId = b-2\nbatch = 8"))
        screen.shows("batch 8")
        answers.clear()
        screen.shows("answers 404")
        os.write(ours, key)
        screen.drain(process)
        assert process.wait(20) == code
    os.close(ours)


def test_who_cannot_wait_after_ctrl_c_gets_his_terminal_back():
    """The second signal ended the process at once: no echo, and the screen of `top` stayed."""
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    with serve(RECORDED) as ui:
        process = in_terminal(theirs, ui.url, "60")
        screen = _Screen(ours)
        screen.shows("last batches")
        os.write(ours, b"\x03")
        process.terminate()
        screen.shows("\x1b[?1049l")
        assert process.wait(20) in {130, 143}  # whichever came first
    assert termios.tcgetattr(theirs) == before
    os.close(theirs)
    os.close(ours)


def test_ctrl_c_ends_it_between_two_frames():
    """Python goes on waiting after a signal: the first one ended `top` with the next frame only."""
    ours, theirs = pty.openpty()
    with serve(RECORDED) as ui:
        process = in_terminal(theirs, ui.url, "600")
        os.close(theirs)
        screen = _Screen(ours)
        screen.shows("last batches")
        screen.rests()
        os.write(ours, b"\x03")
        screen.shows("\x1b[?1049l")
        assert process.wait(20) == 130
    os.close(ours)


class _Screen:
    """What a program has written to a terminal."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._seen = ""

    def shows(self, words: str, limit_s: float = 30) -> None:
        deadline = time.monotonic() + limit_s
        while words not in self._seen:
            assert time.monotonic() < deadline, f"{words!r} is not in {self._seen[-2000:]!r}"
            self._read(0.5)

    def rests(self) -> None:
        """Wait until nothing more is drawn."""
        seen = None
        while seen != self._seen:
            seen = self._seen
            self._read(0.5)

    def drain(self, process: subprocess.Popen[bytes]) -> None:
        """Read to the end, so that the program is not held up."""
        while process.poll() is None and self._read(0.5):
            pass

    def _read(self, limit_s: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], limit_s)
        try:
            self._seen += os.read(self._fd, 65_536).decode("utf-8", "replace") if ready else ""
        except OSError:  # the other end is closed
            return False
        return True


def test_of_a_query_that_has_told_nothing_yet_the_name_is_shown():
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(top_screen.frame(top_screen.LiveFigures("orders"), 30))
    name, *rest = console.export_text().split("\n", 1)
    assert name.strip() == "orders"
    assert "lag: unknown (yet)" in rest[0]


def test_a_failed_admission_and_one_of_everything_are_told():
    everything = {"assignor_admitted_records": 1200.0, "assignor_held_back_records": 0.0}
    assert top_screen._admission({}, "spark") == "failed, Spark's own limits hold"
    assert top_screen._admission(everything, "nothing") == (
        "1,200 records in the last batch, nothing held back"
    )

"""Test `assignor report --live`: frames from recorded figures, and keys in a real terminal."""

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
from streaming.observe.query_progress import parse_progress
from streaming.observe.scrape import parse_query_metrics
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
        "tailShare": "0.45", "tailTasks": "12", "unpredictability": "0.3",
        "freshnessSeconds": "0.84", "freshnessSecondsMax": "2.5",
        "admittedRecords": "1234", "heldBackBy": "seconds"}  # fmt: skip


def exposition(*names: str, commit_group: str | None = None) -> str:
    """Return the endpoint's text when each query has 60 and 5 unread records in two partitions."""
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
            board.update(parse_progress(event))
    registry = CollectorRegistry()
    registry.register(board)
    return generate_latest(registry).decode()


def print_frame(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main.run(["report", "--live", "--once", *arguments]) == 0
    return re.sub(" {2,}", " | ", capsys.readouterr().out)


def start_live(terminal: int, url: str, interval_s: str) -> subprocess.Popen[bytes]:
    """Start the live view in a terminal with 100 columns."""
    command = [sys.executable, "-c", _IN_TERMINAL, "report", "--live", url]
    return subprocess.Popen(
        [*command, "--interval", interval_s], stdin=terminal, stdout=terminal, stderr=terminal,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"},
    )  # fmt: skip


def test_ui_and_endpoint_together_fill_all_parts_of_the_frame(capsys):
    with serve(RECORDED) as ui, serve({"/metrics": exposition("orders")}) as endpoint:
        out = print_frame(capsys, endpoint.url, ui.url)
    for words in (
        "orders | batch 13 | assignor-bridge tests (app-20261121162357-0000",
        "lag 65 in 2 of 3 partitions",
        "t-0 | 60 | ", "t-1 | 5 | ", "t-2 | 0 | 0 s | ",
        "4 slots, 3 batches, busiest 1.39 x mean",
        "1/0 | ████████████ | 3.4 s",
        "13 | 0.79 | 4.0k | 4 | 1.27 | 100%",
        "12 | 10.80 | 4.0k | 6 | 2.06 | 67%",
        "assignor: lag-aware-sticky · 4 tasks · 6 moved · 2.7% over ideal",
        "tail: 45% of the work · 12 tasks for any free slot · task times deviate by 30%",
        "zones: 3.1% of the bytes came from other racks",
        "freshness: newest record 0.8 s old · oldest 2.5 s",
        "admission: 1,234 records in the last batch, 65 held back (limit: seconds)",
    ):  # fmt: skip
        assert words in out
    assert "0/0" not in out  # a slot of the executor that has left


def test_narrow_terminal_shows_all_planner_figures():
    """The line used to be truncated with "…" at 80 columns."""
    figures = {name: 0.5 for name, _ in top_screen._FORMATS_BY_LINE["assignor"]}
    strategies = {"0": "lag-aware-sticky"}
    metrics = MagicMock(values_by_source={"0": figures}, strategies=strategies, held_back_by={})
    screen = io.StringIO()
    Console(width=60, file=screen).print(*top_screen._make_planner_lines(metrics), sep="\n")
    out = " ".join(screen.getvalue().split())
    assert out.startswith("assignor: lag-aware-sticky · ")
    assert out.endswith("· plan 0.500 s · 0 fallbacks")


def test_lag_is_unknown_without_the_endpoint(capsys):
    with serve(RECORDED) as ui:
        out = print_frame(capsys, ui.url)
    assert "lag: unknown; the metrics endpoint" in out
    assert "4 slots" in out


def test_slots_are_unknown_without_the_ui(capsys):
    with serve({ELSE: exposition("orders", "other")}) as endpoint:
        out = print_frame(capsys, f"{endpoint.url}/metrics", "--query", "other")
    assert out.startswith("other | batch 13")
    assert "slots: also give the address of Spark's" in out
    assert "13 | 0.75" in out


def test_only_the_worst_of_a_thousand_partitions_are_shown():
    board = Board("kafka")
    ends = {str(p): p for p in range(1000)}
    begin = dict.fromkeys(ends, 0)
    board.update(parse_progress(progress(start=begin, end=begin, latest=ends)))
    registry = CollectorRegistry()
    registry.register(board)
    with serve({ELSE: generate_latest(registry).decode()}) as endpoint:
        command = [sys.executable, "-m", "streaming.cli.main", "report", "--live", endpoint.url]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    lines = done.stdout.splitlines()
    assert len(lines) < 45
    assert [line.split()[0] for line in lines if line.startswith("t-")][:2] == ["t-999", "t-998"]


def test_lag_is_found_if_the_group_has_another_name_than_the_query():
    metrics = parse_query_metrics(exposition("orders", commit_group="billing"), None, "x")
    assert metrics is not None
    assert metrics.lag == {("t", 0): 60, ("t", 1): 5, ("t", 2): 0}


def test_frame_before_the_first_batch_shows_the_ui_without_lag(capsys):
    with serve({ELSE: ""}) as endpoint, serve(RECORDED) as ui:
        out = print_frame(capsys, endpoint.url, ui.url)
    assert "lag: unknown; the metrics endpoint" in out
    assert "4 slots" in out
    assert "assignor: " not in out


def test_lag_is_unknown_if_several_groups_have_other_names(capsys):
    """The endpoint does not report which group belongs to the query."""
    text = exposition("orders", "other", commit_group="of {name}")
    with serve({ELSE: text}) as endpoint:
        out = print_frame(capsys, endpoint.url, "--query", "orders")
    assert "lag: unknown; no consumer group" in out


def test_unreachable_address_is_reported_in_one_line(capsys):
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
        pytest.param([{ELSE: exposition("orders")}] * 2, "a second metrics endpoint",
                     id="two endpoints"),
        pytest.param([{ELSE: exposition("b")}, RECORDED], "has no query 'b'", id="other queries"),
    ],
)  # fmt: skip
def test_misuse_is_reported_in_one_line(answers, message, capsys):
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
def test_live_view_updates_until_a_key_ends_it(key, code):
    """A query starts, runs its next batch, and ends; the last frame stays on the screen."""
    answers = dict(with_jobs("orders\nid = a-1\nrunId = b-2\nbatch = 7"))
    ours, theirs = pty.openpty()
    with serve(answers) as ui:
        process = start_live(theirs, ui.url, "0.2")
        os.close(theirs)
        screen = _Screen(ours)
        screen.wait_for("batch 7")
        answers.update(with_jobs("orders\nid = a-1\nrunId = b-2\nbatch = 8"))
        screen.wait_for("batch 8")
        answers.clear()
        screen.wait_for("returned HTTP 404")
        os.write(ours, key)
        screen.drain(process)
        assert process.wait(20) == code
    os.close(ours)


def test_second_signal_restores_the_terminal():
    """It used to end the process at once, which left the live screen on and the echo off."""
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    with serve(RECORDED) as ui:
        process = start_live(theirs, ui.url, "60")
        screen = _Screen(ours)
        screen.wait_for("last batches")
        os.write(ours, b"\x03")
        process.terminate()
        screen.wait_for("\x1b[?1049l")
        assert process.wait(20) in {130, 143}  # depends on which signal came first
    assert termios.tcgetattr(theirs) == before
    os.close(theirs)
    os.close(ours)


def test_ctrl_c_ends_the_live_view_between_two_frames():
    """Python continues to wait after a signal, so Ctrl-C used to act at the next frame only."""
    ours, theirs = pty.openpty()
    with serve(RECORDED) as ui:
        process = start_live(theirs, ui.url, "600")
        os.close(theirs)
        screen = _Screen(ours)
        screen.wait_for("last batches")
        screen.wait_until_idle()
        os.write(ours, b"\x03")
        screen.wait_for("\x1b[?1049l")
        assert process.wait(20) == 130
    os.close(ours)


class _Screen:
    """The text that a program has written to a terminal."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._seen = ""

    def wait_for(self, words: str, limit_s: float = 30) -> None:
        deadline = time.monotonic() + limit_s
        while words not in self._seen:
            assert time.monotonic() < deadline, f"{words!r} is not in {self._seen[-2000:]!r}"
            self._read(0.5)

    def wait_until_idle(self) -> None:
        """Wait until nothing more is drawn."""
        seen = None
        while seen != self._seen:
            seen = self._seen
            self._read(0.5)

    def drain(self, process: subprocess.Popen[bytes]) -> None:
        """Read to the end, so that the program does not block on a full terminal."""
        while process.poll() is None and self._read(0.5):
            pass

    def _read(self, limit_s: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], limit_s)
        try:
            self._seen += os.read(self._fd, 65_536).decode("utf-8", "replace") if ready else ""
        except OSError:  # the other end is closed
            return False
        return True


def test_frame_of_a_query_without_figures_shows_its_name():
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(top_screen.draw_frame(top_screen.LiveFigures("orders"), 30))
    name, *rest = console.export_text().split("\n", 1)
    assert name.strip() == "orders"
    assert "lag: unknown; the metrics endpoint" in rest[0]


def test_failed_and_unlimited_admission_are_described():
    everything = {"assignor_admitted_records": 1200.0, "assignor_held_back_records": 0.0}
    assert top_screen._describe_admission({}, "spark") == "failed, so Spark's own limits apply"
    assert top_screen._describe_admission(everything, "nothing") == (
        "1,200 records in the last batch, none held back"
    )

"""One run of all benchmarks that targets rest on: resumed, stopped, told about; trivial steps."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.lab.benchmarks import one_run, one_run_page, report, results
from tests.lab.benchmarks.steps import ELSEWHERE, STEPS, Step
from tests.lab.benchmarks.targets import TARGETS, Target
from tests.lab.collected import collected
from tests.support.processes import has_ended

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Trivial(Step):
    """A step that takes no time: writes a row of its page, and ends with a code."""

    program: str = ""

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-c", self.program]


def step(name: str, page: str, value: float, code: str = "0", **more: Any) -> Trivial:
    """Write one row; its picture says how often it ran."""
    program = f"""
from tests.lab.benchmarks.report import FOLDER, write_report
write_report({page!r}, title="T", command="c", rows=[{{"name": {name!r}, "s": {value}}}], notes="n")
(FOLDER.parent / "images" / "{page}.svg").write_text("drawn")
with open({str(more.pop("log"))!r}, "a") as log:
    log.write({name + " "!r})
raise SystemExit({code})
"""
    return Trivial(name, page, 2, program=program, **more)


def least(rows: Any) -> float:
    return min(float(row["s"]) for row in rows)


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    targets = (
        Target("a", "both rows", "joined", least, 1.5),
        Target("a", "a step that fails", "broken", least, 9.0),
        Target("a", "a check that fails", "missed", least, 9.0, why="it is what it is"),
        Target("a", "elsewhere", "kills", least, 9.0),
    )
    monkeypatch.setattr(one_run, "busy", lambda: 0.25)
    monkeypatch.setattr(one_run, "commit", lambda: "abc123")
    monkeypatch.setattr(results, "TARGETS", targets)
    monkeypatch.setattr(one_run_page, "TARGETS", targets)
    folder = tmp_path / "docs" / "benchmarks"
    folder.mkdir(parents=True)
    return folder


def test_steps_that_are_done_are_not_run_again_and_failed_ones_are(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, fails = tmp_path / "log", tmp_path / "fails"
    fails.touch()
    once = f"__import__('os').path.exists({str(fails)!r})"
    steps = [
        step("one", "joined", 2.0, log=log),
        step("broken", "broken", 1.0, once, log=log, by_rows=True),
        step("two", "joined", 1.0, log=log, settings={"REPEATS": "3"}),
        step("missed", "missed", 9.5, "3", log=log),
    ]
    run = tmp_path / "build" / "one-run" / "abc123"
    assert "4 of 4 steps to run, about 8 minutes" in one_run.plan(run, steps)
    pages: list[list[str]] = []
    write_whole = one_run_page.write_whole

    def written(*given: Any) -> None:
        write_whole(*given)
        pages.append(sorted(path.name for path in docs.glob("*.json")))

    with monkeypatch.context() as within:
        within.setattr(one_run_page, "write_whole", written)
        one_run.run(run, steps, docs)
    assert pages == [[], [], ["joined.json"], ["joined.json", "missed.json"]]
    assert log.read_text().split() == ["one", "broken", "two", "missed"]
    assert "1 of 4 steps to run, about 2 minutes" in one_run.plan(run, steps)

    one_run_page.write(run, steps, docs)
    assert sorted(path.name for path in docs.iterdir()) == [
        "joined.json", "missed.json", "one_run.json",
    ]  # fmt: skip
    pictures = sorted(path.name for path in (docs.parent / "images").iterdir())
    assert pictures == ["joined.svg", "missed.svg"]
    joined = json.loads((docs / "joined.json").read_text())
    assert [row["name"] for row in joined["rows"]] == ["one", "two"]
    found = json.loads((docs / "one_run.json").read_text())
    assert "Of 3 targets 2 are met, 1 missed and 0 not measured." in found["notes"]
    assert "- Not in this run: kills, " in found["notes"]
    assert found["run"]["commit"] == "abc123"
    assert [(row["what"], row["measured"], row["result"]) for row in found["rows"]] == [
        ("both rows", 1.0, "met"), ("a step that fails", 1.0, "met"),
        ("a check that fails", 9.5, "**missed by 6%**"),
    ]  # fmt: skip
    ended = {each["step"]: (each["settings"], each["result"]) for each in found["steps"]}
    assert ended == {
        "one": ("", "passed"), "two": ("REPEATS=3", "passed"),
        "broken": ("", "failed (exit code 1)"),
        "missed": ("", "measured, a check failed (exit code 3)"),
    }  # fmt: skip
    page = (docs.parent / "benchmark-results.md").read_text()
    assert "| both rows | at most 1.5 | 1 | met | 1 |  |" in page

    fails.unlink()
    one_run.run(run, steps, docs)
    assert log.read_text().split() == ["one", "broken", "two", "missed", "broken"]
    monkeypatch.setattr(one_run, "STEPS", steps)
    monkeypatch.setattr(one_run, "ROOT", tmp_path)
    monkeypatch.setattr(one_run, "DOCS", docs)
    monkeypatch.setattr(sys, "argv", ["one_run", "--pages", "abc123"])
    one_run.main()
    steps_again = json.loads((docs / "one_run.json").read_text())["steps"]
    [again] = [each for each in steps_again if each["step"] == "broken"]
    assert (again["result"], again["tries"], again["busy"]) == ("passed", 2, 0.25)


def test_a_result_of_another_tree_is_not_kept(
    tmp_path: Path, docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps, run = [step("one", "joined", 2.0, log=tmp_path / "log")], tmp_path / "def456"
    with pytest.raises(SystemExit):
        one_run.run(run, steps, docs)
    assert "the tree is no longer at def456: stopped" in capsys.readouterr().err
    assert not steps[0].is_done(run)
    assert list(docs.iterdir()) == []


STOPPED = """
import signal, sys
from pathlib import Path
from tests.lab.benchmarks import one_run
from tests.lab.unit.test_one_run import Trivial
waits = "import os, subprocess, signal\\n"
waits += "deaf = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)\\n"  # as PySpark's JVM is
waits += "other = subprocess.Popen(['sleep', '1000'], preexec_fn=deaf)\\n"
waits += "print(os.getpid(), other.pid, flush=True); signal.pause()"
one_run.STEPS = (Trivial("quick", "a", 1), Trivial("waits", "b", 1, program=waits))
one_run.ROOT, one_run.commit, one_run.changes = Path(sys.argv.pop()), lambda: "abc", list
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's `&` would take away
one_run.main()
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_ends_the_step_with_all_its_processes(
    tmp_path: Path, how: signal.Signals
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(tmp_path)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    pids = next(line for line in process.stdout if line.strip().replace(" ", "").isdigit())
    os.kill(process.pid, how)
    _, said = process.communicate(timeout=100)
    assert process.returncode == 130
    assert said.endswith("bench: stopped; the same command goes on from here\n")
    assert all(has_ended(int(pid)) for pid in pids.split())
    run = tmp_path / "build" / "one-run" / "abc"
    assert json.loads((run / "quick" / "result.json").read_text())["code"] == 0
    assert not (run / "waits" / "result.json").exists()


def test_a_tree_with_changes_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(one_run, "changes", lambda: ["README.md", "Makefile"])
    monkeypatch.setattr(one_run, "run", lambda *_: pytest.fail("it has started"))
    monkeypatch.setattr(sys, "argv", ["one_run"])
    with pytest.raises(SystemExit) as ended:
        one_run.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "bench: the tree has changes (README.md and 1 more); commit them, or give DIRTY=1\n"
    )


def test_what_benchmarks_write_is_no_change(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "code.py").write_text("1")
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    (tmp_path / "docs" / "benchmarks").mkdir(parents=True)
    (tmp_path / "docs" / "benchmarks" / "page.json").write_text("1")
    assert report.changes(tmp_path) == []
    clean = report.commit(tmp_path)
    (tmp_path / "code.py").write_text("2")
    assert report.changes(tmp_path) == ["code.py"]
    assert report.commit(tmp_path) == f"{clean}+"


def test_each_target_has_its_steps() -> None:
    pages = {each.page for each in STEPS}
    assert {target.page for target in TARGETS} == pages | ELSEWHERE.keys()
    assert len({each.folder(ROOT) for each in STEPS}) == len(STEPS)


def test_the_steps_of_a_page_run_each_of_its_tests_once() -> None:
    """`-k` with a name that is no longer there would measure nothing."""
    several = {each.page: [s for s in STEPS if s.page == each.page] for each in STEPS if each.only}
    files = {name for of in several.values() for name in of[0].command if name.endswith(".py")}
    tests = collected(files, "benchmark")
    for of in several.values():
        file = next(word for word in of[0].command if word.endswith(".py"))
        here = [test for test in tests if test.startswith(file)]
        picked = []
        for each in of:
            word = each.only.removeprefix("not ")
            chosen = [test for test in here if (word in test) == (word == each.only)]
            assert chosen, each.name
            picked += chosen
        assert len(picked) == len(set(picked))
        if of[0].page not in {"planner", "simulator"}:
            assert sorted(picked) == sorted(here)

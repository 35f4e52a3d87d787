"""A folder that contains checkpoints: a single one is used, several are listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from checkpoints.folders import LocalFolder, find_checkpoints
from streaming.cli import main
from tests.unit.lag.checkpoint_files import write_query

ENDS = {"t": {0: 9}}
COMMANDS = [
    pytest.param(["lag", "--checkpoint", "job"], id="lag"),
    pytest.param(["offsets", "--checkpoint", "job"], id="offsets"),
    pytest.param(["doctor", "--checkpoint", "job"], id="doctor"),
    pytest.param(["estimate", "--checkpoint", "job"], id="replay"),
    pytest.param(["report", "job"], id="report"),
]


@pytest.mark.parametrize(
    ("queries", "files", "expected"),
    [
        pytest.param(["job/a", "job/b"], [], ["a", "b"], id="a job's folder"),
        pytest.param(["job/c/a"], ["job/table/part-0"], ["c/a"], id="the folder above"),
        pytest.param(["job/a"], ["job/b/metadata", "job/c/offsets/x", "job/d"], ["a"], id="others"),
        pytest.param(["job/c/d/a"], [], [], id="too deep"),
        pytest.param(["job/.a", "job/_b/c"], [], [], id="hidden"),
    ],
)  # fmt: skip
def test_checkpoints_below_a_folder(queries, files, expected, tmp_path):
    for path in queries:
        write_query(tmp_path / path, ENDS)
    for path in files:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    assert find_checkpoints(LocalFolder(tmp_path / "job")) == (expected, True)


def test_the_search_of_a_large_folder_is_limited(tmp_path):
    for number in range(600):
        (tmp_path / f"part-{number:03}").touch()
    write_query(tmp_path / "z", ENDS)
    assert find_checkpoints(LocalFolder(tmp_path)) == ([], False)
    write_query(tmp_path / "a", ENDS)
    assert find_checkpoints(LocalFolder(tmp_path)) == (["a"], False)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        pytest.param(
            ["b", "a"], "but contains 2 checkpoints: give one of job/a, job/b", id="two"
        ),
        pytest.param(list("abcdef"), "contains 6 checkpoints: give one of job/a, job/b, job/c, "
                     "job/d, job/e, …", id="many"),
        pytest.param([], "it has neither 'metadata' nor a batch in 'offsets'", id="none"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_names_the_checkpoints_of_a_job(
    command, names, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("job").mkdir()
    for name in names:
        write_query(tmp_path / "job" / name, ENDS)
    assert main.run(command) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("assignor: 'job' is not a streaming checkpoint")
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("folder", ["job", "."])
def test_each_command_takes_the_one_checkpoint_of_a_job(
    command, folder, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    write_query(tmp_path / "job" / "sink", ENDS)
    answers = []
    for given in (folder, "job/sink"):
        assert main.run([given if word == "job" else word for word in command]) == 0
        answers.append(capsys.readouterr())
        if command[0] == "report":
            page = Path("report.html").read_text()
            answers[-1] = re.sub(r"\d\d:\d\d:\d\d UTC by", "", page)
    assert answers[0] == answers[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_sinks_checkpoint_is_preferred_over_that_of_bad_records(
    command, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for name in ("sink", "dead_letter_a", "dead_letter_b"):
        write_query(tmp_path / "job" / name, ENDS)
    answers = []
    for given in ("job", "job/sink"):
        assert main.run([given if word == "job" else word for word in command]) == 0
        answers.append(capsys.readouterr())
        if command[0] == "report":
            page = Path("report.html").read_text()
            answers[-1] = re.sub(r"\d\d:\d\d:\d\d UTC by", "", page)
    assert answers[0] == answers[1]
    if command[0] == "doctor":
        words = "have their own checkpoint: also check job/dead_letter_a, job/dead_letter_b"
        assert words in answers[0].err


def test_a_single_checkpoint_is_not_used_after_an_incomplete_search(tmp_path, capsys):
    for number in range(600):
        (tmp_path / f"part-{number:03}").touch()
    write_query(tmp_path / "a", ENDS)
    assert main.run(["offsets", "--checkpoint", str(tmp_path)]) == 2
    assert f"the checkpoint of a query: give {tmp_path}/a" in capsys.readouterr().err

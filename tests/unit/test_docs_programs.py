"""Commands and programs of README and docs exist, compile, and run where that takes no broker."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from assignor_bridge.assignors import Group, Member
from assignor_bridge.assignors.check import assign_checked
from assignor_bridge.assignors.own import Own
from streaming.cli import main
from streaming.cli.all import app
from streaming.pipeline.config.loading import load_job
from tests.planner_process import plan
from tests.unit.test_docs import pages, text_of

COMMANDS = get_command(app).commands
#: Which test runs a Python program of a page, by words that only that program has.
PROGRAMS = {
    "README.md": {"configure_spark": "integration/test_docs_in_spark.py::test_the_readme"},
    "admission.md": {"target": "integration/test_docs_in_spark.py::test_the_options_of_admission"},
    "assignors.md": {
        "next_group": "unit/test_docs_programs.py::test_the_programs_that_write_an_assignor",
        "class Backwards": "unit/test_docs_programs.py::test_the_sketches_of_an_assignor",
        "class Mine": "unit/test_docs_programs.py::test_the_sketches_of_an_assignor",
        "class Dealt": "integration/test_docs_in_spark.py::test_an_assignor_of_ones_own",
        "import Dealt": "integration/test_docs_in_spark.py::test_an_assignor_of_ones_own",
    },
    "audit.md": {"missing": "integration/test_docs_in_spark.py::test_the_records_that_an_audit"},
    "demo.md": {"EmbeddedBroker": "integration/test_docs_in_spark.py::test_a_broker_of_ones_own"},
    "lag.md": {"read_checkpoint": "integration/test_docs_in_spark.py::test_the_readme"},
    "metrics.md": {"MetricsConfig": "integration/test_docs_in_spark.py::test_metrics_of_a_query"},
    "quickstart.md": {"configure_spark": "integration/test_quickstart.py::test_the_program_runs"},
    "where-it-runs.md": {"remote(": "compat/test_connect.py::test_a_remote_client"},
    "writing-an-assignor.md": {
        "class LargestFirst": "unit/test_docs_programs.py::test_the_programs_that_write",
        "find(": "unit/test_docs_programs.py::test_the_programs_that_write",
        ".option(": "integration/test_assignors_in_spark.py::test_a_users_assignor",
    },
}
#: What an example may call to be run here.
_TOOLS = {"echo", "cat", "tr", "assignor"}


def blocks(text: str, language: str) -> list[str]:
    found = re.findall(r"^( *)```(\S*)\n(.*?)^ *```$", text, flags=re.MULTILINE | re.DOTALL)
    return [
        re.sub(rf"^{indent}", "", block, flags=re.MULTILINE)
        for indent, named, block in found
        if re.fullmatch(language, named)
    ]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_commands_exist_with_their_options(page: Path):
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    code = re.findall(r"`([^`\n]+)`", text) + re.findall(r"^(?:\$| {4}).*$", text, re.MULTILINE)
    code += [line for block in blocks(text, "[a-z]*") for line in block.splitlines()]
    for line in code:
        for command, words in re.findall(r"(?:^|[\s(])assignor ([a-z]+)\b([^|;#)]*)", line):
            assert command in COMMANDS, line
            known = {name for p in COMMANDS[command].params for name in (*p.opts, "--help")}
            named = set(re.findall(r"(?<!\S)\[?(--?[a-z][a-z-]*)", words))
            assert named <= known, line


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_programs_compile(page: Path):
    for block in blocks(page.read_text(encoding="utf-8"), "python"):
        program = block.replace("…", "...")
        if program.lstrip().startswith("."):  # options of a stream that is begun elsewhere
            program = f"(stream\n{program})"
        ast.parse(program)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_each_program_is_run_by_a_test(page: Path):
    run_by = PROGRAMS.get(page.name, {})
    programs = blocks(page.read_text(encoding="utf-8"), "python")
    for program in programs:
        assert [words for words in run_by if words in program], program
    assert len(programs) == len(run_by)
    for test in run_by.values():
        file, _, name = test.partition("::")
        assert f"def {name}" in (Path(__file__).parents[1] / file).read_text(encoding="utf-8")


def test_cells_of_the_notebook_compile():
    """They run in `tests/integration/test_examples.py`."""
    path = Path(__file__).parents[2] / "examples" / "quickstart.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    for cell in notebook["cells"]:
        assert cell["cell_type"] == "markdown" or cell["outputs"] == []
        if cell["cell_type"] == "code":
            ast.parse("".join(cell["source"]))


def test_the_programs_that_write_an_assignor_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    rule, check, _ = blocks(text_of("writing-an-assignor.md"), "python")
    (tmp_path / "team_rules.py").write_text(rule, encoding="utf-8")
    exec(check, {})  # noqa: S102
    [program] = [b for b in blocks(text_of("assignors.md"), "python") if "assign_checked" in b]
    exec(program, {})  # noqa: S102


def test_the_sketches_of_an_assignor_are_taken_as_they_are():
    backwards, mine = (
        block.partition("\n\n")[0].replace("…", "...")
        for block in blocks(text_of("assignors.md"), "python")
        if "class Backwards" in block or "class Mine" in block
    )
    names: dict[str, Any] = {}
    exec(backwards + mine, names)  # noqa: S102
    topics = frozenset({"t"})
    group = Group((Member("a", topics), Member("b", topics)), {"t": 2})
    assignment = assign_checked(Own("backwards", names["Backwards"]), group)
    assert assignment["b"] == {"t": (0, 1)}
    made = names["Mine"]()
    made.configure({"most": "5"})
    assert made.most == 5


@pytest.mark.parametrize("page", ["assignors.md", "zones.md"])
def test_examples_print_what_they_show(page: str, tmp_path: Path):
    (tmp_path / "assignor").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m streaming.cli.main "$@"\n', encoding="utf-8"
    )
    (tmp_path / "assignor").chmod(0o755)
    ran = 0
    for block in blocks(text_of(page), "console"):
        for command, output in _examples(block):
            tools = {words.split()[0] for words in re.sub(r"'[^']*'", "", command).split("|")}
            if not tools <= _TOOLS or not re.search(
                r"assignor (plan|assign)\b.* -$", command, re.S
            ):
                _written(command, output, tmp_path)
                continue
            done = subprocess.run(
                ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True,
                env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}",
                                  "PYTHONPATH": str(Path(__file__).parents[2])},
            )  # fmt: skip
            assert done.stdout == output
            ran += 1
    assert ran


def _examples(block: str) -> list[tuple[str, str]]:
    """Return commands with their output; a command goes on behind a backslash or in quotes."""
    found = []
    for text in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = text.splitlines(keepends=True)
        end = 1
        while lines[end - 1].endswith("\\\n") or "".join(lines[:end]).count("'") % 2:
            end += 1
        found.append(("".join(lines[:end]).strip(), "".join(lines[end:])))
    return found


def _written(command: str, output: str, folder: Path) -> None:
    """Write the file that `cat` shows."""
    if match := re.fullmatch(r"cat (\S+)", command):
        (folder / match[1]).write_text(output, encoding="utf-8")


def test_jobs_can_be_loaded(tmp_path: Path):
    jobs = [
        block
        for page in pages()
        for block in blocks(page.read_text(encoding="utf-8"), "yaml")
        if {"source", "sink"} <= set(yaml.safe_load(block))
    ]
    assert len(jobs) == 2
    for number, job in enumerate(jobs):
        path = tmp_path / f"job{number}.yaml"
        path.write_text(job, encoding="utf-8")
        load_job(path, environment={}, broker=None)


def _snapshot(executors: int, slots: int, **ends: tuple[int, int]) -> dict[str, Any]:
    hosts = [{"id": f"{n}", "host": f"h{n}", "slots": slots} for n in range(1, executors + 1)]
    ranges = [
        {"topic": name[:-1], "partition": int(name[-1]), "start": start, "end": end}
        for name, (start, end) in ends.items()
    ]
    return {"executors": hosts, "ranges": ranges, "options": {}}


@pytest.mark.parametrize(
    ("page", "snapshots"),
    [
        ("planner.md", [_snapshot(1, 2, t0=(0, 100), t1=(0, 100), t2=(0, 100), t3=(0, 100))]),
        (
            "operating.md",
            [
                _snapshot(2, 1, orders6=(0, 400), orders7=(0, 300), orders8=(0, 700)),
                _snapshot(2, 1, orders6=(400, 1400), orders7=(300, 600), orders8=(700, 1400)),
            ],
        ),
    ],
)
def test_the_plan_of_batch_17_is_explained_as_shown(page, snapshots, tmp_path, capsys):
    state = None
    for snapshot in snapshots:
        snapshot["state"] = state
        state = plan(snapshot)["state"]
    log = tmp_path / "plans.jsonl"
    log.write_text(json.dumps({"batchId": 17, "snapshot": snapshots[-1], "plan": {}}) + "\n")
    [block] = [b for b in blocks(text_of(page), "console") if "plan --batch 17" in b]
    [(_, shown)] = _examples(block)
    main.run(["plan", "--batch", "17", str(log)])
    printed = capsys.readouterr().out
    kept = "kept 4 of 4 partitions at their executor\n"  # a batch before, which is not shown
    assert printed == shown.replace(kept, "")

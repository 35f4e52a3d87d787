"""Commands and programs of README and docs exist, compile, and run where that takes no broker."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from assignor_bridge.tested_spark import TESTED_SPARKS
from streaming.cli import main
from streaming.cli.all import app
from streaming.delta.spark_settings import delta_coordinate
from streaming.kafka.java_properties import parse_properties
from streaming.kafka.settings import translate_settings
from streaming.pipeline.config.loading import load_job
from tests.unit.streaming.kept_query import kept_query
from tests.unit.test_docs import name_of, pages, text_of

COMMANDS = get_command(app).commands
#: Which test runs a Python program of a page, by words that only that program has.
PROGRAMS = {
    "README.md": {"configure_spark": "integration/test_docs_in_spark.py::test_the_readme"},
    "add-to-a-job.md": {
        "configure_delta": "integration/test_quickstart.py::test_a_query_into_delta_runs",
    },
    "assignors.md": {
        "next_group": "unit/test_docs_programs.py::test_the_programs_that_write_an_assignor",
    },
    "audit.md": {"missing": "integration/test_docs_in_spark.py::test_the_records_that_an_audit"},
    "consumer-groups.md": {
        "KafkaConsumer": "integration/test_consumer_groups.py::test_the_program_of_the_page"
    },
    "deploy.md": {"remote(": "lab/compat/test_connect.py::test_a_remote_client"},
    "diagnose.md": {"read_checkpoint": "integration/test_docs_in_spark.py::test_the_readme"},
    "limit-batches.md": {
        "target": "integration/test_docs_in_spark.py::test_the_options_of_limited_batches"
    },
    "monitor.md": {"MetricsConfig": "integration/test_docs_in_spark.py::test_metrics_of_a_query"},
    "pipelines.md": {"run_job": "integration/test_pipeline_jobs.py::test_bad_records_fail"},
    "quickstart.md": {
        "EmbeddedBroker": "integration/test_quickstart.py::test_the_program_runs",
    },
    "writing-an-assignor.md": {
        "class LargestFirst:": "unit/test_docs_programs.py::test_the_programs_that_write",
        "import LargestFirst": "integration/test_docs_in_spark.py::test_an_assignor_of_ones_own",
        "find(": "unit/test_docs_programs.py::test_the_programs_that_write",
        "class Mine": "unit/test_docs_programs.py::test_the_sketch_of_an_assignor",
        '.option("assignor", "team_rules:': (
            "integration/test_assignors_in_spark.py::test_a_users_assignor"
        ),
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


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_commands_exist_with_their_options(page: Path):
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    code = re.findall(r"`([^`\n]+)`", text) + re.findall(r"^(?:\$| {4}).*$", text, re.MULTILINE)
    code += [line for block in blocks(text, "[a-z]*") for line in block.splitlines()]
    for line in code:
        for written in re.findall(r"(?:^|[\s(])assignor ([a-z]+\b[^|;#)]*)", line):
            name, *words = written.split()
            commands = COMMANDS
            if name == "lab" and words and words[0] != "[OPTIONS]":
                commands, (name, *words) = COMMANDS["lab"].commands, words
            assert name in commands, line
            known = {opt for p in commands[name].params for opt in (*p.opts, "--help")}
            named = set(re.findall(r"(?<!\S)\[?(--?[a-z][a-z-]*)", " ".join(words)))
            assert named <= known, line


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_programs_compile(page: Path):
    for block in blocks(page.read_text(encoding="utf-8"), "python"):
        program = block.replace("…", "...")
        if program.lstrip().startswith("."):  # options of a stream that is begun elsewhere
            program = f"(stream\n{program})"
        ast.parse(program)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_each_program_is_run_by_a_test(page: Path):
    run_by = PROGRAMS.get(name_of(page), {})
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


def test_the_programs_that_write_an_assignor_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.syspath_prepend(str(tmp_path))
    _, rule, check, *_ = blocks(text_of("writing-an-assignor.md"), "python")
    (tmp_path / "team_rules.py").write_text(rule, encoding="utf-8")
    exec(check, {})  # noqa: S102
    [block] = blocks(text_of("writing-an-assignor.md"), "console")
    cat, (command, output) = _examples(block)
    _written(*cat, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main.run(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out == output
    [program] = [b for b in blocks(text_of("assignors.md"), "python") if "assign_checked" in b]
    exec(program, {})  # noqa: S102


def test_the_sketch_of_an_assignor_is_taken_as_it_is():
    [block] = [b for b in blocks(text_of("writing-an-assignor.md"), "python") if "class Mine" in b]
    names: dict[str, Any] = {}
    exec(block.partition("\n\n")[0].replace("…", "..."), names)  # noqa: S102
    made = names["Mine"]()
    made.configure({"maxMoves": "5"})
    assert made.max_moves == 5


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
                r"assignor lab (plan|assign)\b.* -$", command, re.S
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


def test_a_login_and_a_cluster_are_added_to_a_job_as_the_page_says(tmp_path: Path):
    job, login, cluster = blocks(text_of("pipelines.md"), "yaml")
    [exported] = re.findall("^export JAAS='(.*)'$", text_of("pipelines.md"), re.MULTILINE)
    path = tmp_path / "job.yaml"
    path.write_text(job + login + cluster, encoding="utf-8")
    loaded = load_job(path, environment={"JAAS": exported}, broker=None).job
    assert loaded.options["kafka.sasl.jaas.config"] == exported
    assert loaded.spark["spark.master"] == "spark://host:7077"


def test_the_login_of_the_commands_is_one_that_they_take():
    [shown] = blocks(text_of("diagnose.md"), "properties")
    given = {"bootstrap.servers": "b:1", **parse_properties(shown)}
    settings = translate_settings(given).to_client_config()
    assert settings["sasl.mechanisms"] == "SCRAM-SHA-512"
    assert settings["sasl.password"] == "secret"


def test_the_pages_name_all_tested_versions_of_spark():
    *others, newest = TESTED_SPARKS
    listed = f"{', '.join(others)} and {newest} are tested"
    assert listed in text_of("quickstart.md")
    assert listed in text_of("../README.md")
    rows = [line for line in text_of("platforms.md").splitlines() if "| tested |" in line]
    assert [spark for spark in TESTED_SPARKS if not any(spark in row for row in rows)] == []


def test_delta_is_installed_in_the_version_that_is_loaded_and_pyspark_stays():
    root = Path(__file__).parents[2]
    files = [*pages(), root / "examples" / "quickstart.ipynb"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    lines = re.findall(r"pip install 'delta-spark[^\n`#]*", text)
    assert len(lines) == 4
    newest = next(reversed(TESTED_SPARKS))
    version = delta_coordinate(newest).rpartition(":")[2]
    for line in lines:
        assert line.strip() == f"pip install 'delta-spark=={version}' 'pyspark=={newest}'"


def test_other_packages_are_put_behind_those_of_assignor_jars():
    [line] = [b for b in blocks(text_of("add-to-a-job.md"), "") if "| sed" in b]
    [script] = re.findall(r"\$\(assignor jars (\| sed .*?)\)", line)
    printed = "--packages a:b:1,c:d:2 --repositories file:///r"
    told = subprocess.run(
        ["bash", "-c", f"echo '{printed}' {script}"], capture_output=True, text=True, check=True
    ).stdout
    delta = delta_coordinate(next(reversed(TESTED_SPARKS)))
    assert told == f"--packages a:b:1,c:d:2,{delta} --repositories file:///r\n"


def _snapshot(executors: int, slots: int, **ends: tuple[int, int]) -> dict[str, Any]:
    hosts = [{"id": f"{n}", "host": f"h{n}", "slots": slots} for n in range(1, executors + 1)]
    ranges = [
        {"topic": name[:-1], "partition": int(name[-1]), "start": start, "end": end}
        for name, (start, end) in ends.items()
    ]
    return {"executors": hosts, "ranges": ranges, "options": {}}


def test_the_plan_of_batch_17_is_explained_as_shown(tmp_path, capsys):
    snapshot = _snapshot(1, 2, t0=(0, 100), t1=(0, 100), t2=(0, 100), t3=(0, 100))
    log = tmp_path / "plans.jsonl"
    log.write_text(json.dumps({"batchId": 17, "snapshot": snapshot, "plan": {}}) + "\n")
    [block] = [b for b in blocks(text_of("diagnose.md"), "console") if "plan --batch 17" in b]
    [(_, shown)] = _examples(block)
    main.run(["plan", "--batch", "17", str(log)])
    printed = capsys.readouterr().out
    kept = "kept 4 of 4 partitions on their executor\n"  # a batch before, which is not shown
    assert printed == shown.replace(kept, "")


def test_why_partition_7_moved_is_told_as_shown(tmp_path, monkeypatch, capsys):
    """The command that the page names, not another one."""
    sizes = [{6: 400, 7: 300, 8: 700}] * 17 + [{6: 1000, 7: 300, 8: 700}]
    query = kept_query(tmp_path, sizes)
    (tmp_path / "data" / "checkpoints").mkdir(parents=True)
    query.checkpoint.rename(tmp_path / "data" / "checkpoints" / "orders")
    monkeypatch.chdir(tmp_path)
    [block] = [b for b in blocks(text_of("troubleshoot.md"), "console") if "orders-7" in b]
    [(command, shown)] = _examples(block)
    assert main.run(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out == shown

"""The option works with a bare `pip install`; other features name the extra they need."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from assignor_bridge.installed_spark import spark_version
from streaming.extras import EXTRA_BY_PACKAGE, MissingExtraError, explain_missing_extra
from tests.support.core_venv import ROOT, list_requirements, make_environment
from tests.support.planner_process import encode_request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Imported only for consumer groups, for tests of assignors, and by the build of the wheel.
_NOT_CORE = (
    "assignor_bridge.consumer_groups.kafka_python",
    "assignor_bridge.jvm.wheel_hook",
    "assignor_bridge.testing",
)
SNAPSHOT = {
    "executors": [{"id": "1", "host": "h1", "slots": 2}],
    "ranges": [{"topic": "t", "partition": 0, "start": 0, "end": 100}],
}


def core_modules() -> Iterator[tuple[str, Path]]:
    """Yield each module of the core and its file."""
    for package in ("assignor_bridge", "checkpoints"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            module = ".".join(parts).removesuffix(".__init__")
            if not module.startswith(_NOT_CORE):
                yield module, path


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("core") / "environment")


def run(python: Path, *words: str, **options: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(python), *words], cwd=python.parent, env=clean, capture_output=True, text=True,
        check=False, **options,
    )  # fmt: skip


def test_the_core_imports_each_package_that_it_requires_and_no_other() -> None:
    imported = set[str]()
    for _, path in core_modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    third_party = imported - {*sys.stdlib_module_names, "assignor_bridge", "checkpoints"}
    assert third_party == set(list_requirements("assignor-bridge"))
    assert len(third_party) <= 7


def test_every_module_of_the_core_can_be_imported_without_extras(python: Path) -> None:
    modules = [module for module, _ in core_modules()]
    assert {"assignor_bridge.worker", "assignor_bridge.jvm.build"} <= set(modules)
    program = f"import importlib\nfor name in {modules}: importlib.import_module(name)"
    done = run(python, "-c", program)
    assert done.returncode == 0, done.stderr


def test_configure_spark_works_without_extras(python: Path) -> None:
    done = run(
        python, "-c",
        "from pyspark.sql import SparkSession\n"
        "from assignor_bridge import configure_spark, spark_packages\n"
        "spark_packages.resolve = lambda *_: None\n"
        "print(configure_spark(SparkSession.builder)._options['spark.jars.packages'])",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "io.assignorbridge:assignor-bridge:" in done.stdout


def test_the_planner_process_plans_without_extras(python: Path) -> None:
    valid = json.dumps({"type": "validate", "options": {}})
    lines = f"1 1 {valid}\n2 1 {encode_request(SNAPSHOT).decode()}\n"
    done = run(python, "-m", "assignor_bridge.worker", input=lines)
    answers = [json.loads(line.split(maxsplit=1)[1]) for line in done.stdout.splitlines()]
    assert [answer["type"] for answer in answers] == ["validated", "planned"], done


@pytest.mark.parametrize(
    "words", [["--help"], ["lag", "x"], ["run", "job.yaml"]], ids=lambda words: words[0]
)
def test_the_command_without_its_extra_is_one_line_that_names_it(
    python: Path, words: list[str]
) -> None:
    done = run(python, "-m", "streaming.cli.entry", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "assignor: the package 'typer' is not installed: pip install 'assignor-bridge[cli]'\n"
    )


def test_a_function_without_its_extra_names_it(python: Path) -> None:
    done = run(python, "-c", "from streaming import run_job")
    assert "MissingExtraError: the package " in done.stderr
    assert done.stderr.endswith("is not installed: pip install 'assignor-bridge[cli]'\n")


def test_a_job_without_delta_names_its_extra(tmp_path: Path) -> None:
    done = run(make_environment(tmp_path, "cli"), "-c", "from streaming import run_job")
    assert "MissingExtraError: the package 'delta' is not installed: " in done.stderr


def test_delta_is_installed_next_to_the_spark_that_is_there() -> None:
    with (
        pytest.raises(MissingExtraError, match=r"pip install 'assignor-bridge\[delta\]'") as raised,
        explain_missing_extra(),
    ):
        raise ModuleNotFoundError("No module named 'delta'", name="delta.tables")
    assert f"'pyspark=={spark_version()}'" in str(raised.value)


def test_the_packages_of_the_extras_are_those_with_a_message() -> None:
    names = {"pyyaml": "yaml", "confluent-kafka": "confluent_kafka", "delta-spark": "delta"}
    names["prometheus-client"] = "prometheus_client"
    core = set(list_requirements("assignor-bridge"))
    for extra in ("cli", "delta"):
        packages = {*list_requirements("assignor-bridge", extra)} - core
        imported = {names.get(package, package) for package in packages}
        assert imported == {package for package, its in EXTRA_BY_PACKAGE.items() if its == extra}


def test_all_has_the_packages_of_each_extra_for_users() -> None:
    expected = {
        *list_requirements("assignor-bridge", "cli", "delta", "demo", "kafka-python", "testing")
    }
    assert {*list_requirements("assignor-bridge", "all")} == expected

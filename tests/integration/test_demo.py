"""Run the demo from a wheel, as a user does, and check its report and that nothing is left."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from assignor_bridge import ivy
from tests.support.built_packages import build_wheel, install_package

pytestmark = [
    pytest.mark.integration,
    pytest.mark.drivers,
    pytest.mark.timeout(900),
]

ROWS = 3_000


def list_processes_with(marker: str) -> list[str]:
    """Return the command lines of running processes that inherited the marker."""
    commands = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (folder / "environ").read_bytes():
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                commands.append(command[:200])
        except OSError:
            continue  # the process has ended
    return [command for command in commands if command]


def list_work_folders() -> set[str]:
    """Return the folders that `local-cluster` creates in site-packages without a SPARK_HOME."""
    work = ivy.pyspark_home() / "work"
    return {path.name for path in work.iterdir()} if work.is_dir() else set()


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the commands of an environment with a wheel that was built from the sdist."""
    wheel = build_wheel(tmp_path_factory.mktemp("built"))
    return install_package(wheel, tmp_path_factory.mktemp("wheel") / "environment")


def test_the_demo_measures_both_modes_checks_delta_and_leaves_nothing(
    commands: Path, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    marker = f"demo-{uuid.uuid4().hex}"
    before = list_work_folders()
    completed = subprocess.run(
        [
            *(commands / "assignor", "demo"),
            *("--workers", "2", "--rows", str(ROWS), "--batches", "2", "--work-us", "500"),
            *("--report", "report.html"),
        ],
        cwd=tmp_path,
        env={
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "TMPDIR": str(scratch),
            "ASSIGNOR_TEST_MARKER": marker,
            "COLUMNS": "160",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=850,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "Traceback" not in completed.stderr
    once = "each flight is in Delta exactly once"
    for line in (
        f"ok     act 1: {once} (Spark's default assignment): {ROWS:,} ids",
        f"ok     act 2: {once} (lag-aware-sticky): {ROWS:,} ids",
        "ok     act 1: every batch was planned (lag-aware-sticky): 2 of 2 batches",
        "ok     act 2: every batch was planned (lag-aware-sticky): 2 of 2 batches",
        "With a simulated call of 0.5 ms per record, the median batch took ",
        "With no simulated call, the median batch took ",
        "ok     all processes stopped",
    ):
        assert line in completed.stdout
    for step in ("starting a Kafka broker", "starting Spark", "batches with no simulated call"):
        assert f" s  {step}" in completed.stderr
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert report.count("<svg") == 12
    assert "FAILED" not in report
    assert list_processes_with(marker) == []
    program = "import streaming; print(streaming.__file__)"
    package = subprocess.check_output([commands / "python", "-c", program], cwd=tmp_path, text=True)
    assert Path(package).is_relative_to(commands.parent)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "scratch"]
    leftovers = [path.name for path in scratch.iterdir() if path.name.startswith("assignor-")]
    assert leftovers == []
    assert {name for name in list_work_folders() - before if "demo" in name} == set()


@pytest.mark.long
def test_a_broker_that_does_not_answer_is_one_line_and_exit_code_1(tmp_path):
    completed = subprocess.run(
        [
            *(sys.executable, "-m", "streaming.cli.main", "demo", "--rows", "10"),
            *("--bootstrap-server", "127.0.0.1:1", "--report", str(tmp_path / "report.html")),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert completed.returncode == 1
    assert "topic 'assignor-demo-flights-" in completed.stderr.splitlines()[-1]
    assert "Traceback" not in completed.stderr
    assert not (tmp_path / "report.html").exists()

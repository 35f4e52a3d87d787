"""Workers without Python, without our jar, and with another one than the driver."""

from __future__ import annotations

import contextlib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from assignor_bridge.ivy import find_tool
from assignor_bridge.jars import find_built_jar
from streaming.pipeline.job_errors import add_hint
from tests.lab.compat.class_path import alone
from tests.support.class_path_driver import OPTION, run_driver
from tests.support.standalone_cluster import standalone_cluster, workers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.compat

COUNTS = [7, 4]


def other_build(folder: Path) -> Path:
    """Our jar as another version of it would be: it says that it is another."""
    other = folder / "assignor-bridge-0.0.9.jar"
    entry = "io/assignorbridge/version.txt"
    with zipfile.ZipFile(find_built_jar()) as jar:
        members = {name: jar.read(name) for name in jar.namelist()}
    members[entry] = b"0.0.9-other"
    with zipfile.ZipFile(other, "w") as jar:
        for name, data in members.items():
            jar.writestr(name, data)
    return other


def test_workers_need_our_jar_of_the_same_version_and_no_python(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.create(len(COUNTS)).fill(COUNTS)
    others = [jar for jar in alone() if jar != find_built_jar()]
    on_executors: dict[str, list[Path]] = {
        "shipped": [],
        "missing": others,
        "other": [other_build(tmp_path), *others],
    }
    told = {}
    java = Path(find_tool("java")).resolve().parents[1]
    with contextlib.ExitStack() as stack:
        with monkeypatch.context() as environment:
            environment.setenv("JAVA_HOME", str(java))
            environment.setenv("PATH", str(tmp_path))  # no Python to be found
            url = stack.enter_context(standalone_cluster(tmp_path / "cluster", workers(1))).url
        for name, class_path in on_executors.items():
            folder = tmp_path / name
            folder.mkdir()
            ours: dict[str, Iterable[Path]] = {"class_path": alone() if class_path else []}
            ours["jars"] = [] if class_path else alone()
            executors = [str(jar) for jar in class_path]
            told[name], _ = run_driver(
                topic, folder, **ours, runs={"query": OPTION}, master=url, executors=executors
            )

    assert told["shipped"]["query"].get("rows") == sum(COUNTS), told
    [metrics] = told["shipped"]["query"]["metrics"]
    assert metrics["assignor.strategy"] == "lag-aware-sticky"
    assert metrics["assignor.fallbacks"] == "0"
    missing = told["missing"]["query"]["error"]
    assert "the executors may lack the assignor-bridge jar" in add_hint(missing, None), missing
    assert (
        "this executor has 0.0.9-other: give both the same jar" in told["other"]["query"]["error"]
    )

"""Empty caches: many processes at once, repositories in trouble, packages that cannot be had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from assignor_bridge import ivy, spark_packages
from streaming.delta.spark_settings import delta_coordinate

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.integration, pytest.mark.drivers]

FETCH = "import sys; from assignor_bridge import ivy; print(len(ivy.fetch(sys.argv[1])))"
RESOLVE = """
import json, sys
from assignor_bridge import spark_packages

spark_packages.resolve(json.loads(sys.argv[1]), "")
print("Spark may start")
"""


def all_at_once(count: int, program: str, argument: str, cache: Path) -> list[str]:
    """Run so many processes on one empty cache; what each printed, or how it failed."""
    words = [sys.executable, "-c", program, argument]
    environment = os.environ | {"ASSIGNOR_BRIDGE_CACHE": str(cache)}
    processes = [
        subprocess.Popen(
            words, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(count)
    ]
    outputs = [process.communicate(timeout=400) for process in processes]
    return [
        out.strip() if process.returncode == 0 else err[-2000:]
        for process, (out, err) in zip(processes, outputs, strict=True)
    ]


@pytest.mark.long
def test_six_processes_that_fetch_into_an_empty_cache_all_get_the_jars(tmp_path: Path) -> None:
    """Up to five of six failed: Ivy does not lock its cache."""
    answers = all_at_once(6, FETCH, delta_coordinate(), tmp_path / "cache")
    assert len(set(answers)) == 1, answers
    assert int(answers[0]) >= 2
    assert not list((tmp_path / "cache" / "jars").glob(".making-*"))


class Repository(ThreadingHTTPServer):
    """A Maven repository of one artefact, `org.example:thing:1.0`, whose first answers are 503."""

    def __init__(self, refusals: int) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.refusals = refusals
        self.asked: list[str] = []


class _Answers(BaseHTTPRequestHandler):
    server: Repository

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        """Keep the terminal clean."""

    def _answer(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        body = _jar() if self.path.endswith("thing-1.0.jar") else b""
        if self.path.endswith("thing-1.0.pom"):
            body = (
                b"<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
                b"<artifactId>thing</artifactId><version>1.0</version></project>"
            )
        status = 200 if body else 404
        if self.server.refusals:
            self.server.refusals -= 1
            status, body = 503, b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def _jar() -> bytes:
    import io

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("a.txt", "a")
    return content.getvalue()


@contextmanager
def repository(refusals: int, folder: Path) -> Iterator[tuple[Repository, Path]]:
    """Serve one, with the Ivy settings that name it."""
    server = Repository(refusals)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = folder / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="r"/><resolvers><ibiblio name="r" '
        f'm2compatible="true" root="http://127.0.0.1:{server.server_port}/"/></resolvers>'
        "</ivysettings>"
    )
    try:
        yield server, settings
    finally:
        server.shutdown()
        server.server_close()


def packages(artifact: str, folder: Path, settings: Path) -> dict[str, str]:
    """Spark's settings for one package of that repository, with an Ivy cache in the folder."""
    return {
        "spark.jars.packages": f"org.example:{artifact}",
        "spark.jars.ivy": str(folder / "ivy"),
        "spark.jars.ivySettings": str(settings),
    }


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of ours."""
    monkeypatch.setenv("ASSIGNOR_BRIDGE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_repository_that_hiccups_is_asked_again(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with repository(refusals=3, folder=tmp_path) as (server, settings):
        monkeypatch.setenv("ASSIGNOR_BRIDGE_IVY_SETTINGS", str(settings))
        [jar] = ivy.fetch("org.example:thing:1.0")
        assert server.refusals == 0
    assert jar.name == "thing-1.0.jar"
    assert zipfile.ZipFile(jar).namelist() == ["a.txt"]


def test_a_package_that_is_not_there_is_asked_for_once_and_told_in_one_line(
    tmp_path: Path, cache: Path
) -> None:
    """Spark ended in sixty lines and JAVA_GATEWAY_EXITED."""
    with repository(refusals=0, folder=tmp_path) as (server, settings):
        chosen = packages("other:2.0", tmp_path, settings)
        with pytest.raises(ivy.JarError) as failed:
            spark_packages.resolve(chosen, "Do something.")
        host = f"127.0.0.1:{server.server_port}"
        assert server.asked.count("HEAD /org/example/other/2.0/other-2.0.pom") == 1
    line = str(failed.value)
    assert line.startswith(f"org.example:other:2.0 could not be fetched ({host}: not there)")
    assert line.endswith("Do something.")
    assert "\n" not in line
    assert not list(cache.glob("spark-packages/*.json"))


def test_of_six_drivers_that_start_at_once_one_fills_sparks_cache(
    tmp_path: Path, cache: Path
) -> None:
    with repository(refusals=0, folder=tmp_path) as (server, settings):
        chosen = json.dumps(packages("thing:1.0", tmp_path, settings))
        assert all_at_once(6, RESOLVE, chosen, cache) == ["Spark may start"] * 6
        assert server.asked.count("GET /org/example/thing/1.0/thing-1.0.pom") == 1


def test_packages_that_were_resolved_once_are_not_resolved_again_until_a_jar_is_gone(
    tmp_path: Path, cache: Path
) -> None:
    with repository(refusals=0, folder=tmp_path) as (_, settings):
        chosen = packages("thing:1.0", tmp_path, settings)
        assert not spark_packages.resolve(chosen, "")
        [note] = cache.glob("spark-packages/*.json")
        [jar] = json.loads(note.read_text())["jars"]
        assert jar == str(tmp_path / "ivy" / "jars" / "org.example_thing-1.0.jar")
    assert spark_packages.resolve(chosen, "")  # the repository is gone: nothing asks it
    os.unlink(jar)  # noqa: PTH108
    with repository(refusals=0, folder=tmp_path):
        assert not spark_packages.resolve(chosen, "")
    assert Path(jar).is_file()

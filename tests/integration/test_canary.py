"""Secrets in every place that takes one: after a real run they are found nowhere else."""

from __future__ import annotations

import contextlib
import html
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from streaming.demo.spark_process import link_spark_home
from streaming.kafka.embedded_setup import find_free_ports
from tests.support.canaries import find_secrets
from tests.support.kafka_topics import Topic
from tests.support.secured_broker import LOGIN, PASSWORD
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.secured_broker import Secured

pytestmark = [pytest.mark.integration, pytest.mark.drivers]

ROOT = Path(__file__).parents[2]
WRONG = "canary-of-a-wrong-login"
STORE = 'canary of+the"trust&store'
REGISTRY = "canary-of/a+registry"
SINK = "canary of+a<sink"
#: By where each is put; some have letters that JSON, HTML or an address writes otherwise.
SECRETS = {
    "JAAS, from the environment": PASSWORD,
    "a store's password": STORE,
    "a user and a password": REGISTRY,
    "a sink's option": SINK,
    "an address": "canary-of-an-address",
    "a setting of Hadoop's": "canary/of+the-bucket",
    "a setting whose name Spark does not know for a secret": "canary-of-azure",
    "a wrong login": WRONG,
}
PAGES = ("environment/", "jobs/", "stages/", "storage/", "executors/", "SQL/", "StreamingQuery/",
         "executors/threadDump/?executorId=driver")  # fmt: skip
#: One of the first page's links, each leads to a page of its own.
LINKS = {"jobs/": r"/jobs/(job/\?id=\d+)", "stages/": r"/stages/(stage/\?id=\d+&amp;attempt=\d+)",
         "SQL/": r"/SQL/(execution/\?id=\d+)",
         "StreamingQuery/": r"StreamingQuery/(statistics/?\?id=[0-9a-f-]+)"}  # fmt: skip
#: What a run has to say that fails by itself.
PLANTED = "a task fails as planted"


def job(address: str, topic: str, folder: Path, ports: tuple[int, int], password: str) -> str:
    """The YAML of a job with all of them; JSON is YAML."""
    logging = f"-Dlog4j2.configurationFile={(ROOT / 'tests/support/log4j2.properties').as_uri()}"
    told = (
        f"{logging} -Dassignor.test.level=info -Dassignor.test.log={folder}/{{}}.log "
        f"-Djava.io.tmpdir={folder}/scratch"
    )
    config = {
        "kafka.bootstrap.servers": address,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": LOGIN.format(user="ann", password=password),
        "kafka.ssl.truststore.password": STORE,
        "kafka.basic.auth.user.info": f"ann:{REGISTRY}",
        "source": {
            "subscribe": topic,
            "records": {"format": "raw"},
            "assignor.commitGroup": topic,
            "assignor.planLog": f"{folder}/plans.jsonl",
        },
        "sink": {"path": f"{folder}/table"},
        "checkpoint": f"{folder}/checkpoint",
        "trigger": "processingTime 1 second",
        "metrics": {
            "port": ports[1], "textfile": f"{folder}/m.prom", "log_file": f"{folder}/log.jsonl"
        },
        "spark": {
            "spark.master": "local-cluster[1,2,1024]",
            "spark.ui.enabled": "true",
            "spark.ui.port": str(ports[0]),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"{folder}/events",
            "spark.eventLog.compress": "false",
            "spark.driver.extraJavaOptions": told.format("driver"),
            "spark.executor.extraJavaOptions": told.format("executor"),
            "spark.local.dir": f"{folder}/scratch",
            "spark.hadoop.acme.registry":
                f"https://ann:{SECRETS['an address']}@registry.test/a",
            "spark.hadoop.fs.s3a.secret.key": SECRETS["a setting of Hadoop's"],
            "spark.hadoop.fs.azure.account.key.acme.dfs.core.windows.net":
                SECRETS["a setting whose name Spark does not know for a secret"],
        },
    }  # fmt: skip
    return json.dumps(config)


def failing(good: str, folder: Path, password: str, topic: str) -> str:
    """The same job in a folder of its own, which fails by its login or else in a task."""
    config = json.loads(good)
    del config["metrics"]["port"]
    planned = f"{folder}/plans.jsonl"
    changed = json.loads(json.dumps(config).replace(str(folder.parent), str(folder)))
    changed |= {
        "kafka.sasl.jaas.config": LOGIN.format(user="ann", password=password),
        "sources": {"rows": changed.pop("source") | {"assignor.planLog": planned}},
        "transforms": {"bad": {"sql": f"SELECT raise_error('{PLANTED}') AS value FROM rows"}},  # noqa: S608
        "sink": {"type": "kafka", "topic": topic, "kafka.ssl.keystore.password": SINK},
        "trigger": "availableNow",
    }
    changed["spark"] |= {"spark.master": "local[1]", "spark.ui.enabled": "false"}
    return json.dumps(changed)


class Run:
    """`assignor run` as a child process, in a folder that holds all that it and its Spark write."""

    def __init__(self, put: Path, folder: Path) -> None:
        self.said = folder / "said.txt"
        #: Those of the planner: it is to accept nothing but what its parent writes.
        self.sockets: list[str] = []
        environment = os.environ | {
            "CANARY_PASSWORD": PASSWORD, "PYTHONPATH": str(ROOT),
            "SPARK_HOME": str(link_spark_home(folder)), "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": str(folder / "scratch"),
        }  # fmt: skip
        words = ["run", str(put), "--log", str(folder / "spark.log")]
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "streaming.cli.main", *words],
                env=environment, stdout=said, stderr=said, cwd=folder,
            )  # fmt: skip

    def children(self) -> dict[int, tuple[bytes, bytes]]:
        """Command line and environment of each process below, and of itself."""
        parents = {}
        for entry in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = entry.read_text().rpartition(")")[2].split()
                parents[int(entry.parent.name)] = int(fields[1])
        found = {}
        for pid in parents:
            above = pid
            while above in parents and above != self.process.pid:
                above = parents[above]
            if above == self.process.pid:
                with contextlib.suppress(OSError):
                    place = Path(f"/proc/{pid}")
                    found[pid] = (place / "cmdline").read_bytes(), (place / "environ").read_bytes()
                    if b"assignor_bridge.worker" in found[pid][0]:
                        opened = [str(fd.readlink()) for fd in (place / "fd").iterdir()]
                        self.sockets += [name for name in opened if name.startswith("socket:")]
        return found


def fetched(url: str) -> bytes:
    """A page that must be there."""
    with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310
        return bytes(answer.read())


def pages_of(ui: str) -> dict[str, bytes]:
    """The pages of Spark's UI, of each kind that has many the first one, and of its API."""
    [application] = json.loads(fetched(f"{ui}/api/v1/applications"))
    api = f"{ui}/api/v1/applications/{application['id']}"
    pages = {page: fetched(f"{ui}/{page}") for page in PAGES}
    for page, link in LINKS.items():
        found = re.search(link, pages[page].decode())
        assert found, (page, pages[page])
        below = page + html.unescape(found[1])
        pages[below] = fetched(f"{ui}/{below}")
    for path in ("environment", "sql?details=true", "stages?details=true", "allexecutors"):
        pages[path] = fetched(f"{api}/{path}")
    return pages


class Good(NamedTuple):
    """A job that goes well, with records to read, a topic to write to, and folders."""

    yaml: Path
    topic: Topic
    sink: str
    #: What the test puts there, and below which all others write.
    put: Path
    folder: Path


def a_good_job(
    secured: Secured, tmp_path: Path, topic: str, ports: tuple[int, int], failures: Iterable[str]
) -> Good:
    """Write it, and make the folders of it and of jobs that will fail."""
    broker, address, *_ = secured
    read = Topic(broker.bootstrap_servers, f"{topic}-{os.getpid()}").create(3)
    read.fill([40, 20, 10])
    allow_all(secured, read.name)
    sink = Topic(broker.bootstrap_servers, f"{read.name}-out").create(1)
    allow_all(secured, sink.name, "WRITE")
    put, folder = tmp_path / "put", tmp_path / "written"
    put.mkdir()
    for place in (folder, *(folder / name for name in failures)):
        for made in (place, place / "events", place / "scratch"):
            made.mkdir()
    yaml = put / "job.yaml"
    yaml.write_text(job(address, read.name, folder, ports, "${CANARY_PASSWORD}"))
    return Good(yaml, read, sink.name, put, folder)


def fail(name: str, good: Good) -> dict[int, tuple[bytes, bytes]]:
    """Let a job fail by its login or in a task; give the processes that were seen."""
    folder = good.folder / name
    password = "${CANARY_PASSWORD}" if name == "task" else WRONG
    bad = good.put / f"{name}.yaml"
    bad.write_text(failing(good.yaml.read_text(), folder, password, good.sink))
    ended, seen = Run(bad, folder), {}

    def has_ended() -> bool:
        seen.update(ended.children())
        return ended.process.poll() is not None

    wait_until(has_ended, "the end of a job that fails", 120)
    assert ended.process.returncode == 1, ended.said.read_text()
    assert (PLANTED in ended.said.read_text()) == (name == "task")
    events = b"".join(path.read_bytes() for path in (folder / "events").rglob("events*"))
    assert (PLANTED.encode() in events) == (name == "task")
    return seen


def test_secrets_of_a_job_that_fails_in_a_task_are_found_nowhere_else(
    secured: Secured, tmp_path: Path
) -> None:
    """What each run of the tests looks at; the long one has executors of their own and pages."""
    good = a_good_job(secured, tmp_path, "canary-of-a-task", (0, 0), ["task"])
    seen = fail("task", good)
    assert any(b"SparkSubmit" in command for command, _ in seen.values())
    for command, environment in seen.values():
        variables = environment.split(b"\0")
        inherited = [v for v in variables if not v.startswith(b"CANARY_PASSWORD=")]
        assert secrets_in(command + b"\0".join(inherited)) == [], command
    files = {path.name for path in check_files(good.folder)}
    assert {"driver.log", "spark.log", "plans.jsonl", "said.txt"} <= files
    assert (good.folder / "task" / "driver.log").stat().st_size > 10_000  # at the level of INFO


@pytest.mark.long
@pytest.mark.timeout(600)
def test_secrets_are_found_nowhere_but_where_they_were_put(
    secured: Secured, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ports, failures = find_free_ports(None), ("task", "login")
    good = a_good_job(secured, tmp_path, "canary", ports, failures)
    topic, put, folder = good.topic, good.put, good.folder
    run = Run(good.yaml, folder)
    seen: dict[int, tuple[bytes, bytes]] = {}

    def has_read() -> bool:
        assert run.process.poll() is None, run.said.read_text()
        seen.update(run.children())
        log = folder / "log.jsonl"
        return log.exists() and '"rows":70' in log.read_text()

    try:
        wait_until(has_read, "the rows", 240)
        topic.fill([10, 10, 10], first=1000)
        ui = f"http://127.0.0.1:{ports[0]}"
        pages = pages_of(ui) | {"metrics": fetched(f"http://127.0.0.1:{ports[1]}/metrics")}
        assert all(pages.values())
        assert b"spark.hadoop.fs.s3a.secret.key" in pages["environment"]
        assert b"spark.hadoop.acme.registry" in pages["environment"]
        seen.update(run.children())
        assert any((folder / "scratch").iterdir())
        check_files(folder)  # some are gone when Spark ends
    finally:
        run.process.send_signal(signal.SIGTERM)
        code = run.process.wait(60)
    assert code == 143, run.said.read_text()
    for number, words in enumerate(commands(folder, topic.name)):
        (put / "client.properties").write_text(client(secured.address, PASSWORD))
        done = assignor(*words, "--command-config", str(put / "client.properties"))
        (folder / f"command-{number}.txt").write_text(done.stdout + done.stderr)
        assert done.returncode == 0, done.stderr
    done = assignor("report", str(folder / "checkpoint/sink"), "-o", str(folder / "report.html"))
    assert done.returncode == 0, done.stderr
    (put / "wrong.properties").write_text(client(secured.address, WRONG))
    done = assignor("lag", "--group", "g", "--command-config", str(put / "wrong.properties"))
    assert done.returncode == 1
    (folder / "refused.txt").write_text(done.stdout + done.stderr)

    for name in failures:
        seen |= fail(name, good)
    for page, text in pages.items():
        assert secrets_in(text) == [], page
    kinds = set()
    for command, environment in seen.values():
        assert secrets_in(command) == [], command
        variables = environment.split(b"\0")
        is_planner = b"assignor_bridge.worker" in command
        kinds |= {"planner"} if is_planner else set()
        kinds |= {"executor"} if b"CoarseGrainedExecutorBackend" in command else set()
        kinds |= {"driver"} if b"SparkSubmit" in command else set()
        # Spark's processes inherit the variable from ours; the planner does not.
        elsewhere = [v for v in variables if is_planner or not v.startswith(b"CANARY_PASSWORD=")]
        assert secrets_in(b"\0".join(elsewhere)) == []
    assert kinds == {"planner", "executor", "driver"}
    assert run.sockets == []
    files = check_files(folder)
    for kept in ("driver.log", "executor.log", "plans.jsonl", "m.prom", "log.jsonl", "report.html"):
        assert folder / kept in files
    parts = {path.relative_to(folder).parts for path in files}
    assert {"events", "checkpoint", "table", "spark-home"} <= {part[0] for part in parts}
    assert any("assignments" in part for part in parts)
    assert (folder / "driver.log").stat().st_size > 10_000  # at the level of INFO


def is_linked(path: Path, folder: Path) -> bool:
    """Whether it is one of the files that Spark is made of."""
    return not path.resolve().is_relative_to(folder.resolve()) or path.suffix == ".jar"


def check_files(folder: Path) -> list[Path]:
    """All that was written; those that Spark takes away meanwhile are left out."""
    files = []
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and not is_linked(path, folder):
                assert secrets_in(path.read_bytes()) == [], path
                files.append(path)
    return files


def secrets_in(text: bytes) -> list[str]:
    return find_secrets(text, SECRETS)


def assignor(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "streaming.cli.main", *words],
        capture_output=True, text=True, timeout=120, check=False, cwd=ROOT,
    )  # fmt: skip


def commands(folder: Path, topic: str) -> list[list[str]]:
    query = ["--checkpoint", str(folder / "checkpoint/sink")]
    return [["lag", *query], ["lag", "--group", topic], ["offsets", "--group", topic],
            ["doctor", *query]]  # fmt: skip


def client(address: str, password: str) -> str:
    login = LOGIN.format(user="ann", password=password)
    return (
        f"bootstrap.servers={address}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"sasl.jaas.config={login}\nssl.key.password={STORE}\n"
    )


def allow_all(secured: Secured, topic: str, *more: str) -> None:
    from confluent_kafka.admin import ResourceType

    from tests.support.secured_broker import allow

    allow(secured.broker, ResourceType.TOPIC, topic, "READ", "DESCRIBE", "DESCRIBE_CONFIGS", *more)
    allow(secured.broker, ResourceType.GROUP, topic, "READ", "DESCRIBE")

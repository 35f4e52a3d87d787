"""Run a real Spark standalone cluster on this machine, with child processes.

Each worker has its own loopback address from 127.0.0.2 on, which is a separate host for Spark.
Workers can be stopped, killed, and started again, together with their executors.
docker-compose.yml has the same processes, one per container.

`python -m tests.support.standalone_cluster 2 1 1` runs a cluster until it is interrupted. Each
number starts a worker with that number of cores.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from assignor_bridge.ivy import find_tool, pyspark_home
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Main classes, also used by docker-compose.yml.
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
#: Environment of a worker that reacts to the signal of `decommission`.
DECOMMISSIONING = {"JDK_JAVA_OPTIONS": "-Dspark.decommission.enabled=true"}


@dataclass(frozen=True)
class Worker:
    """A host with one gigabyte per core."""

    host: str
    cores: int = 1
    #: Environment of the worker, inherited by its executors: SPARK_EXECUTOR_ATTRIBUTE_RACK.
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)


def workers(*cores: int, racks: Sequence[str] = ()) -> list[Worker]:
    """Return workers with these numbers of cores on 127.0.0.2 and up, in these racks."""
    environments = [{"SPARK_EXECUTOR_ATTRIBUTE_RACK": rack} for rack in racks] or [
        {} for _ in cores
    ]
    return [
        Worker(f"127.0.0.{number}", count, env)
        for number, (count, env) in enumerate(zip(cores, environments, strict=True), start=2)
    ]


def worker_arguments(cores: int, folder: str, master: str) -> list[str]:
    return ["--cores", str(cores), "--memory", f"{cores}g", "--work-dir", folder, master]


class StandaloneCluster:
    """The running processes; created by `standalone_cluster`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.url = ""

    def start(self, *workers: Worker) -> None:
        """Start workers at the same time, and wait until the master has registered them."""
        logs = [
            self._started(
                WORKER, worker.host, worker.environment,
                *worker_arguments(worker.cores, f"{self._folder}/work-{worker.host}", self.url),
            )
            for worker in workers
        ]  # fmt: skip
        for log in logs:
            wait_until(
                lambda log=log: _find_in_log(log, r"(registered with master)"), f"{log} to join"
            )

    def stop(self, *workers: Worker) -> None:
        """Stop workers in an orderly way; each ends its executors."""
        self._stop(*(worker.host for worker in workers))

    def kill(self, worker: Worker) -> None:
        """Kill a worker and its executors, as if their host had failed."""
        process = self._running.pop(worker.host)
        _kill_group(process)
        process.wait()

    @contextlib.contextmanager
    def paused(self, worker: Worker) -> Iterator[None]:
        """Pause a worker and its executors with SIGSTOP in the `with` block."""
        group = self._running[worker.host].pid
        os.killpg(group, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(group, signal.SIGCONT)

    def decommission(self, worker: Worker) -> None:
        """Announce to a worker that its host will be removed; needs DECOMMISSIONING."""
        self._running[worker.host].send_signal(signal.SIGPWR)

    def start_master(self) -> None:
        log = self._started(MASTER, "127.0.0.1", {}, "--port", "0")
        pattern = r"Starting Spark master at (spark://\S+)"
        self.url = wait_until(lambda: _find_in_log(log, pattern), "a master")

    def stop_all(self) -> None:
        self._stop(*(host for host in self._running if host != "127.0.0.1"))
        self._stop(*self._running)

    def _started(
        self, main: str, host: str, environment: Mapping[str, str], *arguments: str
    ) -> Path:
        assert host not in self._running, f"{host} runs already"
        log = self._folder / f"{host}.log"
        settings = {  # the same as Spark's own shell scripts export
            "SPARK_LOCAL_IP": host, "SPARK_HOME": str(pyspark_home()),
            "SPARK_SCALA_VERSION": "2.13",
        }  # fmt: skip
        with log.open("wb") as out:
            self._running[host] = subprocess.Popen(
                [
                    find_tool("java"), "-Xmx128m", "-cp", f"{pyspark_home()}/jars/*",
                    main, "--host", host, "--webui-port", "0", *arguments,
                ],
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                env=os.environ | settings | environment,
            )  # fmt: skip
        return log

    def _stop(self, *hosts: str) -> None:
        ended = [self._running.pop(host) for host in hosts]
        for process in ended:
            process.terminate()
        for process in ended:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            _kill_group(process)  # an executor may outlive its worker
            process.wait()


@contextlib.contextmanager
def standalone_cluster(folder: Path, workers: Sequence[Worker]) -> Iterator[StandaloneCluster]:
    """Run a master with these workers; logs and work folders are in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = StandaloneCluster(folder)
    try:
        cluster.start_master()
        cluster.start(*workers)
        yield cluster
    finally:
        cluster.stop_all()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _find_in_log(log: Path, pattern: str) -> str | None:
    text = log.read_text(encoding="utf-8", errors="replace")
    match = re.search(pattern, text)
    return match[1] if match else None


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a Spark master and workers.")
    parser.add_argument("cores", nargs="*", type=int, default=[1, 1, 1], help="of each worker")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        tempfile.TemporaryDirectory(prefix="assignor-cluster-") as folder,
        contextlib.suppress(KeyboardInterrupt),
        standalone_cluster(Path(folder), workers(*arguments.cores)) as cluster,
    ):
        print(cluster.url, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()

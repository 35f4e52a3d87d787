"""Run a Kafka cluster of several real brokers, each a child process with its own rack.

Each process is broker and controller (KRaft), so a majority must run. Each has its own loopback
address from 127.0.0.11 on.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from streaming.kafka import embedded_setup as setup
from streaming.kafka.topics import create_topic
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from confluent_kafka.admin import PartitionMetadata

#: Setting of the brokers that allows reading from followers (KIP-392).
NEAREST_REPLICA = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"
}
_READY_LIMIT_S = 120
_STOP_LIMIT_S = 30


class BrokerCluster:
    """A context manager of brokers with ids from 1 on; their data is deleted at its end.

    Parameters
    ----------
    racks
        `broker.rack` of each broker, None for none.
    properties
        Further settings of all brokers, such as `NEAREST_REPLICA`.
    heap
        Heap of each broker, in the format of `-Xmx`.
    """

    def __init__(
        self,
        racks: Sequence[str | None] = ("a", "b", "c"),
        properties: Mapping[str, str] | None = None,
        heap: str = "256m",
    ) -> None:
        self.ids = range(1, len(racks) + 1)
        self._racks = dict(zip(self.ids, racks, strict=True))
        self._properties = dict(properties or {})
        self._heap = heap
        self._cluster_id = setup.make_cluster_id()
        self._ports: dict[int, tuple[int, int]] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._folder = Path()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(map(self._address, self.ids))

    def __enter__(self) -> BrokerCluster:
        self._folder = Path(tempfile.mkdtemp(prefix="assignor-brokers-"))
        try:
            taken: set[int] = set()
            for i in self.ids:
                self._ports[i] = find_free_ports(taken)
                taken.update(self._ports[i])
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for i in self._processes:
            self.kill(i)
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self, *ids: int) -> None:
        """Start these brokers, or all, and wait until they answer."""
        jars = setup.fetch_jars(None)
        started = set(ids or self.ids)
        for i in started:
            if self.pid(i) is None:
                if i in self._processes:
                    self._wait_for_end(i)  # it may have crashed
                self._processes[i] = self._start_process(i, jars)
        wait_until(lambda: all(map(self._answers, started)), f"brokers {started}", _READY_LIMIT_S)

    def stop(self, i: int) -> None:
        """Stop a broker in an orderly way, so that it hands over its leaderships."""
        self.resume(i)
        self._processes[i].terminate()
        self._wait_for_end(i)

    def kill(self, i: int) -> None:
        self._processes[i].kill()
        self._wait_for_end(i)

    def pause(self, i: int) -> None:
        """Pause a broker: its connections stay open, but it does not answer."""
        self._processes[i].send_signal(signal.SIGSTOP)

    def resume(self, i: int) -> None:
        self._processes[i].send_signal(signal.SIGCONT)

    def pid(self, i: int) -> int | None:
        process = self._processes.get(i)
        return process.pid if process and process.poll() is None else None

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def create_topic(
        self,
        name: str,
        partitions: int,
        replication: int,
        config: Mapping[str, str] | None = None,
        replicas: Sequence[int] = (),
    ) -> None:
        """Create a topic, and wait until all running brokers know a leader of each partition."""
        if replicas:
            assignment = [list(replicas)] * partitions
            topic = NewTopic(
                name, partitions, replica_assignment=assignment, config=dict(config or {})
            )
            admin = self.admin()  # a reference is needed until the answer arrives
            admin.create_topics([topic])[name].result(60)
        else:
            create_topic(self.bootstrap_servers, name, partitions, config, replication)
        for i in filter(self.pid, self.ids):
            wait_until(partial(self._knows, i, name, partitions), f"the leaders at broker {i}")

    def log_folder(self, i: int) -> Path:
        return self._folder / str(i) / "log"

    def log(self, i: int) -> str:
        """Return the last warnings and errors that a broker logged."""
        text = (self._folder / str(i) / "broker.log").read_text(errors="replace")
        return " | ".join(text.strip().splitlines()[-20:])

    def partitions(self, topic: str) -> Collection[PartitionMetadata]:
        partitions: dict[int, PartitionMetadata]
        partitions = self.admin().list_topics(topic, timeout=10).topics[topic].partitions
        return partitions.values()

    def _answers(self, i: int) -> bool:
        """Whether a broker serves requests and has joined the cluster."""
        if self.pid(i) is None:
            raise AssertionError(f"broker {i} ended: {self.log(i)}")
        admin = AdminClient({"bootstrap.servers": self._address(i), "log_level": 0})
        with suppress(KafkaException):
            return i in admin.list_topics(timeout=2.0).brokers
        return False

    def _knows(self, i: int, topic: str, partitions: int) -> bool:
        """Whether a broker reports a leader of each partition; it may learn them one by one."""
        admin = AdminClient({"bootstrap.servers": self._address(i), "log_level": 0})
        with suppress(KafkaException):
            metadata = admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
            return sum(p.leader in self.ids for p in metadata) == partitions
        return False

    def _wait_for_end(self, i: int) -> None:
        process = self._processes[i]
        process.wait(_STOP_LIMIT_S)
        assert process.stdin
        process.stdin.close()  # closed last, because that ends the broker and removes its data

    def _address(self, i: int) -> str:
        return f"{_get_host(i)}:{self._ports[i][0]}"

    def _start_process(self, i: int, jars: list[Path]) -> subprocess.Popen[bytes]:
        folder = self._folder / str(i)
        folder.mkdir(exist_ok=True)
        settings = folder / "broker.properties"
        text = setup.format_settings(self._ports[i], folder, self._settings(i))
        settings.write_text(text, encoding="utf-8")
        is_new = not (folder / "log" / "meta.properties").exists()
        cluster_id = self._cluster_id if is_new else None
        with (folder / "broker.log").open("ab") as log:
            return subprocess.Popen(
                setup.build_command(jars, settings, cluster_id, folder, heap=self._heap),
                stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _settings(self, i: int) -> dict[str, str]:
        _, controller = self._ports[i]
        listener = f"PLAINTEXT://{self._address(i)}"
        copies = str(min(3, len(self.ids)))
        rack = self._racks[i]
        return {
            "node.id": str(i),
            "controller.quorum.voters": ",".join(
                f"{n}@{_get_host(n)}:{self._ports[n][1]}" for n in self.ids
            ),
            "listeners": f"{listener},CONTROLLER://{_get_host(i)}:{controller}",
            "advertised.listeners": listener,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            **({} if rack is None else {"broker.rack": rack}),
            **self._properties,
        }


def _get_host(i: int) -> str:
    return f"127.0.0.{10 + i}"


def find_free_ports(taken: set[int]) -> tuple[int, int]:
    while taken & set(ports := setup.find_free_ports(None)):
        continue
    return ports

"""The embedded broker is a real one, keeps data when told to, and never outlives its starter."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from assignor_bridge.errors import OptionError
from assignor_bridge.ivy import JarError
from streaming.kafka import embedded_setup
from streaming.kafka.embedded import BrokerError, EmbeddedBroker
from streaming.kafka.topics import TopicError
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.integration, pytest.mark.drivers]


def is_running(pid: int) -> bool:
    """Whether the process is there; one that has ended but is not yet reaped is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def produce(broker: EmbeddedBroker, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    assert producer.flush(30) == 0


def consume(broker: EmbeddedBroker, topic: str, count: int) -> list[str]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "test"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [m.value().decode() for m in consumer.consume(count, timeout=30) if not m.error()]
    finally:
        consumer.close()


@pytest.mark.long
def test_records_and_address_survive_a_restart_and_a_kill():
    with EmbeddedBroker(properties={"log.retention.ms": "3600000"}) as broker:
        broker.create_topic("kept", 3, {"max.message.bytes": "2000000"})
        produce(broker, "kept", ["a"])
        address, pid = broker.bootstrap_servers, broker.pid
        broker.restart()
        assert (broker.bootstrap_servers, broker.pid != pid) == (address, True)
        produce(broker, "kept", ["b"])
        broker.kill()
        broker.start()
        assert broker.bootstrap_servers == address
        assert consume(broker, "kept", 2) == ["a", "b"]
        assert len(broker.admin().list_topics("kept", timeout=10).topics["kept"].partitions) == 3
        folder, pid = broker.folder, broker.pid
        with pytest.raises(
            TopicError, match=r"topic 'kept' could not be created: .*already exists"
        ):
            broker.create_topic("kept", 3)
        assert "log.retention.ms=3600000" in (folder / "broker.properties").read_text()
    assert not folder.exists()
    assert pid is not None
    assert not is_running(pid)


@pytest.mark.long
def test_a_given_folder_keeps_the_records_for_the_next_broker(tmp_path, monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")  # where Java knows ASCII only
    tmp_path = tmp_path / "Größe µ"  # Kafka reads its properties as Latin-1
    with pytest.raises(OptionError, match="use one without a comma"):
        EmbeddedBroker(data=tmp_path / "a,b").start()
    with EmbeddedBroker(data=tmp_path / "data") as broker:
        assert (tmp_path / "data" / "log" / "meta.properties").is_file()
        broker.create_topic("kept", 1)
        produce(broker, "kept", ["a"])
        second = EmbeddedBroker(data=tmp_path / "data")
        with pytest.raises(BrokerError, match=r"ended with exit code 1: another broker is using"):
            second.start()
        second.close()
    with EmbeddedBroker(data=tmp_path / "data") as broker:
        assert consume(broker, "kept", 1) == ["a"]


def test_a_taken_port_is_refused_when_given_and_replaced_when_chosen_by_us(monkeypatch):
    with socket.socket() as taken:
        taken.bind((embedded_setup.HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OptionError, match=f"port {port} on 127.0.0.1 is in use"):
            EmbeddedBroker(port=port).start()
        # The port is taken between our look and the broker's start, once.
        real, answers = embedded_setup.find_free_ports, [(port, 20_001)]
        monkeypatch.setattr(
            embedded_setup,
            "find_free_ports",
            lambda given: answers.pop() if answers else real(given),
        )
        with EmbeddedBroker() as broker:
            assert broker.port != port
            assert answers == []


def test_a_broker_that_does_not_start_says_why_and_leaves_nothing():
    broker = EmbeddedBroker(properties={"log.retention.ms": "soon"})
    with pytest.raises(BrokerError, match=r"Invalid value soon for configuration log.retention.ms"):
        broker.start()
    assert broker.pid is None
    with pytest.raises(BrokerError, match="start it first"):
        _ = broker.folder


def test_a_missing_jdk_is_one_clear_line(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        JarError, match=r"'java' was not found in JAVA_HOME .*: install a JDK 17 or 21"
    ):
        EmbeddedBroker().start()


STARTER = """
import sys
from pathlib import Path
from streaming.kafka.embedded import EmbeddedBroker
broker = EmbeddedBroker(data=Path(sys.argv[1]) if len(sys.argv) > 1 else None)
broker.start()
print(broker.pid, broker.folder, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("kept", [False, True], ids=["temporary data", "kept data"])
def test_the_broker_ends_when_its_starter_is_killed(tmp_path, kept):
    arguments = [str(tmp_path / "data")] if kept else []
    pid, folder = orphaned_broker(*arguments)
    wait_until(lambda: not is_running(pid), f"end of the orphaned broker {pid}")
    assert folder.exists() == kept


def test_the_broker_ends_although_its_temporary_folder_cannot_be_removed():
    pid, folder = orphaned_broker(before_kill=make_unwalkable)
    try:
        wait_until(lambda: not is_running(pid), f"end of the orphaned broker {pid}")
    finally:
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder)


def orphaned_broker(
    *arguments: str, before_kill: Callable[[Path], None] = lambda folder: None
) -> tuple[int, Path]:
    """Start a broker in another process and kill that one; the broker's id and folder."""
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        pid, folder = starter.stdout.readline().split()
        assert is_running(int(pid))
        before_kill(Path(folder))
        starter.kill()
    return int(pid), Path(folder)


def make_unwalkable(folder: Path) -> None:
    """Add folders so deep that the path is longer than the system allows."""
    name = "d" * 250
    here = os.open(folder, os.O_RDONLY)
    for _ in range(20):
        os.mkdir(name, dir_fd=here)
        inside = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inside
    os.close(here)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_the_address_and_stops_on_a_signal(number, tmp_path):
    command = [sys.executable, "-m", "streaming.cli.main", "broker", "--data", str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        host, _, port = process.stdout.readline().strip().partition(":")
        assert host == "127.0.0.1"
        assert embedded_setup.accepts_connections(int(port))
        os.kill(process.pid, number)
        _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, "")
    assert not embedded_setup.accepts_connections(int(port))

"""Prepare what the embedded broker needs to start: jars, launcher, ports and settings."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import socket
import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from assignor_bridge import ivy
from assignor_bridge.errors import AssignorError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KAFKA = "org.apache.kafka:kafka_2.13:4.1.0"
#: Kafka's jars contain no SLF4J provider; this one prints to stdout, which is the log file.
LOGGER = "org.slf4j:slf4j-simple:1.7.36"
HOST = "127.0.0.1"
LAUNCHER = Path(__file__).parent / "GuardedBroker.java"
# Below the ports that Linux, macOS and Windows assign to clients, so that a client's own
# connection cannot take a broker's port while the broker restarts.
_PORTS = range(20_000, 32_000)


class BrokerError(AssignorError):
    """The embedded broker did not start, or ended by itself."""


def fetch_jars(on_line: Callable[[str], None] | None = None) -> list[Path]:
    """Return the broker's class path; the first call downloads Kafka and compiles the launcher."""
    paths = [*ivy.fetch(LOGGER, on_line=on_line), *ivy.fetch(KAFKA, on_line=on_line)]
    jar_by_name = {path.name: path for path in paths}
    kafka_jars = [jar_by_name[name] for name in sorted(jar_by_name)]
    return [_compile_launcher(kafka_jars), *kafka_jars]


def build_command(
    jars: list[Path], settings: Path, cluster_id: str | None, temp_folder: Path | None, *, heap: str
) -> list[str]:
    """Return the command that starts the broker.

    With a `cluster_id`, the launcher first formats the data folder. When this process ends, the
    launcher deletes `temp_folder`, if given.
    """
    log_settings = {"defaultLogLevel": "warn", "logFile": "System.out", "showDateTime": "true"}
    log_settings["dateTimeFormat"] = "HH:mm:ss.SSS"
    log_options = [
        f"-Dorg.slf4j.simpleLogger.{name}={value}" for name, value in log_settings.items()
    ]
    options = [f"-Xmx{heap}", "-Djava.awt.headless=true", *log_options]
    class_path = os.pathsep.join(map(str, jars))
    arguments = [str(settings), cluster_id or "-", str(temp_folder or "-")]
    return [ivy.find_tool("java"), *options, "-cp", class_path, LAUNCHER.stem, *arguments]


def format_settings(ports: tuple[int, int], folder: Path, properties: Mapping[str, str]) -> str:
    """Return the text of the broker's properties file; `properties` override the defaults."""
    broker_port, controller_port = ports
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{broker_port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{broker_port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(folder / "log"),
        "auto.create.topics.enable": "false",
        # After a kill, the broker can rejoin only when its old session has ended.
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "log.cleaner.dedupe.buffer.size": str(32 * 1024 * 1024),  # fits into the small heap
        **properties,
    }
    # Java reads properties files as Latin-1, and understands JSON's escapes.
    return "".join(f"{key}={json.dumps(value)[1:-1]}\n" for key, value in values.items())


def _compile_launcher(jars: list[Path]) -> Path:
    """Return the folder of the compiled launcher; compile it if its source is new."""
    source_hash = hashlib.sha256(LAUNCHER.read_bytes()).hexdigest()[:12]
    target = ivy.cache_folder() / "broker" / source_hash
    if target.is_dir():
        return target
    with ivy.create_folder(target) as folder:
        options = ["--release", "17", "-cp", os.pathsep.join(map(str, jars)), "-d", str(folder)]
        command = [ivy.find_tool("javac"), *options, str(LAUNCHER)]
        javac = subprocess.run(command, capture_output=True, text=True, check=False)
        if javac.returncode != 0:
            reason = " | ".join(javac.stderr.strip().splitlines()[-3:])
            raise BrokerError(f"the embedded broker needs a JDK 17 or 21; javac failed: {reason}")
    return target


def make_cluster_id() -> str:
    """Return a random cluster ID; it never starts with '-', which would start an option."""
    return "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]


def read_cluster_id(meta_file: Path) -> str:
    """Return the cluster ID in a data folder's `meta.properties`; raise BrokerError if none."""
    for line in meta_file.read_text(encoding="utf-8").splitlines():
        if line.startswith("cluster.id="):
            return line.partition("=")[2].strip()
    raise BrokerError(f"{meta_file} has no cluster.id: choose the data folder of a Kafka broker")


def find_free_ports(fixed_port: int | None) -> tuple[int, int]:
    """Return two free ports, the first one `fixed_port` if given.

    Raises OptionError if `fixed_port` is not free, and BrokerError if no other port is found.
    """
    if fixed_port is not None and not is_free(fixed_port):
        raise OptionError(f"port {fixed_port} on {HOST} is in use or not allowed: choose another")
    ports = [] if fixed_port is None else [fixed_port]
    for port in random.SystemRandom().sample(_PORTS, 200):
        if port not in ports and is_free(port):
            ports.append(port)
        if len(ports) == 2:
            return ports[0], ports[1]
    raise BrokerError(
        f"of 200 ports on {HOST}, from {_PORTS.start} to {_PORTS.stop - 1}, fewer than two are free"
    )


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError):
            return False
    return True


def accepts_connections(port: int) -> bool:
    """Return whether a server listens on the port now."""
    try:
        with socket.create_connection((HOST, port), timeout=1.0):
            return True
    except OSError:
        return False

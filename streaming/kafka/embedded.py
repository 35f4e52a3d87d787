"""A real Kafka broker in a child process, for the demo, the examples and the tests.

It is one node in KRaft's combined mode. Its jars are downloaded once, into the user's cache. The
broker ends with the Python process that started it, even if that process is killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from assignor_bridge.errors import OptionError
from streaming.kafka import embedded_setup as setup
from streaming.kafka.embedded_setup import BrokerError
from streaming.kafka.topics import create_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_START_ATTEMPTS = 5
_HEAP = "512m"
#: Time limit until a started broker answers a metadata request.
_READY_LIMIT_S = 90.0
_STOP_LIMIT_S = 20.0
_MAX_LOG_LINES = 4


class EmbeddedBroker:
    """One real Kafka broker on this machine, as a context manager.

    Parameters
    ----------
    data
        Folder, which is kept, for data, settings, and log; if None, a temporary one until `close`.
    port
        Port of the broker; if None, a free port, which is used until `close`.
    properties
        Broker settings that extend or override the defaults.
    on_line
        Called with each line that the first download of Kafka prints.

    Examples
    --------
    >>> with EmbeddedBroker() as broker:  # doctest: +SKIP
    ...     broker.create_topic("orders", partitions=12)
    ...     print(broker.bootstrap_servers)
    """

    def __init__(
        self,
        *,
        data: Path | None = None,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        self._data = data
        self._requested_port = port
        self._properties = dict(properties or {})
        self._on_line = on_line
        self._folder: Path | None = None
        self._ports: tuple[int, int] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        #: Size of the log file in bytes, when the broker was last started.
        self._log_size_at_start = 0

    @property
    def port(self) -> int:
        """Port that the broker listens on, from its first start until `close`."""
        if self._ports is None:
            raise BrokerError("the embedded broker has no port: start it first")
        return self._ports[0]

    @property
    def bootstrap_servers(self) -> str:
        """Address for `kafka.bootstrap.servers`."""
        return f"{setup.HOST}:{self.port}"

    @property
    def folder(self) -> Path:
        """Folder with data, settings and the log, from the first start until `close`."""
        if self._folder is None:
            raise BrokerError("the embedded broker has no folder: start it first")
        return self._folder

    @property
    def log_file(self) -> Path:
        """File with the broker's warnings and errors."""
        return self.folder / "broker.log"

    @property
    def pid(self) -> int | None:
        """Process ID of the broker; None if it is not running."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def __enter__(self) -> EmbeddedBroker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the broker and wait until it answers; a restart keeps its port and data.

        Raises OptionError if the given port or data folder cannot be used, JarError if Java or
        Kafka's jars are missing, and BrokerError, usually with log lines, for any other failure.
        """
        if self.pid is not None:
            return
        jars = setup.fetch_jars(self._on_line)
        self._prepare_folder()
        # A port that the user chose or that clients have used cannot be replaced, only tried again.
        is_fixed = self._requested_port is not None or self._ports is not None
        remaining_attempts = 2 if is_fixed else _START_ATTEMPTS
        try:
            while not self._start_once(jars, is_last=remaining_attempts == 1):
                remaining_attempts -= 1
        except BaseException:
            self._end_process()
            if self._ports is None:
                self._remove_temporary_folder()
            raise

    def stop(self) -> None:
        """Shut the broker down, or kill it after 20 s; keep data and port for another start."""
        self._end_process()

    def kill(self) -> None:
        """Kill the broker like kill -9; keep data and port for another start."""
        self._end_process(kill=True)

    def restart(self) -> None:
        """Stop the broker and start it again, on the same port and data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the broker; remove its folder if it is temporary."""
        self._end_process(kill=self._data is None)
        self._remove_temporary_folder()
        self._ports = None

    def check_alive(self) -> None:
        """Raise BrokerError, which quotes the log, if the broker has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise BrokerError(
                f"the embedded broker ended with exit code {self._process.returncode}: "
                + self._summarize_log()
            )

    def admin(self) -> AdminClient:
        """Return an admin client of the broker."""
        return AdminClient({"bootstrap.servers": self.bootstrap_servers})

    def create_topic(
        self, name: str, partitions: int, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic, and wait until each partition has a leader, or raise TopicError."""
        create_topic(self.bootstrap_servers, name, partitions, config)

    def _prepare_folder(self) -> None:
        if self._data is None:
            self._folder = self._folder or Path(tempfile.mkdtemp(prefix="assignor-broker-"))
            return
        try:
            self._data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(
                f"broker data folder {str(self._data)!r} cannot be used: {error}"
            ) from error
        self._folder = self._data.resolve()
        if "," in str(self._folder):  # Kafka would read it as two folders
            raise OptionError(f"broker data folder {str(self._folder)!r}: use one without a comma")

    def _start_once(self, jars: list[Path], *, is_last: bool) -> bool:
        """Start on one pair of ports; return False if another process took one of them."""
        ports = self._ports or setup.find_free_ports(self._requested_port)
        meta_file = self.folder / "log" / "meta.properties"
        cluster_id = setup.make_cluster_id() if not meta_file.exists() else None
        settings_file = self.folder / "broker.properties"
        text = setup.format_settings(ports, self.folder, self._properties)
        settings_file.write_text(text, encoding="utf-8")
        temp_folder = self.folder if self._data is None else None
        command = setup.build_command(jars, settings_file, cluster_id, temp_folder, heap=_HEAP)
        env = {**os.environ, "LC_ALL": "C.UTF-8"}  # for non-ASCII folder names
        with self.log_file.open("ab") as log:
            self._log_size_at_start = log.tell()
            # In a new session: Ctrl-C reaches only this process, which then stops the broker.
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": log, "stderr": log}
            self._process = subprocess.Popen(command, env=env, start_new_session=True, **pipes)
        try:
            self._await_ready(ports[0], cluster_id or setup.read_cluster_id(meta_file))
        except BrokerError:
            is_port_taken = not all(map(setup.is_free, ports))
            if is_last or self._process.poll() is None or not is_port_taken:
                raise
            self._end_process(kill=True)
            return False
        self._ports = ports
        return True

    def _await_ready(self, port: int, cluster_id: str) -> None:
        problem = "no connection was accepted"
        deadline_s = time.monotonic() + _READY_LIMIT_S
        while not setup.accepts_connections(port) and time.monotonic() < deadline_s:
            self.check_alive()
            time.sleep(0.05)
        admin = AdminClient({"bootstrap.servers": f"{setup.HOST}:{port}", "log_level": 0})
        while time.monotonic() < deadline_s:
            self.check_alive()
            try:
                metadata = admin.list_topics(timeout=1.0)
            except KafkaException as error:
                problem = error.args[0].str()
                continue
            self.check_alive()
            if metadata.cluster_id != cluster_id:
                raise BrokerError(
                    f"port {port} is in use by another Kafka cluster ({metadata.cluster_id}): "
                    "choose another"
                )
            if metadata.brokers:
                return
            problem = "the metadata lists no broker yet"
        raise BrokerError(
            f"the embedded broker was not ready after {_READY_LIMIT_S:g} s ({problem}): "
            + self._summarize_log()
        )

    def _summarize_log(self) -> str:
        """Join up to four log lines since the last start: from the first error on, or the last."""
        try:
            content = self.log_file.read_bytes()[self._log_size_at_start :].decode(errors="replace")
        except OSError:
            content = ""
        # Omit stack traces, and the options that a JVM prints from its environment variables.
        skipped_prefixes = ("\tat ", "Picked up ")
        raw_lines = (x for x in content.splitlines() if not x.startswith(skipped_prefixes))
        lines = [line.strip() for line in raw_lines if line.strip()]
        first_line = next((i for i, line in enumerate(lines) if " ERROR " in line), -_MAX_LOG_LINES)
        return " | ".join(lines[first_line:][:_MAX_LOG_LINES]) or f"nothing new in {self.log_file}"

    def _end_process(self, *, kill: bool = False) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with process:  # closes its stdin and waits
            if not kill:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_STOP_LIMIT_S)
            process.kill()

    def _remove_temporary_folder(self) -> None:
        if self._data is None and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

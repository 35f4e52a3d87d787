"""A real Kafka broker in a child process, for the demo, the examples and the tests.

One node in KRaft's combined mode, with jars that are fetched once into the user's cache. It lives
no longer than the Python process that started it, however that one ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

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
#: How long a start may take until the broker answers a metadata request.
_READY_LIMIT_S = 90.0
_STOP_LIMIT_S = 20.0
_TAIL_LINES = 4


class EmbeddedBroker:
    """One real Kafka broker on this machine, as a context manager.

    Parameters
    ----------
    data
        Folder for logs and metadata, kept; None for a temporary one that is removed at the end.
    port
        Port of the broker; None for a free one, kept over restarts.
    properties
        Broker settings that are added to ours or replace them.
    on_line
        Called with each line that the download of Kafka prints, the first time.

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
        self._given_port = port
        self._properties = dict(properties or {})
        self._on_line = on_line
        self._folder: Path | None = None
        self._ports: tuple[int, int] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def port(self) -> int:
        """Port that the broker listens on; known once it was started."""
        if self._ports is None:
            raise BrokerError("the embedded broker has no port yet: start it first")
        return self._ports[0]

    @property
    def bootstrap_servers(self) -> str:
        """Address for `kafka.bootstrap.servers`."""
        return f"{setup.HOST}:{self.port}"

    @property
    def folder(self) -> Path:
        """Folder that holds data, settings and the log; known once it was started."""
        if self._folder is None:
            raise BrokerError("the embedded broker has no folder yet: start it first")
        return self._folder

    @property
    def log_file(self) -> Path:
        """What the broker logged, warnings and worse."""
        return self.folder / "broker.log"

    @property
    def pid(self) -> int | None:
        """Process id of the running broker, None when it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def __enter__(self) -> EmbeddedBroker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the broker and return when it answers; on the same port and data after a stop.

        Raises
        ------
        OptionError
            When the given port is taken or the data folder cannot be used.
        BrokerError
            When the broker ends or does not answer in time; with the end of its log.
        """
        if self.pid is not None:
            return
        jars = setup.fetch_jars(self._on_line)
        self._prepare_folder()
        # The user, or clients after a restart, rely on a port that is known: it may get free yet.
        is_fixed = self._given_port is not None or self._ports is not None
        attempts = 2 if is_fixed else _START_ATTEMPTS
        try:
            while not self._start_once(jars, is_last=attempts == 1):
                attempts -= 1
        except BaseException:
            self._end_process()
            if self._ports is None:
                self._remove_temporary()
            raise

    def stop(self) -> None:
        """Stop the broker in an orderly way; data and port are kept for another start."""
        self._end_process()

    def kill(self) -> None:
        """Stop the broker as kill -9 does; data and port are kept for another start."""
        self._end_process(kill=True)

    def restart(self) -> None:
        """Stop and start again, on the same port and data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the broker; remove its folder if it is temporary."""
        self._end_process(kill=self._data is None)
        self._remove_temporary()
        self._ports = None

    def check_alive(self) -> None:
        """Raise BrokerError, with the end of the log, when the broker has ended by itself."""
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
        """Create a topic, and return when each partition has a leader."""
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
        if "," in str(self._folder):  # Kafka would take it for two
            raise OptionError(f"broker data folder {str(self._folder)!r}: no comma is possible")

    def _start_once(self, jars: list[Path], *, is_last: bool) -> bool:
        """Start on one pair of ports; False when one of them turned out to be taken."""
        ports = self._ports or setup.find_free_ports(self._given_port)
        meta = self.folder / "log" / "meta.properties"
        cluster_id = setup.make_cluster_id() if not meta.exists() else None
        settings = self.folder / "broker.properties"
        settings.write_text(
            setup.format_settings(ports, self.folder, self._properties), encoding="utf-8"
        )
        temporary = self.folder if self._data is None else None
        command = setup.build_command(jars, settings, cluster_id, temporary, heap=_HEAP)
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            # A session of its own: Ctrl-C in the terminal is for us, we then stop the broker.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "LC_ALL": "C.UTF-8"},  # for names of folders
            )  # fmt: skip
        try:
            self._await_ready(ports[0], cluster_id or setup.read_cluster_id(meta))
        except BrokerError:
            taken = not all(map(setup.is_free, ports))  # by another: ours has ended
            if is_last or self._process.poll() is None or not taken:
                raise
            self._end_process(kill=True)
            return False
        self._ports = ports
        return True

    def _await_ready(self, port: int, cluster_id: str) -> None:
        state = "no connection was accepted"
        deadline = time.monotonic() + _READY_LIMIT_S
        while not setup.accepts_connections(port) and time.monotonic() < deadline:
            self.check_alive()
            time.sleep(0.05)
        admin = AdminClient({"bootstrap.servers": f"{setup.HOST}:{port}", "log_level": 0})
        while time.monotonic() < deadline:
            self.check_alive()
            try:
                metadata = admin.list_topics(timeout=1.0)
            except KafkaException as error:
                state = error.args[0].str()
                continue
            self.check_alive()
            if metadata.cluster_id != cluster_id:
                raise BrokerError(
                    f"port {port} answers for another cluster ({metadata.cluster_id})"
                )
            if metadata.brokers:
                return
            state = "no broker is in the metadata yet"
        raise BrokerError(
            f"the embedded broker was not ready after {_READY_LIMIT_S:g} s ({state}): "
            + self._summarize_log()
        )

    def _summarize_log(self) -> str:
        """Sum up the log since the last start: from its first error on, without traces."""
        try:
            content = self.log_file.read_bytes()[self._log_start :].decode(errors="replace")
        except OSError:
            content = ""
        # A JVM begins with the options that it has picked up from the environment.
        skipped = ("\tat ", "Picked up ")
        lines = [
            line.strip()
            for line in content.splitlines()
            if line.strip() and not line.startswith(skipped)
        ]
        first = next((i for i, line in enumerate(lines) if " ERROR " in line), -_TAIL_LINES)
        return " | ".join(lines[first:][:_TAIL_LINES]) or f"nothing is in {self.log_file}"

    def _end_process(self, *, kill: bool = False) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with process:  # closes its stdin, and waits
            if not kill:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_STOP_LIMIT_S)
            process.kill()

    def _remove_temporary(self) -> None:
        if self._data is None and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

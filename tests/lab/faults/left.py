"""What is left of a query that has stopped: processes, threads, consumers, files, connections."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.shared_reader_tools import read_counters
from tests.support.spark_tools import wait_until, wait_until_none

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from tests.lab.faults.scene import Scene

#: Columns of /proc/PID/net/tcp.
_REMOTE, _INODE = 2, 9


@dataclass(frozen=True)
class Descriptors:
    """Connections of the driver to brokers, its pipes (as to the planner), and its threads."""

    connections: int
    pipes: int
    #: Numbers of the threads of assignor-bridge.
    threads: frozenset[int]


def descriptors_of_driver(scene: Scene) -> Descriptors:
    """Count them; before the query, what other queries of the session have left."""
    driver, brokers = scene.driver(), f"{scene.topic.bootstrap_servers},"
    ports = {
        int(address.rpartition(":")[2])
        for address in (brokers + scene.direct.bootstrap_servers).split(",")
    }
    pipes = sum(link.startswith("pipe:") for link in links(driver))
    return Descriptors(connections_to(driver, ports), pipes, frozenset(scene.threads()))


def check_nothing_left(scene: Scene, before: Descriptors) -> None:
    """After the query: no planner, thread, consumer, descriptor or file of an unfinished write."""
    wait_until_none(scene.planners, "the end of the planner")
    wait_until_none(
        lambda: [text for number, text in scene.threads().items() if number not in before.threads],
        "the end of the threads of assignor-bridge",
    )
    wait_until(
        lambda: (now := read_counters(scene.spark))["created"] <= now["closed"] + now["idle"],
        "the consumers to be idle or closed",
    )

    def too_many() -> list[str]:
        now, found = descriptors_of_driver(scene), []
        for name in ("connections", "pipes"):
            is_, was = getattr(now, name), getattr(before, name)
            found += [f"{is_} {name} of the driver, {was} before"] if is_ > was else []
        for pid in (scene.driver(), *scene.executors()):
            found += files_below(pid, (scene.checkpoint, scene.table))
        return found

    wait_until_none(too_many, "descriptors to be closed")
    unfinished = [
        path for path in Path(scene.checkpoint).rglob("*")
        if path.parent.name == "assignments" and ".tmp" in path.name
    ]  # fmt: skip
    assert not unfinished


def links(pid: int) -> Iterator[str]:
    """Yield what the descriptors of a process lead to: paths, `socket:[…]`, `pipe:[…]`."""
    with contextlib.suppress(OSError):  # it has ended
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # it was closed
                yield str(entry.readlink())


def files_below(pid: int, folders: tuple[str, ...]) -> list[str]:
    """Files that a process has open below these folders, deleted ones too."""
    return [link for link in links(pid) if any(link.startswith(f"{each}/") for each in folders)]


def connections_to(pid: int, ports: Set[int]) -> int:
    """How many connections a process has to these ports."""
    ours = {link for link in links(pid) if link.startswith("socket:")}
    found = 0
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            port = int(fields[_REMOTE].rpartition(":")[2], 16)
            found += port in ports and f"socket:[{fields[_INODE]}]" in ours
    return found

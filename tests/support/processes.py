"""Processes by what the kernel tells of each: those below another one, and what they are."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLANNER = "assignor_bridge.worker"


def read_stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat after the name: 0 is the state, 1 the parent."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def has_ended(pid: int) -> bool:
    """Whether a process is gone, but for its parent's asking."""
    try:
        return read_stat(pid)[0] == "Z"
    except OSError:
        return True


def list_descendants(parent: int) -> list[int]:
    """Process ids of a living process and its descendants, zombies left out."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            fields = read_stat(int(entry.name))
            if fields[0] not in "ZX":
                parents[int(entry.name)] = int(fields[1])
    return sorted(pid for pid in parents if _is_below(pid, parent, parents))


def find_processes(parent: int, words: str) -> list[int]:
    """Process ids whose command line has these words."""
    return [pid for pid in list_descendants(parent) if words in read_command_line(pid)]


def find_planners(parent: int) -> list[int]:
    """Process ids of the planner processes."""
    return find_processes(parent, _PLANNER)


def is_planner(pid: int) -> bool:
    """Whether it is one, and lives."""
    return _PLANNER in read_command_line(pid)


def read_command_line(pid: int) -> str:
    """Return a process's command line with NUL between its words, empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def _is_below(pid: int, ancestor: int, parents: Mapping[int, int]) -> bool:
    while pid in parents and pid != ancestor:
        pid = parents[pid]
    return pid == ancestor

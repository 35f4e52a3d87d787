"""Find processes in /proc: the descendants of a process, and the planners among them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLANNER = "assignor_bridge.worker"


def read_stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name; 0 is the state, 1 is the parent."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def has_ended(pid: int) -> bool:
    """Whether a process has ended; its parent may not have waited for it yet."""
    try:
        return read_stat(pid)[0] == "Z"
    except OSError:
        return True


def list_descendants(parent: int) -> list[int]:
    """Return the ids of a running process and its descendants, without zombies."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            fields = read_stat(int(entry.name))
            if fields[0] not in "ZX":
                parents[int(entry.name)] = int(fields[1])
    return sorted(pid for pid in parents if _is_below(pid, parent, parents))


def find_processes(parent: int, words: str) -> list[int]:
    """Return the ids of descendants with these words in their command line."""
    return [pid for pid in list_descendants(parent) if words in read_command_line(pid)]


def find_planners(parent: int) -> list[int]:
    return find_processes(parent, _PLANNER)


def is_planner(pid: int) -> bool:
    return _PLANNER in read_command_line(pid)


def read_command_line(pid: int) -> str:
    """Return a process's command line with NUL between words; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def _is_below(pid: int, ancestor: int, parents: Mapping[int, int]) -> bool:
    while pid in parents and pid != ancestor:
        pid = parents[pid]
    return pid == ancestor

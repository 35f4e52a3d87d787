"""Mount a small file system that can be filled up or made read-only; needs root."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BLOCK = bytes(4096)


class NotPossibleError(Exception):
    """This machine does not support a test; the message says what is required."""


@contextlib.contextmanager
def mount_small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a file system in memory at a folder for the `with` block."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        raise NotPossibleError(
            "mounting a small file system needs root and a kernel that allows it"
        )
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_up(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", 0) as file, contextlib.suppress(OSError):
        while True:
            file.write(_BLOCK)
    return filler


def remount(disk: Path, how: str) -> bool:
    """Remount as read-only (`ro`) or writable (`rw`); return False if a file is being written."""
    command = ["mount", "-o", f"remount,{how}", str(disk)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0

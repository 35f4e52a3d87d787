"""Files that commands write: refused in one line before the work, not after it."""

import os
from pathlib import Path

from assignor_bridge.errors import OptionError


def check_writable(option: str, path: Path) -> None:
    """Refuse a file whose folder is not there or cannot be written."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise OptionError(f"{option} {path}: it cannot be written: its folder does not exist")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise OptionError(f"{option} {path}: it cannot be written (permission denied)")


def write(option: str, path: Path, text: str) -> None:
    """Write a file."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{option} {path}: it cannot be written ({error.strerror})") from error

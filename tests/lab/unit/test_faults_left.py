"""What a process has open is seen, and seen to be closed."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from tests.lab.faults.left import connections_to, files_below, links

if TYPE_CHECKING:
    from pathlib import Path


def test_files_are_seen_even_when_they_are_deleted(tmp_path: Path) -> None:
    with (tmp_path / "state").open("w") as file:
        assert files_below(os.getpid(), (str(tmp_path),)) == [file.name]
        (tmp_path / "state").unlink()
        assert len(files_below(os.getpid(), (str(tmp_path),))) == 1
        assert files_below(os.getpid(), (f"{tmp_path}x",)) == []
    assert files_below(os.getpid(), (str(tmp_path),)) == []


def test_connections_are_counted_by_where_they_lead() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            assert connections_to(os.getpid(), {port}) == 1
            assert connections_to(os.getpid(), {1}) == 0
        assert connections_to(os.getpid(), {port}) == 0


def test_pipes_are_seen_and_a_process_that_is_gone_has_nothing() -> None:
    read, write = os.pipe()
    assert sum(link.startswith("pipe:") for link in links(os.getpid())) >= 2
    os.close(read)
    os.close(write)
    assert list(links(2**22 + 1)) == []

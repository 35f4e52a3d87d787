"""Addresses of brokers as a user gives them, looked at before a library does."""

from __future__ import annotations

import re

from assignor_bridge.errors import OptionError

_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:.%\w]+\]|[^\s:\[\]/]+):(\d+)")
_PORTS = range(1, 65_536)


def check_servers(option: str, text: str) -> None:
    """Refuse what is no list of `host:port`: librdkafka wraps ports, and waits for odd hosts.

    Raises
    ------
    OptionError
        Naming the option and the address.
    """
    servers = [server.strip() for server in text.split(",")]
    for server in [server for server in servers if server] or [""]:
        found = _SERVER.fullmatch(server.rpartition("://")[2])
        if found is None:
            raise OptionError(f"{option} {server!r}: host:port is expected")
        if len(found[1]) > len("65535") or int(found[1]) not in _PORTS:
            raise OptionError(f"{option} {server!r}: the port must be from 1 to 65535")

"""Check broker addresses and topic names in commands and jobs."""

from __future__ import annotations

import re

from assignor_bridge.errors import OptionError
from streaming.kafka.utf8 import is_utf8

_SERVER = re.compile(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:\[\]/]+)):(\d+)")
_PORTS = range(1, 65_536)
#: Topic names that Kafka accepts (`Topic.validate`).
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def check_topic(name: str) -> str:
    """Return the topic name; raise OptionError if Kafka would reject it."""
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise OptionError(
            f"{name!r} is not a topic name: use 1 to 249 ASCII letters, digits, '.', '_' and '-' "
            "(not '.' or '..' alone)"
        )
    return name


def parse_servers(option: str, text: str) -> list[tuple[str, int]]:
    """Parse a list of `host:port`; each may have a protocol before it, as in Kafka's clients.

    librdkafka does not check addresses: it takes ports modulo 65536 and retries impossible hosts.
    Raises OptionError, which names `option`, if the list is empty or an address is invalid.

    >>> parse_servers("--bootstrap-server", "a:9092, SSL://[::1]:9093,")
    [('a', 9092), ('::1', 9093)]
    """
    if "@" in text:  # print only the part without credentials
        address = text.rpartition("@")[2]
        raise OptionError(
            f"{option} {address!r}: remove the credentials before it; only host:port is expected"
        )
    servers = [server.strip() for server in text.split(",")]
    return [_parse_server(option, s) for s in servers if s] or [_parse_server(option, "")]


def _parse_server(option: str, server: str) -> tuple[str, int]:
    protocol, _, address = server.rpartition("://")
    if protocol.lower() in ("http", "https"):
        raise OptionError(f"{option} {server!r}: host:port is expected, not an HTTP URL")
    match = _SERVER.fullmatch(address)
    host = (match[1] or match[2]) if match is not None else ""
    if match is None or not _is_valid_host(host) or not is_utf8(server):
        reason = f", and {host!r} is not a host name" if host else ""
        raise OptionError(f"{option} {server!r}: host:port is expected{reason}")
    port = match[3]
    if len(port) > len("65535") or int(port) not in _PORTS:
        raise OptionError(f"{option} {server!r}: the port must be from 1 to 65535")
    return host, int(port)


def _is_valid_host(host: str) -> bool:
    """Return whether DNS allows this name; `.svc`, left by an empty shell variable, is invalid."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False

"""The addresses of brokers and the names of topics, as options of commands and jobs give them."""

from __future__ import annotations

import re

from assignor_bridge.errors import OptionError
from streaming.kafka.utf8 import is_utf8

_SERVER = re.compile(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:\[\]/]+)):(\d+)")
_PORTS = range(1, 65_536)
#: As Kafka takes them (`Topic.validate`).
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def check_topic(name: str) -> str:
    """Return the name of a topic; raise OptionError if Kafka would refuse it."""
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise OptionError(
            f"{name!r}: a topic's name has letters, digits, '.', '_' and '-', 249 at most"
        )
    return name


def read_servers(option: str, text: str) -> list[tuple[str, int]]:
    """Read a list of `host:port`; a protocol may stand before each, as Kafka's clients take it.

    librdkafka would wrap ports and wait for odd hosts. Raises OptionError, in words that begin with
    the option.

    >>> read_servers("--bootstrap-server", "a:9092, SSL://[::1]:9093,")
    [('a', 9092), ('::1', 9093)]
    """
    if "@" in text:  # shown is only what cannot be a part of the login
        address = text.rpartition("@")[2]
        raise OptionError(
            f"{option} {address!r}: a login stands before it, host:port alone is expected"
        )
    servers = [server.strip() for server in text.split(",")]
    return [_read_server(option, server) for server in servers if server] or [
        _read_server(option, "")
    ]


def _read_server(option: str, server: str) -> tuple[str, int]:
    protocol, _, address = server.rpartition("://")
    if protocol.lower() in ("http", "https"):
        raise OptionError(f"{option} {server!r}: brokers do not use HTTP: host:port is expected")
    match = _SERVER.fullmatch(address)
    host = (match[1] or match[2]) if match is not None else ""
    if match is None or not _is_valid_host(host) or not is_utf8(server):
        raise OptionError(f"{option} {server!r}: host:port is expected")
    port = match[3]
    if len(port) > len("65535") or int(port) not in _PORTS:
        raise OptionError(f"{option} {server!r}: the port must be from 1 to 65535")
    return host, int(port)


def _is_valid_host(host: str) -> bool:
    """Whether DNS can have such a name: `.svc` is what an empty variable leaves of one."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False

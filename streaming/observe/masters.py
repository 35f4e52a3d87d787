"""Parse the addresses in a URL of a Spark master or Spark Connect server; find a reachable one."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_TIMEOUT_S = 5.0
#: Default ports by scheme; the URL of a standalone master always has a port.
_DEFAULT_PORTS = {"sc": "15002", "k8s": "443"}
_HTTP_PORT = "80"  # for k8s://http://…


def parse_addresses(url: str) -> list[str]:
    """Return each `host:port` in a master or server URL; empty for other URLs, such as `local[*]`.

    A user name before the host is dropped, because no master or server accepts one.

    >>> parse_addresses("spark://a:7077,b:7077"), parse_addresses("sc://server/;user_id=me")
    (['a:7077', 'b:7077'], ['server:15002'])
    >>> parse_addresses("k8s://https://10.0.0.1:6443"), parse_addresses("yarn")
    (['10.0.0.1:6443'], [])
    """
    scheme, separator, location = url.partition("://")
    if not separator or scheme not in ("spark", *_DEFAULT_PORTS):
        return []
    authority = location.removeprefix("https://").removeprefix("http://")
    if scheme != "spark":  # Spark does not ignore a path after a standalone master
        authority = authority.partition("/")[0]
    hosts = authority.rpartition("@")[2].split(",")
    default_port = _HTTP_PORT if location.startswith("http://") else _DEFAULT_PORTS.get(scheme)
    return [f"{h}:{default_port}" if default_port and not _has_port(h) else h for h in hosts]


def _has_port(host: str) -> bool:
    return ":" in host.rpartition("]")[2]  # an IPv6 address has colons inside its brackets


def find_reachable_address(addresses: Sequence[str]) -> str:
    """Return the first `host:port` that accepts a TCP connection; any program may be listening.

    Raises ValueError if an address is not `host:port`, and ConnectionError with the reasons if none
    accepts a connection.
    """
    problems = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        is_bare_ipv6 = ":" in host and not (host.startswith("[") and host.endswith("]"))
        if not host or is_bare_ipv6 or not port.isdecimal() or not 0 < int(port) < 2**16:
            raise ValueError(f"{address!r} is not host:port")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_TIMEOUT_S):
                return address
        except UnicodeError:
            raise ValueError(f"{address!r} is not host:port") from None
        except OSError as error:
            problems.append(f"{address}: {error.strerror or error}")
    raise ConnectionError("; ".join(problems))

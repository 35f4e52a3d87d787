"""Where a Spark is, by the URL of its master or server, and whether anyone answers there."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_TIMEOUT_S = 5.0
#: Ports of URLs that name none; a standalone master is always named with its port.
_PORTS = {"sc": "15002", "k8s": "443"}
_PLAIN_PORT = "80"  # of k8s://http://…


def addresses_of(url: str) -> list[str]:
    """Return the `host:port` of a master's or server's URL; none where it names no host.

    A login before a host, which none of them takes, is left out.

    >>> addresses_of("spark://a:7077,b:7077"), addresses_of("sc://server/;user_id=me")
    (['a:7077', 'b:7077'], ['server:15002'])
    >>> addresses_of("k8s://https://10.0.0.1:6443"), addresses_of("yarn")
    (['10.0.0.1:6443'], [])
    """
    scheme, found, rest = url.partition("://")
    if not found or scheme not in ("spark", *_PORTS):
        return []
    authority = rest.removeprefix("https://").removeprefix("http://")
    if scheme != "spark":  # a path behind a master is no part that Spark ignores
        authority = authority.partition("/")[0]
    hosts = authority.rpartition("@")[2].split(",")
    port = _PLAIN_PORT if rest.startswith("http://") else _PORTS.get(scheme)
    return [f"{host}:{port}" if port and not _has_port(host) else host for host in hosts]


def _has_port(host: str) -> bool:
    return ":" in host.rpartition("]")[2]  # an IPv6 address has colons inside its brackets


def find_reachable_address(addresses: Sequence[str]) -> str:
    """Return the first `host:port` that accepts a connection, whoever is there.

    Raises ValueError for one that is no `host:port`, and ConnectionError with why each did not
    answer when none does.
    """
    refused = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        bare = ":" in host and not (host.startswith("[") and host.endswith("]"))  # IPv6
        if not host or bare or not port.isdecimal() or not 0 < int(port) < 2**16:
            raise ValueError(f"{address!r} is not host:port")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_TIMEOUT_S):
                return address
        except UnicodeError:
            raise ValueError(f"{address!r} is not host:port") from None
        except OSError as error:
            refused.append(f"{address}: {error.strerror or error}")
    raise ConnectionError("; ".join(refused))

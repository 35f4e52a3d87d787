"""`assignor doctor --spark`: check that a Spark master or Spark Connect server answers."""

from __future__ import annotations

from assignor_bridge.errors import OptionError
from streaming.observe.check_result import Check
from streaming.observe.masters import find_reachable_address, parse_addresses


def check_spark_address(url: str) -> Check:
    """Check that an address in a URL accepts connections.

    Raises OptionError if the URL is invalid or has no address, such as `local` or `yarn`.
    """
    addresses = parse_addresses(url)
    if not addresses:
        raise OptionError(
            f"--spark {url!r}: the URL of a master or server is expected: spark://host:7077, "
            "sc://host:15002 (Connect) or k8s://host:443"
        )
    server = "the Spark Connect server" if url.startswith("sc:") else "the master"
    name = f"{server} answers"
    try:
        return Check(name, True, f"{find_reachable_address(addresses)} accepts connections")
    except ConnectionError as error:
        return Check(name, False, f"no answer ({error}): check that it is running")
    except ValueError as error:
        raise OptionError(f"--spark: {error}") from None

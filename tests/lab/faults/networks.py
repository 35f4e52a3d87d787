"""Faults of the network between the query and a broker: slow, narrow, silent, cut.

How long something lasts is part of the fault, so these wait by the clock.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.lab.faults.harm import PROXY, Kind

if TYPE_CHECKING:
    from tests.lab.faults.harm import Harm

_LATE_BYTES = 20_000


def slow_network(harm: Harm) -> None:
    """Delay each piece by 300 to 700 ms, in both directions."""
    harm.between.delay_s = (0.3, 0.7)
    _wait_for_late_bytes(harm)


def narrow_network(harm: Harm) -> None:
    """Let 10 KB a second through each connection."""
    harm.between.bytes_per_s = 10_000
    _wait_for_late_bytes(harm)


def _wait_for_late_bytes(harm: Harm) -> None:
    """Wait for batches whose bytes had to wait."""
    before = harm.between.late_bytes
    harm.scene.wait_for_batches(3, 240)
    harm.note("bytes that had to wait", late := harm.between.late_bytes - before)
    assert late > _LATE_BYTES, f"only {late} bytes had to wait"


def cut_connections(harm: Harm) -> None:
    """Reset all connections again and again."""
    for _ in range(8):
        time.sleep(harm.scene.rng.uniform(0.1, 1.0))
        harm.note("connections reset", harm.between.cut())
    assert harm.did["connections reset"], "there was no connection to reset"
    harm.scene.wait_for_batches()


def half_closed_connections(harm: Harm) -> None:
    """End one direction of each connection, at random, again and again."""
    for _ in range(5):
        time.sleep(harm.scene.rng.uniform(0.1, 1.0))
        harm.note("connections half closed", harm.between.half_close())
    assert harm.did["connections half closed"], "there was no connection to close"
    harm.scene.wait_for_batches()


def silent_network(harm: Harm) -> None:
    """Pass nothing on for some seconds, less and more than a request waits, and tell nobody."""
    for seconds in (harm.scene.rng.uniform(3, 6), 12):
        harm.between.is_silent = True
        time.sleep(seconds)
        harm.between.is_silent = False
        harm.note("silences")
        harm.scene.wait_for_batches()


def slow_and_cut(harm: Harm) -> None:
    """Reset connections of a slow network."""
    harm.between.delay_s = (0.02, 0.2)
    cut_connections(harm)


KINDS = (
    Kind("slow network", PROXY, slow_network),
    Kind("narrow network", PROXY, narrow_network),
    Kind("connections cut", PROXY, cut_connections),
    Kind("connections half closed", PROXY, half_closed_connections),
    Kind("silent network", PROXY, silent_network),
    Kind("slow network, connections cut", PROXY, slow_and_cut),
)

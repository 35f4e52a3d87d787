"""A broker with a second way to it that takes longer: a proxy that delays what passes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.chaos_proxy import run_proxied_broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.kafka.embedded import EmbeddedBroker


@contextmanager
def far_broker(round_trip_s: float) -> Iterator[tuple[EmbeddedBroker, str]]:
    """Give a broker, and the address at which the same one answers after this time."""
    with run_proxied_broker() as (broker, proxy):
        proxy.delay_s = (round_trip_s / 2, round_trip_s / 2)
        yield broker, proxy.address

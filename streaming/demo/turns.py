"""Two modes take turns: each is given the next batch of the same records, while the other waits.

Who goes first alternates, so that what a batch leaves behind (garbage, a busy disk) meets both.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from streaming.demo.flights import Expected, Flight

_T = TypeVar("_T")


class Player(Protocol):
    """Whoever takes turns."""

    def take(self, batch: int, flights: Sequence[Flight]) -> None:
        """Read the records of one batch, and return when they are committed."""


def in_turn(players: Sequence[_T], batch: int) -> Sequence[_T]:
    """Return who goes first, and who then: the first of `players` in batch 0, 2, 4, ...

    >>> in_turn("AB", 0), in_turn("AB", 1)
    ('AB', 'BA')
    """
    return players if batch % 2 == 0 else players[::-1]


def batch_sizes(rows: int, batches: int) -> list[int]:
    """Divide records into equal batches; the first also has what is left of the division.

    >>> batch_sizes(11, 3)
    [5, 3, 3]
    """
    if rows < batches:
        raise OptionError(f"{batches} batches need at least as many rows, {rows} were asked for")
    share = rows // batches
    return [rows - share * (batches - 1), *[share] * (batches - 1)]


def take_turns(
    players: Sequence[Player],
    flights: Iterable[Flight],
    sizes: Sequence[int],
    expected: Expected,
    on_turn: Callable[[], None] = lambda: None,
) -> None:
    """Give each player each batch, and add the flights to what their tables must hold."""
    left = iter(flights)
    for batch, size in enumerate(sizes):
        records = list(islice(left, size))
        for flight in records:
            expected.add(flight)
        for player in in_turn(players, batch):
            player.take(batch, records)
            on_turn()

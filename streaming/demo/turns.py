"""Process each batch in one mode after the other, so that the modes do not compete for the machine.

The order alternates, so that a batch's garbage and pending writes affect both modes equally.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from streaming.demo.flights import ExpectedTable, Flight

_T = TypeVar("_T")


class BatchProcessor(Protocol):
    """A mode of the demo, or a stand-in for one in a test."""

    def process_batch(self, number: int, flights: Sequence[Flight]) -> None:
        """Process the records of one batch, and return after its commit."""


def alternate_order(items: Sequence[_T], batch_number: int) -> Sequence[_T]:
    """Return the items in the given order for even batches, and in reverse order for odd ones.

    >>> alternate_order("AB", 0), alternate_order("AB", 1)
    ('AB', 'BA')
    """
    return items if batch_number % 2 == 0 else items[::-1]


def compute_batch_sizes(rows: int, batches: int) -> list[int]:
    """Return equal batch sizes, the first plus the remainder; raise OptionError if rows < batches.

    >>> compute_batch_sizes(11, 3)
    [5, 3, 3]
    """
    if rows < batches:
        raise OptionError(f"--rows is {rows}: at least --batches ({batches}) is expected")
    size = rows // batches
    return [rows - size * (batches - 1), *[size] * (batches - 1)]


def take_turns(
    processors: Sequence[BatchProcessor],
    flights: Iterable[Flight],
    sizes: Sequence[int],
    expected_table: ExpectedTable,
    on_batch_end: Callable[[], None] = lambda: None,
) -> None:
    """Process each batch with each processor, and add its flights to `expected_table` once."""
    remaining_flights = iter(flights)
    for batch_number, size in enumerate(sizes):
        batch_flights = list(islice(remaining_flights, size))
        for flight in batch_flights:
            expected_table.add(flight)
        for processor in alternate_order(processors, batch_number):
            processor.process_batch(batch_number, batch_flights)
            on_batch_end()

"""A stable sort of non-negative integers, several times as fast as NumPy's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def stable_order(numbers: NDArray[np.integer]) -> NDArray[np.intp]:
    """Return the sort order of non-negative integers: `np.argsort(numbers, kind="stable")`.

    It sorts by 16 bits at a time, lowest bits first: NumPy has a radix sort for 16-bit integers.
    """
    max_number = int(numbers.max(initial=0))
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    shift = 16
    while max_number >> shift:
        digits = (numbers >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
        shift += 16
    return order

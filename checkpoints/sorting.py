"""Stable sorts of small whole numbers, several times as fast as NumPy's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def stable_order(numbers: NDArray[np.integer]) -> NDArray[np.intp]:
    """Return the order of whole numbers from 0, as `np.argsort(numbers, kind="stable")` does.

    Sixteen bits at a time, from the low ones up: NumPy sorts those by counting.
    """
    largest = int(numbers.max(initial=0))
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    shift = 16
    while largest >> shift:
        digits = (numbers >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
        shift += 16
    return order

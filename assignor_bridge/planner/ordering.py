"""Sorting columns faster than NumPy does by itself: most of what the planner sorts is small."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints


def stable_order(numbers: Ints) -> Ints:
    """Sort whole numbers from 0, as `np.argsort(numbers, kind="stable")` does.

    16 bits at a time, from the low ones up: those NumPy sorts by counting.
    """
    most = int(numbers.max(initial=0))
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    shift = 16
    while most >> shift:
        digits = (numbers >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
        shift += 16
    return order


def sorting(ties: tuple[Ints | Floats, ...], *keys: Ints) -> Ints:
    """Give the order by `keys`, the last counting most, then by `ties`: as `np.lexsort` does.

    The keys are packed into one integer where they fit, and ties are looked at only where there
    are any: several times as fast, most of all when the rows are in order already.
    """
    packed, span = np.zeros(len(keys[0]), np.int64), 1
    for key in keys:
        least, most = int(key.min(initial=0)), int(key.max(initial=0))
        if least < 0 or span * (most + 1) >= 1 << 63:
            return np.asarray(np.lexsort((*ties, *keys)))
        packed += key * span
        span *= most + 1
    steps = np.diff(packed)
    if (steps > 0).all():
        return np.arange(len(packed))
    order = stable_order(packed)
    packed = packed[order]
    same = packed[1:] == packed[:-1]
    if same.any():
        tied = np.append(False, same) | np.append(same, False)
        rows = order[tied]
        order[tied] = rows[np.lexsort((*(tie[rows] for tie in ties), packed[tied]))]
    return order

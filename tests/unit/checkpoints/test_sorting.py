"""The stable sort by 16 bits at a time gives NumPy's order."""

from __future__ import annotations

import numpy as np
import pytest

from checkpoints.sorting import stable_order


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.int64, np.uint16])
@pytest.mark.parametrize("limit", [1, 7, 1 << 14, 1 << 16, 1 << 20, 1 << 40])
def test_stable_order(kind: type[np.integer], limit: int) -> None:
    top = min(limit, int(np.iinfo(kind).max))
    numbers = np.random.default_rng(1).integers(0, top, 5_000).astype(kind)
    numbers[-1] = top - 1
    assert (stable_order(numbers) == np.argsort(numbers, kind="stable")).all()
    assert not len(stable_order(numbers[:0]))

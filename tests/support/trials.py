"""On how many examples a property is tried: `make long` tries five times as many as `make test`."""

from __future__ import annotations

import os

from hypothesis import settings

_FACTOR = int(os.environ.get("TRIALS_FACTOR", "1"))


def trials(count: int) -> settings:
    """Return the settings of a property that `make test` tries on this many examples."""
    return settings(max_examples=count * _FACTOR)

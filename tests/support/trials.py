"""Number of examples for property tests; `make long` runs five times as many as `make test`."""

from __future__ import annotations

import os

from hypothesis import settings

_FACTOR = int(os.environ.get("TRIALS_FACTOR", "1"))


def trials(count: int) -> settings:
    """Return the settings of a property with this number of examples in `make test`."""
    return settings(max_examples=count * _FACTOR)

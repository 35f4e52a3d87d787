"""The fixtures of the integration tests, for those that only `make long` runs."""

from __future__ import annotations

from tests.integration.conftest import (
    finish_delta_writers,
    fail_on_fallbacks,
    proxied,
)

__all__ = ["finish_delta_writers", "fail_on_fallbacks", "proxied"]

"""Reuse the fixtures of the integration tests for the tests of `make long`."""

from __future__ import annotations

from tests.integration.conftest import (
    fail_on_fallbacks,
    finish_delta_writers,
    proxied,
)

__all__ = ["fail_on_fallbacks", "finish_delta_writers", "proxied"]

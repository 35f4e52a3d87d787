"""The drivers, servers and brokers of these tests live for a query or two."""

from __future__ import annotations

from tests.support.quick_jvms import start_jvms_quickly

start_jvms_quickly()
